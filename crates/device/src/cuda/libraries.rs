//! The libraries that compute for a card, opened when something first asks for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUstream;

use super::Library;
use super::cublaslt::{self, Gemms};
use super::cudnn::{self, Convolutions};
use crate::gpu::{Address, Call, GpuError, Handle, ReadyCall};

/// GEMMs and convolutions, where there are libraries for them.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    state: Mutex<LibraryState>,
}

#[derive(Debug, Default)]
struct LibraryState {
    /// `None` where it has not been looked for.
    gemms: Option<Option<Arc<Gemms>>>,
    convolutions: Option<Option<Arc<Convolutions>>>,
    plans: Vec<LibraryPlan>,
    /// By call, and whether TF32 may be used: its plan, or none where the library does not take it.
    known: HashMap<(Call, bool), Option<ReadyCall>>,
}

#[derive(Clone, Debug)]
enum LibraryPlan {
    Gemm(Arc<Gemms>, Arc<cublaslt::MatmulPlan>),
    Convolution(Arc<Convolutions>, Arc<cudnn::ConvolutionPlan>),
}

/// Opens a library that is there; one that is not is no error, as kernels compute as well.
fn opened<L>(
    kept: &mut Option<Option<Arc<L>>>,
    library: Library,
    open: fn() -> Result<L, GpuError>,
) -> Result<Option<Arc<L>>, GpuError> {
    if let Some(known) = kept {
        return Ok(known.clone());
    }
    let found = match library.open() {
        Ok(()) => Some(Arc::new(open()?)),
        Err(_) => None,
    };
    *kept = Some(found.clone());
    Ok(found)
}

impl Libraries {
    /// Makes a call ready, once. The thread is in the card's context.
    pub(super) fn prepare(&self, call: &Call, tf32: bool) -> Result<Option<ReadyCall>, GpuError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.known.get(&(*call, tf32)) {
            return Ok(*known);
        }
        let plan = match call {
            Call::Gemm(gemm) => {
                let library = opened(&mut state.gemms, Library::CublasLt, Gemms::open)?;
                let planned = library.map(|l| Ok((l.plan(gemm, tf32)?, l))).transpose()?;
                planned.and_then(|(plan, l)| {
                    let plan = plan?;
                    Some((plan.workspace, LibraryPlan::Gemm(l, Arc::new(plan))))
                })
            }
            Call::Convolution(convolution) => {
                let kept = &mut state.convolutions;
                let library = opened(kept, Library::Cudnn, Convolutions::open)?;
                let planned = library
                    .map(|l| Ok((l.plan(convolution, tf32)?, l)))
                    .transpose()?;
                planned.and_then(|(plan, l)| {
                    let plan = plan?;
                    Some((plan.workspace, LibraryPlan::Convolution(l, Arc::new(plan))))
                })
            }
        };
        let ready = plan.map(|(workspace, plan)| {
            state.plans.push(plan);
            ReadyCall {
                handle: state.plans.len() as Handle - 1,
                workspace,
            }
        });
        state.known.insert((*call, tf32), ready);
        Ok(ready)
    }

    /// Hands a call to a stream.
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
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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
