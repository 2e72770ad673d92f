//! Access to the functions on slices in [`thalweg_cpu`].

use thalweg_device::Cpu;

use thalweg_cpu as cpu;

/// Threads and instruction set of a device's CPU, for functions on slices.
pub(crate) fn slice_cpu(cpu: &Cpu) -> cpu::Cpu<'_> {
    cpu::Cpu {
        pool: cpu.pool(),
        isa: cpu.isa(),
    }
}
