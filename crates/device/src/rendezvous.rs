//! The rendezvous of a step: dependency counters of the instructions of all its programs, a queue of ready instructions
//! for each program, and the end of the step.
//!
//! A step runs one program on each device that takes part. An instruction waits for a number of others, of its own
//! program or (a receive) of another one. Each of them reports when it has run; the last one makes the instruction
//! ready. No call blocks here: a thread that finds nothing ready waits where its device's threads wait.
//!
//! Writes before an arrival are seen by the thread that takes the instruction which it made ready.
//!
//! ```
//! use thalweg_device::Rendezvous;
//!
//! // Two programs of one instruction each. That of program 1 waits for one other.
//! let step = Rendezvous::new([1, 1].into_iter());
//! step.reset([&[0][..], &[1]].into_iter());
//! assert_eq!((step.take(0), step.take(1)), (Some(0), None));
//!
//! // Program 0 has run its instruction, which was the last that the other one waited for.
//! assert!(step.arrive(1, 0));
//! step.push(1, 0);
//! assert!(step.finish_instruction(0));
//! assert_eq!(step.take(1), Some(0));
//! assert!(step.finish_instruction(1) && step.is_over());
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use smallvec::SmallVec;
use thalweg_tensor::sync::Unpoisoned;

/// The rendezvous of one step.
pub struct Rendezvous {
    stop: AtomicBool,
    /// Instructions of all programs that have not run.
    remaining: AtomicUsize,
    queues: SmallVec<[ProgramQueue; 1]>,
}

/// The state of one program.
struct ProgramQueue {
    /// By instruction: the number that it still waits for.
    pending: Box<[AtomicU32]>,
    ready: Mutex<BinaryHeap<Reverse<u32>>>,
    /// Number of instructions that are ready and not taken.
    ready_count: AtomicUsize,
    remaining: AtomicUsize,
    /// Number of threads of its device that have joined the step.
    joined: AtomicU32,
}

impl Rendezvous {
    /// For programs of these lengths.
    pub fn new(lens: impl Iterator<Item = usize>) -> Rendezvous {
        Rendezvous {
            stop: AtomicBool::new(false),
            remaining: AtomicUsize::new(0),
            queues: lens.map(ProgramQueue::new).collect(),
        }
    }

    /// Prepares it for a step that runs in sequence: one that checks only whether to stop.
    pub fn clear(&self) {
        self.stop.store(false, Ordering::Relaxed);
    }

    /// Prepares it for a step: `waits` has, by program, the number that each instruction waits for. It must not be used
    /// meanwhile.
    pub fn reset<'a>(&self, waits: impl Iterator<Item = &'a [u32]>) {
        self.clear();
        let mut all = 0;
        for (queue, waits) in self.queues.iter().zip(waits) {
            all += waits.len();
            queue.reset(waits);
        }
        self.remaining.store(all, Ordering::Release);
    }

    /// Ends the step on all devices.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// `true` if nothing of the step is left to run, or it was ended.
    pub fn is_over(&self) -> bool {
        self.remaining.load(Ordering::Acquire) == 0 || self.stop.load(Ordering::Acquire)
    }

    /// `true` if nothing of a program is left to run, or the step was ended.
    pub fn is_done(&self, program: usize) -> bool {
        self.queues[program].remaining.load(Ordering::Acquire) == 0
            || self.stop.load(Ordering::Acquire)
    }

    /// Joins a thread of the program's device, until the program is done.
    pub fn join(&self, program: usize) {
        self.queues[program].joined.fetch_add(1, Ordering::AcqRel);
    }

    /// Lets all threads leave: they will join again when there is something to run.
    pub fn leave_all(&self) {
        for queue in &self.queues {
            queue.joined.store(0, Ordering::Release);
        }
    }

    /// `true` if an instruction of any program is ready and not taken.
    pub fn has_any_ready(&self) -> bool {
        (0..self.queues.len()).any(|program| self.has_ready(program))
    }

    /// `true` if a thread of the program's device takes part.
    pub fn is_joined(&self, program: usize) -> bool {
        self.queues[program].joined.load(Ordering::Acquire) > 0
    }

    /// Counts one of those that an instruction waits for as run. Returns `true` where it was the last: the caller now
    /// has the instruction, to run or to [`push`](Rendezvous::push).
    pub fn arrive(&self, program: usize, instruction: u32) -> bool {
        let pending = &self.queues[program].pending[instruction as usize];
        pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Queues a ready instruction for any thread.
    pub fn push(&self, program: usize, instruction: u32) {
        let queue = &self.queues[program];
        queue.lock().push(Reverse(instruction));
        queue.ready_count.fetch_add(1, Ordering::AcqRel);
    }

    /// `true` if an instruction is ready and not taken.
    pub fn has_ready(&self, program: usize) -> bool {
        self.queues[program].ready_count.load(Ordering::Acquire) > 0
    }

    /// Takes the first of the ready instructions.
    pub fn take(&self, program: usize) -> Option<u32> {
        if !self.has_ready(program) {
            return None;
        }
        let queue = &self.queues[program];
        let mut ready = queue.lock();
        let Reverse(instruction) = ready.pop()?;
        queue.ready_count.fetch_sub(1, Ordering::AcqRel);
        Some(instruction)
    }

    /// Counts an instruction of the program as run. Returns `true` where the program is done now.
    pub fn finish_instruction(&self, program: usize) -> bool {
        let done = self.queues[program]
            .remaining
            .fetch_sub(1, Ordering::AcqRel)
            == 1;
        self.remaining.fetch_sub(1, Ordering::AcqRel);
        done
    }
}

