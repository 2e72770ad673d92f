//! A step on several threads: each device's threads run what is ready of its program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use super::Step;
use thalweg_plan::Action;
use thalweg_plan::SessionError;
use thalweg_plan::panicked;

/// The error that comes first in the order of the step, with its place there.
type FirstError = Mutex<Option<(usize, SessionError)>>;

impl Step<'_> {
    pub(super) fn in_parallel(&self) -> Result<(), SessionError> {
        let programs = &self.plan.programs;
        let rendezvous = &self.frame.rendezvous;
        rendezvous.reset(programs.iter().map(|p| &p.waits[..]));
        let first_error = FirstError::new(None);
        let lead = |number: usize| {
            let pool = self.run_of(number).cpu.pool();
            pool.run_roots(pool.threads(), &|_| {
                self.work(number, &first_error);
            });
        };
        match programs.len() {
            1 => lead(0),
            n => self.leaders.run_roots(n, &lead),
        }
        let error = first_error
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        error.map_or(Ok(()), |(_, e)| Err(e))
    }

    /// One thread's part of a step, for one program.
    fn work(&self, own: usize, first_error: &FirstError) {
        let rendezvous = &self.frame.rendezvous;
        let several = self.plan.programs.len() > 1;
        rendezvous.join(own);
        // The leaders of other programs may all be busy with other steps: whoever waits here runs
        // what is ready in a program that nobody has joined, so that the step ends.
        let left_alone =
            |p: &usize| *p != own && rendezvous.has_ready(*p) && !rendezvous.is_joined(*p);
        let other = || {
            let mut others = 0..self.plan.programs.len();
            others.find(left_alone).filter(|_| several)
        };
        let over = || match several {
            // Once its own program is done, a thread still looks after those left alone.
            true => rendezvous.is_over() || (rendezvous.is_done(own) && self.all_joined()),
            false => rendezvous.is_done(own),
        };
        let pool = self.run_of(own).cpu.pool();
        let mut next: Option<(usize, u32)> = None;
        while !rendezvous.is_over() {
            let taken = next.take().or_else(|| {
                let ready = rendezvous.take(own).map(|at| (own, at));
                ready.or_else(|| other().and_then(|p| Some((p, rendezvous.take(p)?))))
            });
            let Some((program, at)) = taken else {
                if over() {
                    return;
                }
                pool.wait_until(&|| over() || rendezvous.has_ready(own) || other().is_some());
                continue;
            };
            let run = self.run_of(program);
            let result = catch_unwind(AssertUnwindSafe(|| run.watched(at)))
                .unwrap_or_else(|panic| Err(panicked(run.program.node(at), &*panic)));
            if let Err(error) = result {
                let rank = self.plan.rank(program as u32, at);
                let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(r, _)| rank < *r) {
                    *first = Some((rank, error));
                }
                drop(first);
                rendezvous.stop();
                self.notify_all();
                return;
            }
            next = self.finished(program, at).map(|at| (program, at));
            if rendezvous.ran(program) {
                self.notify_all();
            }
        }
    }

    /// Whether every program has a thread, or needs none any more.
    fn all_joined(&self) -> bool {
        let rendezvous = &self.frame.rendezvous;
        let mut programs = 0..self.plan.programs.len();
        programs.all(|p| rendezvous.is_joined(p) || rendezvous.is_done(p))
    }

    /// Tells those that wait for an instruction that it has run; gives one of the same program that
    /// is now ready, the others go to whoever is free.
    pub(super) fn finished(&self, number: usize, at: u32) -> Option<u32> {
        let rendezvous = &self.frame.rendezvous;
        let program = &self.plan.programs[number];
        if let Action::Send { channel } = program.instructions[at as usize].action {
            let channel = self.plan.channels[channel];
            if rendezvous.arrive(channel.to as usize, channel.receive) {
                rendezvous.push(channel.to as usize, channel.receive);
                self.notify(channel.to as usize);
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

    /// Wakes the threads that may run what has become ready in a program.
    fn notify(&self, number: usize) {
        if self.frame.rendezvous.is_joined(number) {
            self.run_of(number).cpu.pool().notify();
        } else {
            self.notify_all();
        }
    }

    fn notify_all(&self) {
        let mut told: SmallVec<[usize; 8]> = SmallVec::new();
        for program in &self.plan.programs {
            if !told.contains(&program.device) {
                told.push(program.device);
                self.devices[program.device].host().pool().notify();
            }
        }
    }
}
