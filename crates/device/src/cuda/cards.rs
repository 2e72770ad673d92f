//! The graphics cards of this machine.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute};

use super::driver_error::driver_error;
use super::{Card, Compiler, Cubins, Cuda, Library};
use crate::gpu::{Driver, GpuError};

/// Minimum major version of CUDA whose driver can load the compiled kernels.
const MIN_CUDA: i32 = 12;

/// Opens cards, each once: devices that are parts of one card share it.
#[derive(Debug)]
pub struct Cards {
    /// The text of `thalweg.cuh`.
    header: &'static str,
    found: Option<(Vec<Card>, Arc<Cubins>)>,
    opened: HashMap<usize, Arc<Cuda>>,
}

impl Cards {
    /// For kernels that include this header. Nothing is opened yet.
    pub fn new(header: &'static str) -> Cards {
        Cards {
            header,
            found: None,
            opened: HashMap::new(),
        }
    }

    /// The card of this number.
    ///
    /// # Errors
    /// As [`cards`]; [`GpuError::Missing`] without NVRTC, unless machine code was made ahead;
    /// [`GpuError::NoSuchCard`].
    pub fn open(&mut self, number: usize) -> Result<Arc<dyn Driver>, GpuError> {
        if let Some(driver) = self.opened.get(&number) {
            return Ok(driver.clone());
        }
        if self.found.is_none() {
            let cards = cards()?;
            let (compiler, made) = (compiler(self.header), Cubins::made_folder());
            let compiler = match made {
                Some(_) => compiler,
                None => Ok(compiler?),
            };
            let cubins = Cubins::new(self.header, compiler, Cubins::usual_folder());
            self.found = Some((cards, Arc::new(cubins.with_made(made))));
        }
        let Some((cards, cubins)) = &self.found else {
            return Err(GpuError::NoCard);
        };
        let card = cards.get(number).ok_or(GpuError::NoSuchCard {
            number,
            count: cards.len(),
        })?;
        let driver = Arc::new(Cuda::open(card.clone(), cubins.clone())?);
        for other in self.opened.values() {
            driver.reach(other);
            other.reach(&driver);
        }
        self.opened.insert(number, driver.clone());
        Ok(driver)
    }
}

/// Returns the compiler, if this machine's driver loads its code.
fn compiler(header: &'static str) -> Result<Compiler, GpuError> {
    let compiler = Compiler::open(header)?;
    // A driver loads the machine code of its own major version, and of earlier ones.
    let (found, needed) = (driver_version()?, compiler.version().0);
    match found / 1000 < needed {
        true => Err(GpuError::OldDriver { found, needed }),
        false => Ok(compiler),
    }
}

/// Returns the cards that the driver finds. It never panics, whatever is missing.
///
/// # Errors
/// [`GpuError::Missing`] without a driver, [`GpuError::OldDriver`], [`GpuError::NoCard`], or the driver's error.
pub fn cards() -> Result<Vec<Card>, GpuError> {
    Library::Driver.open()?;
    let version = driver_version()?;
    if version / 1000 < MIN_CUDA {
        return Err(GpuError::OldDriver {
            found: version,
            needed: MIN_CUDA,
        });
    }
    match result::init() {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Err(GpuError::NoCard),
        other => other.map_err(|e| driver_error("start", e))?,
    }
    let count = match result::device::get_count() {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => 0,
        other => other.map_err(|e| driver_error("count the cards", e))?,
    };
    if count == 0 {
        return Err(GpuError::NoCard);
    }
    (0..count).map(card).collect()
}

/// The version of CUDA that the driver, which is there, is for.
fn driver_version() -> Result<i32, GpuError> {
    let mut version = 0;
    // SAFETY: the driver is there, and `version` lives through the call.
    let told = unsafe { sys::cuDriverGetVersion(&mut version).result() };
    told.map_err(|e| driver_error("tell its version", e))?;
    Ok(version)
}

fn card(number: i32) -> Result<Card, GpuError> {
    let device = result::device::get(number).map_err(|e| driver_error("open a card", e))?;
    let attribute = |which: CUdevice_attribute| {
        // SAFETY: `device` was just given by the driver.
        let value = unsafe { result::device::get_attribute(device, which) };
        value.map_err(|e| driver_error("describe a card", e))
    };
    use CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    // SAFETY: as above.
    let memory = unsafe { result::device::total_mem(device) };
    Ok(Card {
        number,
        name: result::device::get_name(device).map_err(|e| driver_error("name a card", e))?,
        capability: (attribute(MAJOR)?, attribute(MINOR)?),
        memory: memory.map_err(|e| driver_error("tell a card's memory", e))?,
    })
}
