//! State of one step on one task: values from and to other tasks.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use thalweg_device::{KernelError, Ticket};
use thalweg_graph::Fact;
use thalweg_session::{Cancel, Parker, TaskChannels};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;
use tokio::sync::Notify;

use crate::error::{Cause, ClusterError};
use crate::transport::frames::{FrameSource, Frames};

/// Channels of a part.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// By sending channel: the receiving task.
    pub(crate) sends: HashMap<i64, u32>,
    /// By receiving channel: the sending task, and the fact of the value.
    pub(crate) receives: HashMap<i64, (u32, Fact)>,
}

/// A step of a session on one task.
#[derive(Default)]
pub(crate) struct WorkerStep {
    state: Mutex<StepState>,
    /// Signals that values were received, or that the step is over.
    changed: Notify,
}

#[derive(Default)]
struct StepState {
    over: Option<ClusterError>,
    /// `true` once its part has begun here.
    begun: bool,
    /// Handle that cancels its part.
    cancel: Option<Cancel>,
    /// Parker of its part, if it does not wait on a sleeping thread.
    parker: Option<Arc<dyn Parker>>,
    arrived: HashMap<i64, Tensor>,
    /// Ordered, as `out`: the order of wakes is then deterministic, in a simulation too.
    waiting: BTreeMap<i64, Ticket>,
    /// By receiving task.
    out: BTreeMap<u32, Outbox>,
}

/// Values for one other task.
#[derive(Default)]
struct Outbox {
    values: VecDeque<(i64, Tensor)>,
    /// Number of values that are still to come; known once the part has begun.
    left: usize,
    /// `true` once the other task has asked.
    asked: bool,
    /// `true` once it has all values.
    done: bool,
    waker: Option<Waker>,
}

impl WorkerStep {
    fn state(&self) -> MutexGuard<'_, StepState> {
        self.state.lock().unpoisoned()
    }

    /// Begins its part, with these channels. `cancel` ends the part if the step fails.
    ///
    /// # Errors
    /// It has begun before, or is over.
    pub(crate) fn begin(&self, routes: &Routes, cancel: &Cancel) -> Result<(), ClusterError> {
        let mut state = self.state();
        if let Some(over) = &state.over {
            return Err(over.clone());
        }
        if std::mem::replace(&mut state.begun, true) {
            let text = "a part of a step was asked for twice";
            return Err(ClusterError::new(Cause::Protocol, text));
        }
        state.cancel = Some(cancel.clone());
        for to in routes.sends.values() {
            state.out.entry(*to).or_default().left += 1;
        }
        // A task that has asked without a channel gets an end at once.
        state.out.values_mut().for_each(Outbox::wake);
        Ok(())
    }

    /// Ends the step with a failure; the first one stays.
    pub(crate) fn fail(&self, failure: ClusterError) {
        let mut state = self.state();
        if state.over.is_some() {
            return;
        }
        state.over = Some(failure);
        let waiting = std::mem::take(&mut state.waiting);
        state.out.values_mut().for_each(Outbox::wake);
        let (cancel, parker) = (state.cancel.take(), state.parker.take());
        drop(state);
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
        if let Some(parker) = parker {
            parker.unpark();
        }
        waiting.values().for_each(Ticket::wake);
        self.changed.notify_waiters();
    }

    /// `true` once its part has begun here.
    pub(crate) fn has_begun(&self) -> bool {
        self.state().begun
    }

    /// Returns the failure, if there is one.
    pub(crate) fn failure(&self) -> Option<ClusterError> {
        self.state().over.clone()
    }

    /// Stores a value from another task.
    pub(crate) fn deliver(&self, routes: &Routes, from: u32, channel: i64, value: Tensor) {
        let fits = routes.receives.get(&channel).is_some_and(|(task, fact)| {
            *task == from && fact.dtype == value.dtype() && fact.shape.admits(value.dims())
        });
        if !fits {
            let text = format!(
                "a task has sent {}{} through channel {channel}, which takes no such value",
                value.dtype(),
                value.shape()
            );
            return self.fail(ClusterError::new(Cause::Protocol, text));
        }
        let mut state = self.state();
        state.arrived.insert(channel, value);
        let ticket = state.waiting.remove(&channel);
        drop(state);
        if let Some(ticket) = ticket {
            ticket.wake();
        }
    }

    /// Notes that its part has run to its end: no more values follow.
    pub(crate) fn all_sent(&self) {
        for outbox in self.state().out.values_mut() {
            outbox.left = 0;
            outbox.wake();
        }
    }

    /// Waits until the other tasks have received all values.
    ///
    /// # Errors
    /// The step has failed before.
    pub(crate) async fn taken(&self) -> Result<(), ClusterError> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state();
                if let Some(over) = &state.over {
                    return Err(over.clone());
                }
                if state.out.values().all(|o| o.done) {
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    /// Returns the values for this task.
    ///
    /// # Errors
    /// The task has asked before.
    pub(crate) fn outgoing(self: &Arc<Self>, to: u32) -> Result<OutgoingValues, ClusterError> {
        let mut state = self.state();
        let outbox = state.out.entry(to).or_default();
        if std::mem::replace(&mut outbox.asked, true) {
            let text = "what a task receives in a step was asked for twice";
            return Err(ClusterError::new(Cause::Protocol, text));
        }
        Ok(OutgoingValues {
            step: self.clone(),
            to,
            done: false,
        })
    }
}

