//! The CPU as a kernel sees it: threads and an instruction set.

use crate::isa::Isa;
use crate::thread_pool::ThreadPool;

/// The threads that a kernel may use and the instructions that it may use on them.
#[derive(Clone, Copy, Debug)]
pub struct Cpu<'a> {
    /// The threads that share the work.
    pub pool: &'a ThreadPool,
    /// The instructions that every one of them understands.
    pub isa: Isa,
}
