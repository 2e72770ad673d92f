//! Runs instructions as they become ready, on all threads of the step's devices or on the calling one alone.
//!
//! Threads run what is ready until nothing is, and nothing runs that could make something ready: then all of them leave,
//! and the calling thread alone waits for what comes from outside. So no thread of a pool is held by a wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use smallvec::SmallVec;
use thalweg_device::KernelError;
use thalweg_plan::{Action, SessionError, panicked};
use thalweg_tensor::sync::Unpoisoned;

use super::Step;
use super::arrivals::{OutsideEvents, waiter};

/// State that the threads of a step share while they run it.
struct StepThreads<'a> {
    /// The error that comes first in the order of the step, with its place there.
    first_error: Mutex<Option<(usize, SessionError)>>,
    /// Events from outside, if the step waits for any.
    outside: Option<&'a OutsideEvents>,
    /// Number of threads that run an instruction or search for one; counted only if the step waits for outside events.
    busy: AtomicUsize,
    /// `true` once a thread has left because the step was stuck. The others then leave too, once they find nothing to
    /// run: a node that is woken after that may belong to the program of the thread that has left.
    leaving: AtomicBool,
}

impl StepThreads<'_> {
    /// `true` if only an outside event can make an instruction ready, or a thread has left for that.
    fn is_stuck(&self, step: &Step<'_>) -> bool {
        self.outside.is_some_and(|outside| {
            if self.leaving.load(Ordering::Acquire) {
                return true;
            }
            self.busy.load(Ordering::Acquire) == 0
                && !step.frame.rendezvous.has_any_ready()
                && !outside.waiting.has_woken()
        })
    }

    fn has_woken(&self) -> bool {
        self.outside.is_some_and(|o| o.waiting.has_woken())
    }
}

