//! The work of a GPU kernel: its launches, with library calls and a collective where it has them.

use smallvec::SmallVec;

use super::{GpuCollective, Launch, WithLibraries};

/// The work of a GPU's kernel: its launches, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launches {
    /// In order; each may read what those before it wrote.
    pub list: SmallVec<[Launch; 1]>,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// The error of a rejected element, where there may be one.
    pub fault: Option<Fault>,
    /// `true` if the variables behind its inputs get a value, and need not have one before.
    pub assigns: bool,
    /// Alternatives with libraries: the first of these whose calls can all be prepared replaces the launches.
    pub with_libraries: Vec<WithLibraries>,
    /// The collective with the GPUs of other ranks, after the launches.
    pub collective: Option<GpuCollective>,
}

/// The error of an element that a kernel rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of its input.
    pub input: usize,
    /// The mistake, and the values that are allowed.
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
