//! A queue: elements, and pending enqueues and dequeues in their order of arrival.
//! The rules are those of TensorFlow's `QueueBase`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_device::{KernelError, TensorCx, Ticket};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::elements::{QueueElement, QueueSettings, check_element, join_elements};

pub(super) struct BlockingQueue {
    pub(super) settings: QueueSettings,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    elements: VecDeque<QueueElement>,
    closed: bool,
    draw_count: u64,
    pending: VecDeque<PendingRequest>,
}

/// A pending enqueue or dequeue.
struct PendingRequest {
    ticket: Ticket,
    request: QueueRequest,
    /// The result, once the attempt has ended.
    outcome: Option<Result<Vec<QueueElement>, KernelError>>,
}

enum QueueRequest {
    /// Adds these elements.
    Enqueue(VecDeque<QueueElement>),
    /// Removes `count` elements; with `up_to`, fewer are enough once the queue is closed.
    Dequeue {
        count: usize,
        up_to: bool,
        taken: Vec<QueueElement>,
    },
}

impl BlockingQueue {
    pub(super) fn new(settings: QueueSettings) -> BlockingQueue {
        BlockingQueue {
            settings,
            state: Mutex::default(),
        }
    }

    pub(super) fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unpoisoned()
    }

    /// Adds elements as soon as there is room for them.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        cx: &TensorCx<'_>,
        elements: impl FnOnce() -> Result<Vec<QueueElement>, KernelError>,
    ) -> Result<(), KernelError> {
        let request = || {
            let elements = elements()?;
            for element in &elements {
                check_element(&self.settings, element)?;
            }
            Ok(QueueRequest::Enqueue(elements.into()))
        };
        self.submit(cx, request).map(drop)
    }

    /// Removes elements as soon as there are enough.
    pub(super) fn dequeue(
        self: &Arc<Self>,
        cx: &TensorCx<'_>,
        count: i64,
        up_to: bool,
    ) -> Result<Vec<QueueElement>, KernelError> {
        self.submit(cx, || {
            let count = usize::try_from(count).map_err(|_| {
                KernelError::Invalid(format!(
                    "{count} elements cannot be taken: ask for 0 or more"
                ))
            })?;
            Ok(QueueRequest::Dequeue {
                count,
                up_to,
                taken: Vec::new(),
            })
        })
    }

    /// Starts a node's enqueue or dequeue, or fetches its outcome if the node blocked on it before.
    fn submit(
        self: &Arc<Self>,
        cx: &TensorCx<'_>,
        request: impl FnOnce() -> Result<QueueRequest, KernelError>,
    ) -> Result<Vec<QueueElement>, KernelError> {
        let ticket = cx.environment().ticket();
        let number = ticket.number();
        let mut state = self.lock();
        let is_own = |a: &PendingRequest| a.ticket.number() == number;
        if !state.pending.iter().any(is_own) {
            state.pending.push_back(PendingRequest {
                ticket,
                request: request()?,
                outcome: None,
            });
            state.advance_all(&self.settings);
            if state
                .pending
                .iter()
                .any(|a| is_own(a) && a.outcome.is_none())
            {
                drop(state);
                let queue = Arc::downgrade(self);
                cx.environment().on_abandon(Box::new(move || {
                    if let Some(queue) = queue.upgrade() {
                        queue.abandon(number);
                    }
                }));
                return Err(KernelError::Blocked);
            }
        }
        let at = state
            .pending
            .iter()
            .position(|a| is_own(a) && a.outcome.is_some());
        let done = at.and_then(|at| state.pending.remove(at));
        done.and_then(|a| a.outcome)
            .unwrap_or(Err(KernelError::Blocked))
    }

    /// Drops a pending attempt; elements that it has taken go back.
    fn abandon(&self, number: u64) {
        let mut state = self.lock();
        let at = state
            .pending
            .iter()
            .position(|a| a.ticket.number() == number);
        if let Some(attempt) = at.and_then(|at| state.pending.remove(at)) {
            let taken = match (attempt.outcome, attempt.request) {
                (Some(Ok(elements)), _) => elements,
                (None, QueueRequest::Dequeue { taken, .. }) => taken,
                _ => Vec::new(),
            };
            for element in taken.into_iter().rev() {
                state.elements.push_front(element);
            }
        }
        state.advance_all(&self.settings);
    }

    /// Refuses further enqueues; with `cancel`, pending ones as well.
    pub(super) fn close(&self, cancel: bool) -> Result<(), KernelError> {
        let mut state = self.lock();
        if state.closed && !cancel {
            let name = &self.settings.name;
            return Err(KernelError::Cancelled(format!("{name} is already closed")));
        }
        state.closed = true;
        if cancel {
            let name = &self.settings.name;
            for attempt in &mut state.pending {
                if matches!(attempt.request, QueueRequest::Enqueue(_)) && attempt.outcome.is_none()
                {
                    attempt.outcome = Some(Err(KernelError::Cancelled(format!(
                        "{name} was closed, and what was to be put in was cancelled"
                    ))));
                    attempt.ticket.wake();
                }
            }
        }
        state.advance_all(&self.settings);
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Number of elements in the queue.
    pub(super) fn len(&self) -> usize {
        self.lock().elements.len()
    }

    /// Joins elements into batches, one for each component.
    pub(super) fn batches(&self, elements: &[QueueElement]) -> Result<Vec<Tensor>, KernelError> {
        join_elements(&self.settings, elements)
    }
}

