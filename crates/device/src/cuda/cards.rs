//! The graphics cards of this machine.

use std::collections::HashMap;
use std::sync::Arc;

use super::driver_api::{CAPABILITY, DeviceNumber, DriverApi, DriverCode};
use super::driver_error::driver_error;
use super::{Card, Compiler, Cubins, Cuda};
use crate::gpu::{Driver, GpuError};

/// Minimum major version of CUDA whose driver can load the compiled kernels.
const MIN_CUDA: i32 = 12;

/// Opens cards, each once: devices that are parts of one card share it.
#[derive(Debug)]
pub struct Cards {
    /// The text of `thalweg.cuh`.
    header: &'static str,
    found: Option<(DriverApi, Vec<Card>, Arc<Cubins>)>,
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
            let api = DriverApi::open()?;
            let cards = cards_of(&api)?;
            let (compiler, made) = (compiler(self.header, &api), Cubins::made_folder());
            let compiler = match made {
                Some(_) => compiler,
                None => Ok(compiler?),
            };
            let cubins = Cubins::new(self.header, compiler, Cubins::usual_folder());
            self.found = Some((api, cards, Arc::new(cubins.with_made(made))));
        }
        let Some((api, cards, cubins)) = &self.found else {
            return Err(GpuError::NoCard);
        };
        let card = cards.get(number).ok_or(GpuError::NoSuchCard {
            number,
            count: cards.len(),
        })?;
        let driver = Arc::new(Cuda::with_driver(*api, card.clone(), cubins.clone())?);
        for other in self.opened.values() {
            driver.reach(other);
            other.reach(&driver);
        }
        self.opened.insert(number, driver.clone());
        Ok(driver)
    }
}

/// Returns the compiler, if this machine's driver loads its code.
fn compiler(header: &'static str, api: &DriverApi) -> Result<Compiler, GpuError> {
    let compiler = Compiler::open(header)?;
    // A driver loads the machine code of its own major version, and of earlier ones.
    let (found, needed) = (driver_version(api)?, compiler.version().0);
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
    cards_of(&DriverApi::open()?)
}

/// The cards of a driver that is open.
fn cards_of(api: &DriverApi) -> Result<Vec<Card>, GpuError> {
    let version = driver_version(api)?;
    if version / 1000 < MIN_CUDA {
        return Err(GpuError::OldDriver {
            found: version,
            needed: MIN_CUDA,
        });
    }
    // SAFETY: the driver is open.
    match DriverCode::of(unsafe { (api.init)(0) }) {
        Err(DriverCode::NO_DEVICE) => return Err(GpuError::NoCard),
        other => other.map_err(|e| driver_error("start", e))?,
    }
    let mut count = 0;
    // SAFETY: `count` lives through the call.
    match DriverCode::of(unsafe { (api.device_count)(&mut count) }) {
        Err(DriverCode::NO_DEVICE) => count = 0,
        other => other.map_err(|e| driver_error("count the cards", e))?,
    }
    if count == 0 {
        return Err(GpuError::NoCard);
    }
    (0..count).map(|number| card(api, number)).collect()
}

/// The version of CUDA that the driver is for.
fn driver_version(api: &DriverApi) -> Result<i32, GpuError> {
    api.version()
        .map_err(|e| driver_error("tell its version", e))
}

fn card(api: &DriverApi, number: i32) -> Result<Card, GpuError> {
    let device = api
        .card(number)
        .map_err(|e| driver_error("open a card", e))?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: `device` was just given by the driver, and `value` lives through the call.
        let code = unsafe { (api.device_attribute)(&mut value, which, device) };
        DriverCode::of(code).map_err(|e| driver_error("describe a card", e))?;
        Ok(value)
    };
    let [major, minor] = CAPABILITY;
    let mut memory = 0;
    // SAFETY: as above.
    let told = unsafe { (api.device_memory)(&mut memory, device) };
    DriverCode::of(told).map_err(|e| driver_error("tell a card's memory", e))?;
    Ok(Card {
        number,
        name: card_name(api, device).map_err(|e| driver_error("name a card", e))?,
        capability: (attribute(major)?, attribute(minor)?),
        memory,
    })
}

fn card_name(api: &DriverApi, device: DeviceNumber) -> Result<String, DriverCode> {
    let mut text = [0u8; 256];
    // SAFETY: the driver writes at most so many bytes.
    let code = unsafe { (api.device_name)(text.as_mut_ptr().cast(), text.len() as i32, device) };
    DriverCode::of(code)?;
    let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    Ok(String::from_utf8_lossy(&text[..end]).into_owned())
}
