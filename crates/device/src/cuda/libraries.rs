//! The libraries that compute for a card, opened at their first use.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use thalweg_tensor::sync::Unpoisoned;

use super::candidate::Candidate;
use super::cublaslt::{Gemms, MatmulPlan};
use super::cudnn::{ConvolutionPlan, Convolutions};
use super::driver_api::{DriverApi, Stream};
use super::trials::CallTrials;
use super::{Card, Library};
use crate::gpu::{Address, Call, Engine, GpuError, Handle, ReadyCall};

/// GEMMs and convolutions, where there are libraries for them.
#[derive(Debug)]
pub(super) struct Libraries {
    /// Bytes of the card's memory.
    memory: usize,
    trials: CallTrials,
    state: Mutex<LibraryState>,
}

/// A library after the search for it: opened, or the reason that it is not there.
type Opened<L> = Result<Arc<L>, String>;

#[derive(Debug, Default)]
struct LibraryState {
    /// Plans go before the handles of their libraries.
    plans: Vec<Arc<LibraryPlan>>,
    /// `None` before the search for it.
    gemms: Option<Opened<Gemms>>,
    convolutions: Option<Opened<Convolutions>>,
    /// By call, and whether TF32 may be used.
    known: HashMap<(Call, bool), Result<ReadyCall, String>>,
}

/// A plan of a library. The plan goes before the library's handle.
#[derive(Debug)]
enum LibraryPlan {
    Gemm(MatmulPlan, Arc<Gemms>),
    Convolution(ConvolutionPlan, Arc<Convolutions>),
}

impl Candidate for LibraryPlan {
    fn workspace(&self) -> usize {
        match self {
            LibraryPlan::Gemm(plan, _) => plan.workspace,
            LibraryPlan::Convolution(plan, _) => plan.workspace,
        }
    }

    unsafe fn submit(
        &self,
        addresses: [Address; 3],
        workspace: Address,
        stream: Stream,
    ) -> Result<(), GpuError> {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                LibraryPlan::Gemm(plan, l) => l.submit(plan, addresses, workspace, stream),
                LibraryPlan::Convolution(plan, l) => l.submit(plan, addresses, workspace, stream),
            }
        }
    }
}

impl LibraryPlan {
    /// The version of its library, where that reports one.
    fn library_version(&self) -> Option<u64> {
        match self {
            LibraryPlan::Gemm(_, library) => library.version,
            LibraryPlan::Convolution(_, library) => library.version,
        }
    }

    fn engine(&self) -> Option<Engine> {
        match self {
            LibraryPlan::Gemm(..) => None,
            LibraryPlan::Convolution(plan, _) => Some(plan.engine),
        }
    }
}

/// Opens a library, once. One that is not there or that fails is no error of the program, as kernels
/// compute as well.
fn opened<L>(
    kept: &mut Option<Opened<L>>,
    open: impl FnOnce() -> Result<L, GpuError>,
) -> Opened<L> {
    let open = || open().map(Arc::new).map_err(|e| e.to_string());
    kept.get_or_insert_with(open).clone()
}

impl LibraryState {
    /// cuDNN, after cuBLASLt: its engines call that one, and end the process where it is missing.
    fn convolutions(&mut self, memory: usize) -> Opened<Convolutions> {
        opened(&mut self.gemms, Gemms::open)?;
        opened(&mut self.convolutions, || Convolutions::open(memory))
    }

    /// The plans for a call, the best by the library's heuristics first; at least one.
    fn candidates(
        &mut self,
        call: &Call,
        tf32: bool,
        memory: usize,
    ) -> Result<Vec<LibraryPlan>, String> {
        match call {
            Call::Gemm(gemm) => {
                let library = opened(&mut self.gemms, Gemms::open)?;
                let plans = library.plans(gemm, tf32)?.into_iter();
                Ok(plans
                    .map(|p| LibraryPlan::Gemm(p, library.clone()))
                    .collect())
            }
            Call::Convolution(convolution) => {
                let library = self.convolutions(memory)?;
                let plans = library.plans(convolution, tf32)?.into_iter();
                let plan = |p| LibraryPlan::Convolution(p, library.clone());
                Ok(plans.map(plan).collect())
            }
        }
    }
}

