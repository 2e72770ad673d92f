//! Time of a step: all instructions in turn on one thread, or on several threads at the same time.

/// Nanoseconds of an instruction beside its kernel, if one thread runs all instructions in turn.
const SERIAL_INSTRUCTION_NS: u64 = 50;

/// Nanoseconds of an instruction beside its kernel on several threads: decrementing the counters of its dependents, taking
/// it from a queue, and reading memory that another core has written.
pub const PARALLEL_INSTRUCTION_NS: u64 = 350;

/// Nanoseconds from a send until another thread sees the value.
pub const HANDOFF_NS: u64 = 1_000;

/// Nanoseconds until sleeping threads are awake.
const WAKE_NS: u64 = 50_000;

/// Estimate of a step over all of its devices, in nanoseconds.
///
/// ```
/// use thalweg_estimate::StepEstimate;
///
/// let mut step = StepEstimate::default();
/// // 100 instructions with kernels of 10 ms in all, on a device with 4 threads.
/// step.add_device(10_000_000, 100, 4);
/// let chain = || 2_000_000;
/// assert!(step.is_shorter_in_parallel(4, chain));
/// assert!(!step.is_shorter_in_parallel(1, chain));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StepEstimate {
    serial: u64,
    parallel: u64,
    busiest: u64,
}

impl StepEstimate {
    /// Adds a device: the nanoseconds of its kernels, the number of its instructions and of its threads.
    pub fn add_device(&mut self, kernels: u64, instructions: u64, threads: u64) {
        let serial = kernels.saturating_add(instructions * SERIAL_INSTRUCTION_NS);
        let parallel = kernels.saturating_add(instructions * PARALLEL_INSTRUCTION_NS);
        self.serial = self.serial.saturating_add(serial);
        self.parallel = self.parallel.saturating_add(parallel);
        self.busiest = self.busiest.max(parallel / threads);
    }

    /// `true` if the step is estimated to be shorter on threads that run on so many cores. A step takes no less than the
    /// longest path, the work of a device over its threads, and all work over the cores (Graham's bounds, 1969). The
    /// longest path is asked for only if the other bounds do not decide.
    pub fn is_shorter_in_parallel(&self, cores: usize, longest_path: impl FnOnce() -> u64) -> bool {
        let spread = self.parallel / cores as u64;
        let bound = spread.max(self.busiest).saturating_add(WAKE_NS);
        bound < self.serial && longest_path().saturating_add(WAKE_NS) < self.serial
    }
}