impl Outbox {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Stream of the values for one task, as they are produced.
pub(crate) struct OutgoingValues {
    step: Arc<WorkerStep>,
    to: u32,
    done: bool,
}

impl FrameSource for OutgoingValues {
    fn poll(&mut self, frames: &mut Frames, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.step.state();
        let over = state.over.clone();
        let begun = state.begun;
        let outbox = state.out.entry(self.to).or_default();
        let end = match over {
            Some(failure) => Some(Some(failure.derived())),
            None => match outbox.values.pop_front() {
                Some((channel, value)) => match frames.push_value(channel, &value) {
                    Ok(()) => return Poll::Ready(true),
                    Err(e) => Some(Some(ClusterError::from(e))),
                },
                None => (begun && outbox.left == 0).then_some(None),
            },
        };
        let Some(end) = end else {
            outbox.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        outbox.done = true;
        let failed = end.clone();
        frames.push_end(end);
        self.done = true;
        drop(state);
        if let Some(failure) = failed {
            // Without effect if the step is over already.
            self.step.fail(failure);
        }
        self.step.changed.notify_waiters();
        Poll::Ready(false)
    }
}

impl Drop for OutgoingValues {
    fn drop(&mut self) {
        if !self.done {
            let text = format!(
                "task {} of the step has gone, or has ended it (numbers are the master's)",
                self.to
            );
            let gone = ClusterError::new(Cause::SessionLost, text);
            self.step.fail(gone.derived());
        }
    }
}

/// Channels of a running part.
pub(crate) struct StepChannels {
    step: Arc<WorkerStep>,
    routes: Arc<Routes>,
    /// Client of a partial run, behind channels below zero.
    client: Option<Arc<dyn TaskChannels>>,
    parker: Option<Arc<dyn Parker>>,
}

impl StepChannels {
    /// Returns the channels of a part that waits with `parker`.
    pub(crate) fn new(
        step: Arc<WorkerStep>,
        routes: Arc<Routes>,
        client: Option<Arc<dyn TaskChannels>>,
        parker: Option<Arc<dyn Parker>>,
    ) -> StepChannels {
        if let Some(parker) = &parker {
            let mut state = step.state();
            state.parker = Some(parker.clone());
            if state.over.is_some() {
                parker.unpark();
            }
        }
        StepChannels {
            step,
            routes,
            client,
            parker,
        }
    }

    fn client(&self, channel: i64) -> Option<&dyn TaskChannels> {
        self.client.as_deref().filter(|_| channel < 0)
    }

    fn over(failure: &ClusterError) -> KernelError {
        KernelError::Cancelled(failure.message.clone())
    }
}

impl TaskChannels for StepChannels {
    fn send(&self, channel: i64, value: Tensor) -> Result<(), KernelError> {
        if let Some(client) = self.client(channel) {
            return client.send(channel, value);
        }
        let to = self.routes.sends.get(&channel);
        let to = to.ok_or_else(|| unknown(channel))?;
        let mut state = self.step.state();
        if let Some(failure) = &state.over {
            return Err(StepChannels::over(failure));
        }
        let outbox = state.out.entry(*to).or_default();
        outbox.left = outbox.left.saturating_sub(1);
        outbox.values.push_back((channel, value));
        outbox.wake();
        Ok(())
    }

    fn receive(&self, channel: i64, ticket: &Ticket) -> Result<Option<Tensor>, KernelError> {
        if let Some(client) = self.client(channel) {
            return client.receive(channel, ticket);
        }
        if !self.routes.receives.contains_key(&channel) {
            return Err(unknown(channel));
        }
        let mut state = self.step.state();
        if let Some(value) = state.arrived.remove(&channel) {
            return Ok(Some(value));
        }
        if let Some(failure) = &state.over {
            return Err(StepChannels::over(failure));
        }
        state.waiting.insert(channel, ticket.clone());
        Ok(None)
    }

    fn parker(&self) -> Option<Arc<dyn Parker>> {
        self.parker.clone()
    }
}

fn unknown(channel: i64) -> KernelError {
    KernelError::Invalid(format!("the part has no channel {channel}"))
}

#[cfg(test)]
mod tests;