impl QueueState {
    /// Advances pending attempts, enqueues and dequeues each in their order, until none can go on.
    fn advance_all(&mut self, settings: &QueueSettings) {
        while self.advance_first(settings, true) | self.advance_first(settings, false) {}
    }

    /// Advances the first pending enqueue or dequeue; returns `true` if anything changed.
    fn advance_first(&mut self, settings: &QueueSettings, enqueues: bool) -> bool {
        let QueueState {
            elements,
            closed,
            draw_count,
            pending,
        } = self;
        let is_first = |a: &&mut PendingRequest| {
            a.outcome.is_none() && matches!(a.request, QueueRequest::Enqueue(_)) == enqueues
        };
        let Some(first) = pending.iter_mut().find(is_first) else {
            return false;
        };
        let name = &settings.name;
        let (mut changed, mut outcome) = (false, None);
        match &mut first.request {
            QueueRequest::Enqueue(_) if *closed => {
                outcome = Some(Err(KernelError::Cancelled(format!("{name} is closed"))));
            }
            QueueRequest::Enqueue(rest) => {
                let room =
                    |n: usize| usize::try_from(settings.capacity).map_or(true, |most| n < most);
                while room(elements.len())
                    && let Some(element) = rest.pop_front()
                {
                    elements.push_back(element);
                    changed = true;
                }
                if rest.is_empty() {
                    outcome = Some(Ok(Vec::new()));
                }
            }
            QueueRequest::Dequeue {
                count,
                up_to,
                taken,
            } => {
                if *closed && elements.len() < *count - taken.len() {
                    let (asked, found) = (*count - taken.len(), elements.len());
                    for element in std::mem::take(taken).into_iter().rev() {
                        match settings.shuffle {
                            Some(_) => elements.push_back(element),
                            None => elements.push_front(element),
                        }
                    }
                    if *up_to && !elements.is_empty() {
                        *count = elements.len();
                    } else {
                        outcome = Some(Err(KernelError::OutOfRange(format!(
                            "{name} is closed and has insufficient elements (requested {asked}, \
                             current size {found})"
                        ))));
                    }
                }
                let kept = match &settings.shuffle {
                    Some(shuffle) if !*closed => shuffle.min_after_dequeue,
                    _ => 0,
                };
                while outcome.is_none() && taken.len() < *count && elements.len() > kept {
                    let Some(element) = draw(settings, elements, draw_count) else {
                        break;
                    };
                    taken.push(element);
                    changed = true;
                }
                if outcome.is_none() && taken.len() == *count {
                    outcome = Some(Ok(std::mem::take(taken)));
                }
            }
        }
        if let Some(outcome) = outcome {
            first.outcome = Some(outcome);
            first.ticket.wake();
            changed = true;
        }
        changed
    }
}

/// Removes the next element: the first one, or a random one of a shuffling queue.
fn draw(
    settings: &QueueSettings,
    elements: &mut VecDeque<QueueElement>,
    draw_count: &mut u64,
) -> Option<QueueElement> {
    let Some(shuffle) = &settings.shuffle else {
        return elements.pop_front();
    };
    // Uses one word after the other, as TensorFlow's `SingleSampleAdapter` does.
    let words = shuffle.philox.block(*draw_count / 4);
    let word = words[(*draw_count % 4) as usize];
    *draw_count += 1;
    let at = word as usize % elements.len().max(1);
    elements.swap_remove_back(at)
}
