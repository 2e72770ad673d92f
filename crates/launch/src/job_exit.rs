//! End of a job, for the launcher's process.

use crate::screen::LostLines;

/// Exit code of a job whose tasks have all succeeded, but whose output is lost in part: `EX_IOERR`.
const EX_IOERR: u8 = 74;

/// End of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobExit {
    /// Exit code for the launcher's process.
    pub code: u8,
    /// Lines for the user, for standard error.
    pub messages: Vec<String>,
}

impl JobExit {
    /// Exit code of a process or of a signal, and a line for the user.
    pub(crate) fn new(code: i32, message: String) -> JobExit {
        JobExit {
            code: u8::try_from(code).unwrap_or(1),
            messages: vec![message],
        }
    }

    /// End of a job whose tasks have all succeeded: an error if lines of theirs are lost. `None` are lines that the screen
    /// has not written in time.
    pub(crate) fn success(lost: Option<LostLines>) -> JobExit {
        let reason = match lost {
            Some(lost) if lost.count == 0 => {
                return JobExit {
                    code: 0,
                    messages: Vec::new(),
                };
            }
            Some(lost) => lost.error.map_or_else(String::new, |e| e.to_string()),
            None => "nobody reads them".to_owned(),
        };
        JobExit::new(
            EX_IOERR.into(),
            format!(
                "error: all tasks are done, but lines of theirs could not be written: {reason}"
            ),
        )
    }
}