impl ProgramQueue {
    fn new(len: usize) -> ProgramQueue {
        ProgramQueue {
            pending: (0..len).map(|_| AtomicU32::new(0)).collect(),
            ready: Mutex::new(BinaryHeap::with_capacity(len)),
            ready_count: AtomicUsize::new(0),
            remaining: AtomicUsize::new(0),
            joined: AtomicU32::new(0),
        }
    }

    fn reset(&self, waits: &[u32]) {
        for (pending, &n) in self.pending.iter().zip(waits) {
            pending.store(n, Ordering::Relaxed);
        }
        let mut ready = self.lock();
        ready.clear();
        let first = waits.iter().enumerate().filter(|(_, n)| **n == 0);
        ready.extend(first.map(|(i, _)| Reverse(i as u32)));
        self.ready_count.store(ready.len(), Ordering::Relaxed);
        self.remaining.store(waits.len(), Ordering::Relaxed);
        self.joined.store(0, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<u32>>> {
        // Nothing under the lock can panic half-way.
        self.ready.lock().unpoisoned()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_ready_when_the_last_that_it_waits_for_has_run() {
        let r = Rendezvous::new([2, 1].into_iter());
        r.reset([&[0, 2][..], &[0][..]].into_iter());
        assert_eq!(r.take(0), Some(0));
        assert_eq!(r.take(0), None);
        assert!(!r.arrive(0, 1));
        assert!(!r.finish_instruction(0));
        assert_eq!(r.take(1), Some(0));
        assert!(r.arrive(0, 1));
        r.push(0, 1);
        assert!(r.finish_instruction(1) && r.is_done(1) && !r.is_over());
        assert_eq!(r.take(0), Some(1));
        assert!(r.finish_instruction(0) && r.is_over());
    }

    #[test]
    fn a_stop_ends_every_program_and_a_reset_begins_anew() {
        let r = Rendezvous::new([1, 1].into_iter());
        for _ in 0..2 {
            r.reset([&[0][..], &[1][..]].into_iter());
            assert!(!r.is_over() && !r.is_done(0) && !r.is_done(1));
            r.stop();
            assert!(r.is_over() && r.is_done(0) && r.is_done(1));
        }
    }

    #[test]
    fn a_value_may_arrive_before_its_receiver_is_looked_for_and_after_it() {
        for arrives_first in [true, false] {
            let r = Rendezvous::new([1, 1].into_iter());
            r.reset([&[0][..], &[1][..]].into_iter());
            if !arrives_first {
                assert!(!r.has_ready(1));
                assert_eq!(r.take(1), None);
            }
            assert!(r.arrive(1, 0));
            r.push(1, 0);
            assert!(r.has_ready(1) && r.has_any_ready());
            assert_eq!((r.take(1), r.take(1)), (Some(0), None));
            assert!(!r.has_ready(1) && r.has_ready(0));
        }
    }

    #[test]
    fn ready_instructions_are_taken_in_the_order_of_the_step() {
        let r = Rendezvous::new([5].into_iter());
        r.reset([&[1, 0, 1, 1, 0][..]].into_iter());
        for instruction in [3, 0] {
            assert!(r.arrive(0, instruction));
            r.push(0, instruction);
        }
        let taken: Vec<u32> = std::iter::from_fn(|| r.take(0)).collect();
        assert_eq!(taken, [0, 1, 3, 4]);
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_value_that_never_comes() {
        let r = Rendezvous::new([2, 1].into_iter());
        r.reset([&[0, 1][..], &[1][..]].into_iter());
        assert_eq!(r.take(0), Some(0));
        assert!(!r.is_over());
        r.stop();
        assert!(r.is_over() && r.is_done(1) && r.take(1).is_none());
        // A step that runs in sequence checks only whether to stop.
        r.clear();
        assert!(!r.is_done(1));
    }

    #[test]
    fn a_reset_forgets_what_the_last_step_left() {
        let r = Rendezvous::new([2].into_iter());
        r.reset([&[0, 2][..]].into_iter());
        r.join(0);
        assert!(r.is_joined(0));
        r.arrive(0, 1);
        r.stop();
        r.reset([&[0, 2][..]].into_iter());
        assert!(!r.is_over() && !r.is_joined(0));
        assert_eq!((r.take(0), r.take(0)), (Some(0), None));
        assert!(!r.arrive(0, 1) && r.arrive(0, 1));
    }

    #[test]
    fn threads_that_leave_join_again() {
        let r = Rendezvous::new([1, 1].into_iter());
        r.reset([&[0][..], &[0][..]].into_iter());
        r.join(0);
        r.join(0);
        r.join(1);
        r.leave_all();
        assert!(!r.is_joined(0) && !r.is_joined(1));
        r.join(1);
        assert!(!r.is_joined(0) && r.is_joined(1));
    }

    #[test]
    fn a_program_without_instructions_is_done_from_the_start() {
        let r = Rendezvous::new([0, 1].into_iter());
        r.reset([&[][..], &[0][..]].into_iter());
        assert!(r.is_done(0) && !r.is_done(1) && !r.is_over());
        assert!(r.finish_instruction(1) && r.is_over());
    }
}

/// Every order in which threads can meet: `RUSTFLAGS="--cfg loom" cargo test -p thalweg-device --lib
/// rendezvous`.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A value that lands in another program's memory, without a lock of its own.
    struct Landing(UnsafeCell<u32>);

    // SAFETY: the rendezvous orders its accesses; loom checks exactly that.
    unsafe impl Sync for Landing {}
    // SAFETY: as above.
    unsafe impl Send for Landing {}

    fn run(r: &Rendezvous, program: usize, mut body: impl FnMut(u32)) {
        r.join(program);
        while !r.is_done(program) {
            match r.take(program) {
                Some(i) => {
                    body(i);
                    r.finish_instruction(program);
                }
                None => thread::yield_now(),
            }
        }
    }

    #[test]
    fn writes_of_two_senders_are_seen_by_the_receiver() {
        loom::model(|| {
            // Programs 0 and 1 send, program 2 waits for both.
            let r = Arc::new(Rendezvous::new([1, 1, 1].into_iter()));
            r.reset([&[0][..], &[0][..], &[2][..]].into_iter());
            let landings = Arc::new([Landing(UnsafeCell::new(0)), Landing(UnsafeCell::new(0))]);
            let senders: Vec<_> = (0..2)
                .map(|p| {
                    let (r, landings) = (r.clone(), landings.clone());
                    thread::spawn(move || {
                        run(&r, p, |_| {
                            // SAFETY: it is not read before the arrival that follows.
                            landings[p].0.with_mut(|v| unsafe { *v = 7 });
                            if r.arrive(2, 0) {
                                r.push(2, 0);
                            }
                        });
                    })
                })
                .collect();
            let mut seen = 0;
            run(&r, 2, |_| {
                for l in landings.iter() {
                    // SAFETY: both have arrived.
                    seen += l.0.with(|v| unsafe { *v });
                }
            });
            assert_eq!(seen, 14);
            senders.into_iter().for_each(|s| s.join().unwrap());
            assert!(r.is_over());
        });
    }

    #[test]
    fn a_stop_reaches_a_program_that_waits_for_a_value_that_never_comes() {
        loom::model(|| {
            let r = Arc::new(Rendezvous::new([1, 1].into_iter()));
            r.reset([&[0][..], &[1][..]].into_iter());
            let failing = {
                let r = r.clone();
                thread::spawn(move || {
                    assert_eq!(r.take(0), Some(0));
                    // Its kernel fails: nothing is sent.
                    r.stop();
                })
            };
            run(&r, 1, |_| unreachable!("nothing was sent"));
            failing.join().unwrap();
            assert!(r.is_over());
        });
    }

    #[test]
    fn two_threads_of_a_device_run_each_instruction_once() {
        loom::model(|| {
            let r = Arc::new(Rendezvous::new([2].into_iter()));
            r.reset([&[0, 0][..]].into_iter());
            let ran = Arc::new(AtomicUsize::new(0));
            let other = {
                let (r, ran) = (r.clone(), ran.clone());
                thread::spawn(move || {
                    run(&r, 0, |_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                    })
                })
            };
            run(&r, 0, |_| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
            other.join().unwrap();
            assert_eq!(ran.load(Ordering::Relaxed), 2);
        });
    }
}
