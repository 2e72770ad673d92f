//! What kernels of several families share: the way to the functions on slices in [`crate::cpu`].

use thalweg_device::{Cpu, Isa};

use crate::cpu;

/// The instructions of a device's CPU, as the functions on slices name them.
pub(crate) fn isa(cpu: &Cpu) -> cpu::Isa {
    // Both lists go from narrow to wide over the same levels.
    let level = Isa::available().position(|isa| isa == cpu.isa());
    level
        .and_then(|level| cpu::Isa::available().nth(level))
        .unwrap_or(cpu::Isa::portable())
}

/// The threads and instructions of a device's CPU, for the functions on slices.
pub(crate) fn on(cpu: &Cpu) -> cpu::Cpu<'_> {
    cpu::Cpu {
        pool: cpu.pool(),
        isa: isa(cpu),
    }
}
