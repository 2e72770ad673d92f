//! A queue that steps share: a node that has to wait leaves a request. The rules are those of TensorFlow's `QueueBase`.

use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::elements::{QueueElement, QueueSettings, check_element, join_elements};
use super::requests::{PendingRequest, QueueRequest, QueueState};

pub(crate) struct BlockingQueue {
    pub(super) settings: QueueSettings,
    state: Mutex<QueueState>,
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
    pub(crate) fn dequeue(
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

    /// `true` if the node has started a request.
    pub(super) fn has_request(&self, cx: &TensorCx<'_>) -> bool {
        let number = cx.environment().ticket().number();
        self.lock()
            .pending
            .iter()
            .any(|request| request.ticket.number() == number)
    }

    /// Starts a node's request, or fetches its outcome if the node blocked on it before.
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
                detached: false,
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

    fn abandon(&self, number: u64) {
        let mut state = self.lock();
        state.abandon(&self.settings, number);
        state.advance_all(&self.settings);
    }

    /// Refuses further enqueues, once the pending ones have ended.
    pub(super) fn close(self: &Arc<Self>, cx: &TensorCx<'_>) -> Result<(), KernelError> {
        self.submit(cx, || Ok(QueueRequest::Close)).map(drop)
    }

    /// Refuses further enqueues and cancels the pending ones, and pending closes.
    pub(super) fn close_and_cancel(&self) {
        let mut state = self.lock();
        state.closed = true;
        let name = &self.settings.name;
        for attempt in &mut state.pending {
            let adds = !matches!(attempt.request, QueueRequest::Dequeue { .. });
            if adds && attempt.outcome.is_none() {
                attempt.outcome = Some(Err(KernelError::Cancelled(format!(
                    "{name} was closed, and its pending enqueues were cancelled"
                ))));
                attempt.ticket.wake();
            }
        }
        state.advance_all(&self.settings);
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
