//! Status codes of cuDNN.

use std::fmt;

/// A status code of cuDNN, as a number: libraries that are newer than these bindings answer codes
/// that no list has, and a Rust enum must not hold them.
///
/// Thousands are classes (`CUDNN_STATUS_CATEGORY` of `cudnn_graph.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(u32);

impl Status {
    /// From the return value of a function of the library.
    ///
    /// # Errors
    /// The status, unless it is 0.
    pub(super) fn of(code: u32) -> Result<(), Status> {
        match code {
            0 => Ok(()),
            code => Err(Status(code)),
        }
    }

    fn class(self) -> &'static str {
        match self.0 / 1000 {
            1 => "the library is not ready",
            2 => "a parameter it does not take",
            3 => "not supported",
            4 => "an error inside the library",
            5 => "the execution failed",
            _ => "a code of an unknown class",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}, {}", self.0, self.class())
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn a_status_that_no_list_has_is_told_by_its_class() {
        assert_eq!(Status::of(0), Ok(()));
        let text = |code| Status::of(code).unwrap_err().to_string();
        assert_eq!(text(2012), "status 2012, a parameter it does not take");
        assert_eq!(text(3999), "status 3999, not supported");
        assert_eq!(text(77_000), "status 77000, a code of an unknown class");
    }
}
