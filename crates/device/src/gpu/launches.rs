//! The work of a GPU kernel: its launches, with library calls and a collective where it has them.

use smallvec::SmallVec;

use super::{GpuCollective, Launch, WithLibraries};

/// What a GPU's kernel does: its launches, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launches {
    /// In order; each may read what those before it wrote.
    pub list: SmallVec<[Launch; 1]>,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// What an element that cannot be taken is an error of, where there may be one.
    pub fault: Option<Fault>,
    /// Whether the variables behind its inputs get a value, and need not have one before.
    pub assigns: bool,
    /// What is done instead where libraries for it are there: the first of these whose calls all are
    /// taken.
    pub with_libraries: Vec<WithLibraries>,
    /// What is done together with the GPUs of other ranks, after the launches.
    pub collective: Option<GpuCollective>,
}

/// What is wrong with an element that a kernel cannot take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which input it is of.
    pub input: usize,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

impl From<Launch> for Launches {
    fn from(launch: Launch) -> Launches {
        Launches {
            list: SmallVec::from_iter([launch]),
            ..Launches::default()
        }
    }
}
