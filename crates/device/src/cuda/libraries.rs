//! The libraries that compute for a card, opened at their first use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::CUstream;
use thalweg_tensor::sync::Unpoisoned;

use super::Library;
use super::cublaslt::{self, Gemms};
use super::cudnn::{self, Convolutions};
use crate::gpu::{Address, Call, GpuError, Handle, ReadyCall};

/// GEMMs and convolutions, where there are libraries for them.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    state: Mutex<LibraryState>,
}

/// A library after the search for it: opened, or the reason that it is not there.
type Opened<L> = Result<Arc<L>, String>;

#[derive(Debug, Default)]
struct LibraryState {
    /// `None` before the search for it.
    gemms: Option<Opened<Gemms>>,
    convolutions: Option<Opened<Convolutions>>,
    plans: Vec<LibraryPlan>,
    /// By call, and whether TF32 may be used.
    known: HashMap<(Call, bool), Result<ReadyCall, String>>,
}

#[derive(Clone, Debug)]
enum LibraryPlan {
    Gemm(Arc<Gemms>, Arc<cublaslt::MatmulPlan>),
    Convolution(Arc<Convolutions>, Arc<cudnn::ConvolutionPlan>),
}

/// Opens a library, once. One that is not there or that fails is no error of the program, as kernels
/// compute as well.
fn opened<L>(
    kept: &mut Option<Opened<L>>,
    library: Library,
    open: fn() -> Result<L, GpuError>,
) -> Opened<L> {
    let open = || {
        library
            .open()
            .and_then(|()| open())
            .map(Arc::new)
            .map_err(|e| e.to_string())
    };
    kept.get_or_insert_with(open).clone()
}

impl LibraryState {
    fn planned(&mut self, call: &Call, tf32: bool) -> Result<ReadyCall, String> {
        let (plan, workspace, engine) = match call {
            Call::Gemm(gemm) => {
                let library = opened(&mut self.gemms, Library::CublasLt, Gemms::open)?;
                let plan = library.plan(gemm, tf32)?;
                let workspace = plan.workspace;
                (LibraryPlan::Gemm(library, Arc::new(plan)), workspace, None)
            }
            Call::Convolution(convolution) => {
                let kept = &mut self.convolutions;
                let library = opened(kept, Library::Cudnn, Convolutions::open)?;
                let plan = library.plan(convolution, tf32)?;
                let (workspace, engine) = (plan.workspace, Some(plan.engine));
                (
                    LibraryPlan::Convolution(library, Arc::new(plan)),
                    workspace,
                    engine,
                )
            }
        };
        self.plans.push(plan);
        Ok(ReadyCall {
            handle: self.plans.len() as Handle - 1,
            workspace,
            engine,
        })
    }
}

impl Libraries {
    /// Prepares a call, once. The thread is in the card's context.
    ///
    /// # Errors
    /// As [`crate::gpu::Driver::prepare`].
    pub(super) fn prepare(&self, call: &Call, tf32: bool) -> Result<ReadyCall, String> {
        let mut state = self.state.lock().unpoisoned();
        let key = (*call, tf32);
        if let Some(known) = state.known.get(&key) {
            return known.clone();
        }
        let ready = state.planned(call, tf32);
        state.known.insert(key, ready.clone());
        ready
    }

    /// Returns the card's properties, as cuDNN writes them. The thread is in the card's context.
    ///
    /// # Errors
    /// [`GpuError::Driver`], without a cuDNN that reports them.
    pub(super) fn cudnn_properties(&self) -> Result<String, GpuError> {
        let mut state = self.state.lock().unpoisoned();
        let library = opened(&mut state.convolutions, Library::Cudnn, Convolutions::open);
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
        stream: CUstream,
    ) -> Result<(), GpuError> {
        let state = self.state.lock().unpoisoned();
        let plan = usize::try_from(call)
            .ok()
            .and_then(|c| state.plans.get(c).cloned());
        drop(state);
        // SAFETY: by the caller's promise.
        unsafe {
            match plan {
                Some(LibraryPlan::Gemm(l, plan)) => l.submit(&plan, addresses, workspace, stream),
                Some(LibraryPlan::Convolution(l, plan)) => {
                    l.submit(&plan, addresses, workspace, stream)
                }
                None => Err(GpuError::Driver {
                    what: "call a library",
                    reason: "it was not made ready by this driver".to_owned(),
                }),
            }
        }
    }
}
