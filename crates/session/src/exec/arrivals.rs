//! Events from outside of a step: values of other tasks and clients, and nodes that another step unblocks, such as
//! those that take from a queue.

use std::sync::{Mutex, MutexGuard};

use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use thalweg_plan::{Action, Arrival, SessionError};
use thalweg_tensor::sync::Unpoisoned;

use super::Step;
use super::waiting::{WaiterId, Waiting};

/// The outside events that one step waits for.
pub(super) struct OutsideEvents {
    pub(super) waiting: Waiting,
    blocked: Mutex<Blocked>,
}

#[derive(Default)]
struct Blocked {
    /// Nodes that are blocked.
    nodes: FxHashSet<WaiterId>,
    /// Nodes that were woken before they were known to be blocked: another thread still ran them.
    early: FxHashSet<WaiterId>,
}

/// Identifies an instruction of a step.
pub(super) fn waiter(program: usize, at: u32) -> WaiterId {
    (program as u64) << 32 | u64::from(at)
}

/// The program and the instruction of a waiter.
fn instruction(waiter: WaiterId) -> (usize, u32) {
    ((waiter >> 32) as usize, waiter as u32)
}

impl OutsideEvents {
    /// For a step that waits for nothing yet.
    pub(super) fn new(step: &Step<'_>) -> OutsideEvents {
        let mut devices: SmallVec<[usize; 8]> = SmallVec::new();
        for program in &step.plan.programs {
            if !devices.contains(&program.device) {
                devices.push(program.device);
            }
        }
        let pools = devices.iter();
        let pools = pools.map(|&d| step.devices[d].host().pool().waker());
        OutsideEvents {
            waiting: Waiting::new(step.parker(), pools.collect()),
            blocked: Mutex::default(),
        }
    }

    fn blocked(&self) -> MutexGuard<'_, Blocked> {
        self.blocked.lock().unpoisoned()
    }

    /// Marks a node as blocked. Returns `true` where it was woken meanwhile: it is to run again.
    pub(super) fn block(&self, waiter: WaiterId) -> bool {
        let mut blocked = self.blocked();
        if blocked.early.remove(&waiter) {
            return true;
        }
        blocked.nodes.insert(waiter);
        false
    }

    /// Marks a node as woken. Returns `true` where it is to run again.
    fn unblock(&self, waiter: WaiterId) -> bool {
        let mut blocked = self.blocked();
        let is_blocked = blocked.nodes.remove(&waiter);
        if !is_blocked {
            blocked.early.insert(waiter);
        }
        is_blocked
    }

    /// Returns an instruction that waits: the one that the error of a step that ends meanwhile names.
    pub(super) fn first(&self) -> Option<(usize, u32)> {
        self.blocked().nodes.iter().min().map(|&w| instruction(w))
    }
}

impl Step<'_> {
    /// Requests every value that comes from outside; those that are there already are stored at once.
    ///
    /// # Errors
    /// As [`Step::arrive`].
    pub(super) fn request_arrivals(&self, outside: &OutsideEvents) -> Result<(), SessionError> {
        let mut arrivals = self.plan.arrivals.iter();
        arrivals.try_for_each(|arrival| self.arrive(outside, arrival))
    }

    /// Resumes the nodes that were woken.
    ///
    /// # Errors
    /// As [`Step::arrive`], with the program and the instruction.
    pub(super) fn wake(
        &self,
        outside: &OutsideEvents,
        woken: Vec<WaiterId>,
    ) -> Result<(), (usize, u32, SessionError)> {
        for waiter in woken {
            let (program, at) = instruction(waiter);
            match self.plan.programs[program].instructions[at as usize].action {
                Action::ReceiveRemote { channel } => {
                    let arrival = Arrival {
                        program: program as u32,
                        instruction: at,
                        channel,
                    };
                    let landed = self.arrive(outside, &arrival);
                    landed.map_err(|error| (program, at, error))?;
                }
                _ if outside.unblock(waiter) => self.enqueue(program, at),
                _ => {}
            }
        }
        Ok(())
    }

    /// Stores a value if it is there; if not, it wakes the step when it is.
    ///
    /// # Errors
    /// The step is over, the other task is not reached, or the value does not match its declared dtype and
    /// shape.
    fn arrive(&self, outside: &OutsideEvents, arrival: &Arrival) -> Result<(), SessionError> {
        let (program, at) = (arrival.program as usize, arrival.instruction);
        let own = waiter(program, at);
        let run = self.program_run(program);
        let landed = self.channels().and_then(|channels| {
            let ticket = outside.waiting.ticket(own, self.tickets);
            let value = channels.receive(arrival.channel, &ticket)?;
            let landed = value.is_some();
            value.map_or(Ok(()), |v| run.store_received(at, v))?;
            Ok(landed)
        });
        if landed.map_err(|e| run.error(at, e))? {
            outside.waiting.done(own);
            if self.frame.rendezvous.arrive(program, at) {
                self.enqueue(program, at);
            }
        }
        Ok(())
    }
}
