//! The CPU as a device: its threads and its instructions.

use std::num::NonZero;

use crate::isa::Isa;
use crate::pool::ThreadPool;

/// The processor, with threads of its own.
pub struct Cpu {
    pool: ThreadPool,
    isa: Isa,
}

impl Cpu {
    /// A CPU device that works with `threads` threads, the calling one among them; 0 stands for as
    /// many as the machine runs at once.
    pub fn new(threads: usize) -> Cpu {
        Cpu::with_isa(threads, Isa::detect())
    }

    /// As [`Cpu::new`], with kernels for these instructions and none beyond.
    pub fn with_isa(threads: usize, isa: Isa) -> Cpu {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            n => n,
        };
        Cpu {
            pool: ThreadPool::new(threads),
            isa,
        }
    }

    /// Its threads.
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// The instructions that its kernels use.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}
