//! Protocol version between tasks, and the error of a mismatch.

use super::messages as wire;
use crate::error::{Cause, ClusterError};

/// Version of the protocol. It changes when a task of the previous version would misread a message.
const PROTOCOL: u32 = 2;
/// Version of this program.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// Maximum number of characters of another program's version in an error.
const MAX_PROGRAM_NAME: usize = 40;

/// Returns the version of this program.
pub(crate) fn own_version() -> wire::Version {
    wire::Version {
        protocol: PROTOCOL,
        program: PROGRAM.to_owned(),
    }
}

/// Checks that this program understands a peer of this version. `own` and `other` name the two tasks.
///
/// # Errors
/// The versions differ.
pub(crate) fn check_version(
    own: &str,
    other: &str,
    version: Option<&wire::Version>,
) -> Result<(), ClusterError> {
    let theirs = match version {
        Some(v) if v.protocol == PROTOCOL => return Ok(()),
        Some(v) => {
            let program: String = v.program.chars().take(MAX_PROGRAM_NAME).collect();
            format!("Thalweg {program}, protocol {}", v.protocol)
        }
        None => "a Thalweg that tells no version".to_owned(),
    };
    let text = format!(
        "{other} runs {theirs}; {own} runs Thalweg {PROGRAM}, protocol {PROTOCOL}. They do not understand each \
         other: run one version on all tasks and clients"
    );
    Err(ClusterError::new(Cause::Unsupported, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_mismatch_names_both_versions() {
        check_version("own", "other", Some(&super::own_version())).unwrap();
        let newer = wire::Version {
            protocol: PROTOCOL + 1,
            program: "7.8.9".to_owned(),
        };
        let error = check_version(
            "/job:ps/task:0 at a:1",
            "/job:worker/task:1 at b:2",
            Some(&newer),
        );
        let error = error.unwrap_err();
        assert_eq!(error.cause, Cause::Unsupported);
        let parts = [
            "/job:ps/task:0 at a:1",
            "/job:worker/task:1 at b:2",
            "7.8.9, protocol 3",
            PROGRAM,
            "protocol 2",
        ];
        for part in parts {
            assert!(error.message.contains(part), "{part}: {error}");
        }
        let old = check_version("own", "other", None).unwrap_err();
        assert!(old.message.contains("tells no version"), "{old}");
    }

    #[test]
    fn a_long_name_of_a_program_is_cut_in_the_error() {
        let other = wire::Version {
            protocol: PROTOCOL + 1,
            program: "é".repeat(MAX_PROGRAM_NAME + 1),
        };
        let error = check_version("own", "other", Some(&other)).unwrap_err();
        let kept = "é".repeat(MAX_PROGRAM_NAME);
        assert!(
            error.message.contains(&format!("Thalweg {kept},")),
            "{error}"
        );
        // The program may differ, if the protocol does not.
        let same = wire::Version {
            program: "0.0.0".to_owned(),
            ..own_version()
        };
        check_version("own", "other", Some(&same)).unwrap();
    }
}
