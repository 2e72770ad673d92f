//! The CPU as a device: its threads, its instructions, its memory.
//!
//! ```
//! use thalweg_device::Cpu;
//!
//! // Two parts of one processor, each with threads of its own.
//! let parts = [0, 1].map(|i| Cpu::new(2).named(Cpu::local(i), None));
//! assert_eq!(parts[1].name().index, Some(1));
//! assert_eq!(parts[1].pool().threads(), 2);
//! ```

use std::num::NonZero;
use std::sync::Arc;

use thalweg_graph::DeviceSpec;
use thalweg_tensor::Memory;

use crate::device_type::DeviceType;
use thalweg_cpu::isa::Isa;
use thalweg_cpu::thread_pool::ThreadPool;

/// The processor, or a part of it, with threads and memory of its own.
pub struct Cpu {
    name: DeviceSpec,
    pool: ThreadPool,
    isa: Isa,
    memory: Arc<Memory>,
}

impl Cpu {
    /// A CPU device that works with `threads` threads, the calling one among them; 0 stands for as
    /// many as the machine runs at once. It is number 0 of the local task.
    pub fn new(threads: usize) -> Cpu {
        Cpu::with_isa(threads, Isa::detect())
    }

    /// As [`Cpu::new`], with kernels for these instructions and none beyond.
    pub fn with_isa(threads: usize, isa: Isa) -> Cpu {
        let threads = match threads {
            0 => Cpu::available_threads(),
            n => n,
        };
        Cpu {
            name: Cpu::local(0),
            pool: ThreadPool::new(threads),
            isa,
            memory: Arc::new(Memory::new(None)),
        }
    }

    /// The same device under this name, with memory of at most `limit` bytes; `None` for as many
    /// as the system has.
    pub fn named(self, name: DeviceSpec, limit: Option<usize>) -> Cpu {
        Cpu {
            name,
            memory: Arc::new(Memory::new(limit)),
            ..self
        }
    }

    /// The same device with this memory. If it [shares](Memory::sharing), tensors that outlive a step are allocated where
    /// other processes of the machine can map them.
    pub fn with_memory(self, memory: Memory) -> Cpu {
        Cpu {
            memory: Arc::new(memory),
            ..self
        }
    }

    /// The name of CPU number `index` of the local task.
    pub fn local(index: u32) -> DeviceSpec {
        DeviceSpec {
            job: Some("localhost".into()),
            replica: Some(0),
            task: Some(0),
            device_type: Some(DeviceType::Cpu.name().into()),
            index: Some(index),
        }
    }

    /// Returns the number of threads that the machine runs at once.
    pub fn available_threads() -> usize {
        std::thread::available_parallelism().map_or(1, NonZero::get)
    }

    /// Its full name.
    pub fn name(&self) -> &DeviceSpec {
        &self.name
    }

    /// Its threads.
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// The instructions that its kernels use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The account of its memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_number_0_of_the_local_task_until_it_is_named() {
        let cpu = Cpu::new(1);
        assert_eq!(
            cpu.name().to_string(),
            "/job:localhost/replica:0/task:0/device:CPU:0"
        );
        let named = cpu.named(Cpu::local(3), Some(64));
        assert_eq!(named.name(), &Cpu::local(3));
        assert_eq!(named.memory().limit(), Some(64));
        assert!(named.memory().take(64) && !named.memory().take(1));
    }

    #[test]
    fn no_threads_stand_for_as_many_as_the_machine_runs() {
        assert_eq!(Cpu::new(0).pool().threads(), Cpu::available_threads());
        assert_eq!(Cpu::new(2).pool().threads(), 2);
    }

    #[test]
    fn a_cpu_counts_against_the_memory_that_it_is_given() {
        let shared = Cpu::new(1)
            .named(Cpu::local(0), Some(1 << 20))
            .with_memory(Memory::new(Some(64)).sharing(1 << 10));
        assert_eq!(shared.memory().limit(), Some(64));
    }
}
