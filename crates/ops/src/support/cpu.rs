//! What kernels of several families share: the way to the functions on slices in [`thalweg_cpu`].

use thalweg_device::Cpu;

use thalweg_cpu as cpu;

/// The threads and instructions of a device's CPU, for the functions on slices.
pub(crate) fn on(cpu: &Cpu) -> cpu::Cpu<'_> {
    cpu::Cpu {
        pool: cpu.pool(),
        isa: cpu.isa(),
    }
}
