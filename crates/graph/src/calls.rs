//! Calls: the part of an op's functions that runs.

/// The part that runs of the functions among an op's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// All of them, as far as the op knows; this is the value for an op that has no functions too.
    Whole,
    /// All of them, and any others of the library: those that an input holds, such as the functions of a dataset.
    Held,
    /// One of them runs as far as the needed outputs depend on it. Its arguments are the inputs but the first.
    Branch,
    /// Function `body` runs as far as the needed outputs and function `cond` depend on it, any number of times. Its
    /// arguments are the inputs.
    Loop,
}

impl Calls {
    /// `true` if the functions run as a whole, whichever outputs are needed.
    pub fn runs_whole(self) -> bool {
        matches!(self, Calls::Whole | Calls::Held)
    }
}
