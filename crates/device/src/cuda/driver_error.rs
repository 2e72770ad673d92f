//! Errors of CUDA's driver.

use super::driver_api::DriverCode;
use crate::gpu::GpuError;

/// The error of a call of the driver that was to do `what`.
pub(super) fn driver_error(what: &'static str, code: DriverCode) -> GpuError {
    GpuError::Driver {
        what,
        // The name of the constant: asking the driver for more could fail as well.
        reason: code.to_string(),
    }
}
