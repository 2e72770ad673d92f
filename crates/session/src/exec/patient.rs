//! A step whose nodes may have to wait for other steps: on the calling thread, whatever is ready, so
//! that no thread of a pool is held by a wait.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustc_hash::FxHashSet;
use thalweg_device::KernelError;

use super::Step;
use super::waiting::{Waiter, Waiting};
use thalweg_plan::SessionError;
use thalweg_plan::panicked;

/// The instruction that a waiter stands for: program and number.
fn waiter(program: usize, at: u32) -> Waiter {
    (program as u64) << 32 | u64::from(at)
}

impl Step<'_> {
    pub(super) fn patiently(&self) -> Result<(), SessionError> {
        let rendezvous = &self.frame.rendezvous;
        let programs = &self.plan.programs;
        rendezvous.reset(programs.iter().map(|p| &p.waits[..]));
        let waiting = Waiting::new(self.watch.exchange.and_then(|e| e.rest()));
        let mut blocked: FxHashSet<Waiter> = FxHashSet::default();
        let mut next = None;
        while !rendezvous.is_over() {
            let ready = || {
                let mut all = 0..programs.len();
                all.find_map(|p| rendezvous.take(p).map(|at| (p, at)))
            };
            let Some((program, at)) = next.take().or_else(ready) else {
                for woken in waiting.wait(self.deadline) {
                    if blocked.remove(&woken) {
                        rendezvous.push((woken >> 32) as usize, woken as u32);
                    }
                }
                if let Some(&first) = blocked.iter().min() {
                    let run = self.run_of((first >> 32) as usize);
                    run.look(run.program.node(first as u32))?;
                }
                continue;
            };
            let own = waiter(program, at);
            let run = self.run_of(program).waiting(&waiting, own);
            let result = catch_unwind(AssertUnwindSafe(|| run.watched(at)))
                .unwrap_or_else(|panic| Err(panicked(run.program.node(at), &*panic)));
            match result {
                Ok(()) => {
                    waiting.done(own);
                    next = self.finished(program, at).map(|at| (program, at));
                    rendezvous.ran(program);
                }
                Err(SessionError::Kernel {
                    source: KernelError::Blocked,
                    ..
                }) => {
                    blocked.insert(own);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
