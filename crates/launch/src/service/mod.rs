//! Services: one program on one host that listens at a port, such as a notebook server, and all processes that it starts.

mod guard;
mod job;
#[cfg(target_os = "linux")]
mod reaper;

pub use guard::run_guard;
pub use job::{ServiceJob, ServicePlace, ServiceStart};
#[cfg(target_os = "linux")]
pub use reaper::run_reaper;

/// Does not run: the system cannot adopt the processes of others.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn run_reaper(_: &[String]) -> crate::Result<u8> {
    Err("a reaper needs Linux".into())
}