impl Step<'_> {
    /// Runs the step, on all threads of its devices if `shared`, and on this one alone otherwise.
    pub(super) fn run_as_ready(&self, shared: bool) -> Result<(), SessionError> {
        let programs = &self.plan.programs;
        let rendezvous = &self.frame.rendezvous;
        rendezvous.reset(programs.iter().map(|p| &p.waits[..]));
        let outside = self.plan.waits.then(|| OutsideEvents::new(self));
        let threads = StepThreads {
            first_error: Mutex::new(None),
            outside: outside.as_ref(),
            busy: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
        };
        if let Some(outside) = &outside {
            self.request_arrivals(outside)?;
        }
        let lead = |number: usize| {
            let pool = self.program_run(number).cpu.pool();
            pool.run_roots(pool.threads(), &|_| self.work(number, &threads));
        };
        loop {
            threads.leaving.store(false, Ordering::Release);
            match programs.len() {
                _ if !shared => self.work(0, &threads),
                1 => lead(0),
                n => self.leaders.run_roots(n, &lead),
            }
            let Some(outside) = outside.as_ref().filter(|_| !rendezvous.is_over()) else {
                break;
            };
            rendezvous.leave_all();
            // Threads are requested again when there is something to run, not at each check of the clock.
            while !rendezvous.has_any_ready() && !rendezvous.is_over() {
                self.wait_outside(outside)?;
            }
        }
        let error = threads.first_error.into_inner().unpoisoned();
        error.map_or(Ok(()), |(_, e)| Err(e))
    }

    /// Waits until something can go on, or for a bounded time; checks timeout and cancellation.
    fn wait_outside(&self, outside: &OutsideEvents) -> Result<(), SessionError> {
        let woken = outside.waiting.wait(self.deadline);
        self.wake(outside, woken).map_err(|(.., error)| error)?;
        let arrival = self.plan.arrivals.first();
        let arrival = arrival.map(|a| (a.program as usize, a.instruction));
        if let Some((program, at)) = outside.first().or(arrival) {
            let run = self.program_run(program);
            run.check_limits(run.program.node(at))?;
        }
        Ok(())
    }

    /// One thread's part of a step, for one program.
    fn work(&self, own: usize, threads: &StepThreads<'_>) {
        let rendezvous = &self.frame.rendezvous;
        let several = self.plan.programs.len() > 1;
        rendezvous.join(own);
        // The leaders of other programs may all be busy with other steps: a thread that waits here runs the ready
        // instructions of a program that no thread has joined, so that the step ends.
        let left_alone =
            |p: &usize| *p != own && rendezvous.has_ready(*p) && !rendezvous.is_joined(*p);
        let other = || {
            let mut others = 0..self.plan.programs.len();
            others.find(left_alone).filter(|_| several)
        };
        let over = || match several {
            // Once its own program is done, a thread still runs those left alone.
            true => rendezvous.is_over() || (rendezvous.is_done(own) && self.all_joined()),
            false => rendezvous.is_done(own),
        };
        let pool = self.program_run(own).cpu.pool();
        let mut next: Option<(usize, u32)> = None;
        // A thread is busy from before it takes an instruction until it finds none.
        let mut busy = false;
        let set_busy = |now: bool, busy: &mut bool| {
            if threads.outside.is_none() || now == *busy {
                return;
            }
            *busy = now;
            match now {
                true => {
                    threads.busy.fetch_add(1, Ordering::AcqRel);
                }
                false if threads.busy.fetch_sub(1, Ordering::AcqRel) == 1 => self.notify_all(),
                false => {}
            }
        };
        while !rendezvous.is_over() {
            set_busy(true, &mut busy);
            if threads.has_woken() && !self.wake_all(threads) {
                break;
            }
            let taken = next.take().or_else(|| {
                let ready = rendezvous.take(own).map(|at| (own, at));
                ready.or_else(|| other().and_then(|p| Some((p, rendezvous.take(p)?))))
            });
            let Some((program, at)) = taken else {
                set_busy(false, &mut busy);
                if over() {
                    return;
                }
                if threads.is_stuck(self) {
                    threads.leaving.store(true, Ordering::Release);
                    self.notify_all();
                    return;
                }
                pool.wait_until(&|| {
                    over()
                        || rendezvous.has_ready(own)
                        || other().is_some()
                        || threads.has_woken()
                        || threads.is_stuck(self)
                });
                continue;
            };
            match self.run_one(program, at, threads) {
                Ok(true) => {
                    next = self.finished(program, at).map(|at| (program, at));
                    if rendezvous.finish_instruction(program) {
                        self.notify_all();
                    }
                }
                Ok(false) => {}
                Err(error) => {
                    self.fail(program, at, error, threads);
                    break;
                }
            }
        }
        set_busy(false, &mut busy);
    }

    /// Runs an instruction. Returns `false` where it is blocked, and will run again.
    fn run_one(
        &self,
        program: usize,
        at: u32,
        threads: &StepThreads<'_>,
    ) -> Result<bool, SessionError> {
        let own = waiter(program, at);
        let run = match threads.outside {
            Some(outside) => self.program_run(program).waiting(&outside.waiting, own),
            None => self.program_run(program),
        };
        let caught = catch_unwind(AssertUnwindSafe(|| run.run_with_controls(at)));
        match caught.unwrap_or_else(|panic| Err(panicked(run.program.node(at), &*panic))) {
            Ok(()) => {
                if let Some(outside) = threads.outside {
                    outside.waiting.done(own);
                }
                Ok(true)
            }
            Err(SessionError::Kernel {
                source: KernelError::Blocked,
                ..
            }) if threads.outside.is_some() => {
                if threads.outside.is_some_and(|o| o.block(own)) {
                    self.enqueue(program, at);
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Resumes the nodes that were woken from outside; returns `false` where that failed.
    fn wake_all(&self, threads: &StepThreads<'_>) -> bool {
        let Some(outside) = threads.outside else {
            return true;
        };
        match self.wake(outside, outside.waiting.woken()) {
            Ok(()) => true,
            Err((program, at, error)) => {
                self.fail(program, at, error, threads);
                false
            }
        }
    }

    /// Ends the step with the error of an instruction, if none before it in the order has failed.
    fn fail(&self, program: usize, at: u32, error: SessionError, threads: &StepThreads<'_>) {
        let rank = self.plan.rank(program as u32, at);
        let mut first = threads.first_error.lock().unpoisoned();
        if first.as_ref().is_none_or(|(r, _)| rank < *r) {
            *first = Some((rank, error));
        }
        drop(first);
        self.frame.rendezvous.stop();
        self.notify_all();
    }

    /// `true` if every program has a thread, or needs none any more.
    fn all_joined(&self) -> bool {
        let rendezvous = &self.frame.rendezvous;
        let mut programs = 0..self.plan.programs.len();
        programs.all(|p| rendezvous.is_joined(p) || rendezvous.is_done(p))
    }

    /// Notifies the dependents of an instruction that has run; returns one of the same program that is now ready. The
    /// others go to any free thread.
    fn finished(&self, number: usize, at: u32) -> Option<u32> {
        let rendezvous = &self.frame.rendezvous;
        let program = &self.plan.programs[number];
        if let Action::Send { channel } = program.instructions[at as usize].action {
            let channel = self.plan.channels[channel];
            if rendezvous.arrive(channel.to as usize, channel.receive) {
                self.enqueue(channel.to as usize, channel.receive);
            }
        }
        let mut own: Option<u32> = None;
        let mut shared = false;
        for &dependent in program.dependents.of(at) {
            if rendezvous.arrive(number, dependent) {
                // The one earliest in the sequence is run here: its inputs are in this cache.
                let give = match own {
                    Some(o) if o < dependent => dependent,
                    _ => match own.replace(dependent) {
                        Some(o) => o,
                        None => continue,
                    },
                };
                rendezvous.push(number, give);
                shared = true;
            }
        }
        if shared {
            self.notify(number);
        }
        own
    }

    /// Queues a ready instruction for any free thread.
    pub(super) fn enqueue(&self, program: usize, at: u32) {
        self.frame.rendezvous.push(program, at);
        self.notify(program);
    }

    /// Wakes the threads that may run the ready instructions of a program.
    fn notify(&self, number: usize) {
        if self.frame.rendezvous.is_joined(number) {
            self.program_run(number).cpu.pool().notify();
        } else {
            self.notify_all();
        }
    }

    fn notify_all(&self) {
        let mut notified: SmallVec<[usize; 8]> = SmallVec::new();
        for program in &self.plan.programs {
            if !notified.contains(&program.device) {
                notified.push(program.device);
                self.devices[program.device].host().pool().notify();
            }
        }
    }
}
