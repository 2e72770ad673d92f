//! `Failure`: the error type of all subcommands.

/// Error that ends a command; its text is written to standard error.
pub(crate) type Failure = Box<dyn std::error::Error>;
