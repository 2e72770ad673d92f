//! Plans of libraries that are tried for a call.

use super::driver_api::Stream;
use crate::gpu::{Address, GpuError};

/// The most plans that are tried for a call.
pub(super) const MAX_CANDIDATES: usize = 5;

/// A plan for a call, which can be run.
pub(super) trait Candidate {
    /// Bytes that it works with.
    fn workspace(&self) -> usize;

    /// Submits it to a stream.
    ///
    /// # Safety
    /// The addresses are those of two inputs and an output as large as the call's, and of a workspace of its length;
    /// nothing else uses the output and the workspace until the stream has run it.
    unsafe fn submit(
        &self,
        addresses: [Address; 3],
        workspace: Address,
        stream: Stream,
    ) -> Result<(), GpuError>;
}
