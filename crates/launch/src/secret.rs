//! Generates the secret of a job, by which its processes know each other.

use crate::error::Result;

/// Returns a new secret for a job: 128 random bits, in hexadecimal.
///
/// # Errors
/// The system has no random numbers.
pub fn job_secret() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