impl Libraries {
    /// For a card. The fastest plan of each call is kept in a folder, if there is one.
    pub(super) fn new(api: DriverApi, card: &Card, folder: Option<PathBuf>) -> Libraries {
        Libraries {
            memory: card.memory,
            trials: CallTrials::new(api, card, folder),
            state: Mutex::default(),
        }
    }

    /// Prepares a call, once: by the fastest of the library's plans that runs. The thread is in the card's context, and
    /// captures nothing.
    ///
    /// # Errors
    /// As [`crate::gpu::Driver::prepare`].
    pub(super) fn prepare(&self, call: &Call, tf32: bool) -> Result<ReadyCall, String> {
        let mut state = self.state.lock().unpoisoned();
        let key = (*call, tf32);
        if let Some(known) = state.known.get(&key) {
            return known.clone();
        }
        let ready = self.prepared(&mut state, call, tf32);
        state.known.insert(key, ready.clone());
        ready
    }

    fn prepared(
        &self,
        state: &mut LibraryState,
        call: &Call,
        tf32: bool,
    ) -> Result<ReadyCall, String> {
        let mut candidates = state.candidates(call, tf32, self.memory)?;
        let version = candidates.first().and_then(LibraryPlan::library_version);
        let version = version.unwrap_or(0);
        let best = self.trials.fastest(call, tf32, version, &candidates)?;
        let plan = candidates.swap_remove(best);
        let ready = ReadyCall {
            handle: state.plans.len() as Handle,
            workspace: plan.workspace(),
            engine: plan.engine(),
        };
        state.plans.push(Arc::new(plan));
        Ok(ready)
    }

    /// The libraries that have been opened, with their files.
    pub(super) fn opened(&self) -> Vec<(&'static str, PathBuf)> {
        let state = self.state.lock().unpoisoned();
        let gemms = state.gemms.as_ref().and_then(|l| l.as_ref().ok());
        let convolutions = state.convolutions.as_ref().and_then(|l| l.as_ref().ok());
        let gemms = gemms.map(|l| (Library::CublasLt.name(), l.path.clone()));
        let convolutions = convolutions.map(|l| (Library::Cudnn.name(), l.path.clone()));
        gemms.into_iter().chain(convolutions).collect()
    }

    /// Returns the card's properties, as cuDNN writes them. The thread is in the card's context.
    ///
    /// # Errors
    /// [`GpuError::Driver`], without a cuDNN that reports them.
    pub(super) fn cudnn_properties(&self) -> Result<String, GpuError> {
        let mut state = self.state.lock().unpoisoned();
        let library = state.convolutions(self.memory);
        drop(state);
        let library = library.map_err(|reason| GpuError::Driver {
            what: "open cuDNN",
            reason,
        })?;
        library.card_properties()
    }

    /// Submits a call to a stream.
    ///
    /// # Safety
    /// As `submit` of the call's library.
    pub(super) unsafe fn submit(
        &self,
        call: Handle,
        addresses: [Address; 3],
        workspace: Address,
        stream: Stream,
    ) -> Result<(), GpuError> {
        let state = self.state.lock().unpoisoned();
        let plan = usize::try_from(call)
            .ok()
            .and_then(|c| state.plans.get(c).cloned());
        drop(state);
        let Some(plan) = plan else {
            return Err(GpuError::Driver {
                what: "call a library",
                reason: "it was not made ready by this driver".to_owned(),
            });
        };
        // SAFETY: by the caller's promise.
        unsafe { plan.submit(addresses, workspace, stream) }
    }
}
