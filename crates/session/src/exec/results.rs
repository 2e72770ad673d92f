//! Collects the results of a step.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_tensor::Tensor;

use super::{Step, copy};
use thalweg_plan::Home;
use thalweg_plan::SessionError;

impl Step<'_> {
    /// Copies or shares what was fetched, once all instructions have run.
    pub(crate) fn collect(
        &self,
        results: &mut SmallVec<[Option<Tensor>; 4]>,
    ) -> Result<(), SessionError> {
        let plan = self.plan;
        results.resize(plan.fetches.len(), None);
        for (index, (fetch, result)) in plan.fetches.iter().zip(results).enumerate() {
            let Some(fetch) = fetch else {
                *result = None;
                continue;
            };
            let error = |e: thalweg_device::KernelError| SessionError::Result {
                what: format!("result number {index}"),
                reason: e.to_string(),
            };
            let dims = fetch.dims.as_deref();
            let run = self.program_run(fetch.program as usize);
            // Into the tensor of the last step, if it has this size and nothing else holds it.
            if let (Some(old), Some(dims), Home::Arena(_) | Home::Staged(_)) = (
                result.as_mut(),
                dims,
                &plan.slot(fetch.program, fetch.slot).home,
            ) && old.dims() == dims
                && old.buffer().is_some_and(|b| Arc::strong_count(b) == 1)
            {
                // SAFETY: the step is over.
                let slot = unsafe { run.part.slot(fetch.slot) };
                if old.dtype() == slot.dtype {
                    copy(slot, old).map_err(error)?;
                    continue;
                }
            }
            *result = Some(run.tensor(fetch.slot, dims).map_err(error)?);
        }
        Ok(())
    }
}
