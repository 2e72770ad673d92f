//! A queue: elements, and those who wait to put some in or to take some out, in the order in which
//! they came. Its rules are those of TensorFlow's `QueueBase`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_device::{KernelError, TensorCx, Ticket};
use thalweg_tensor::{DType, Memory, Shape, Tensor};

use super::element::{batch, check_element};
use crate::random::philox::Philox;

/// One element: a tensor for each component.
pub(super) type Element = Vec<Tensor>;

/// What a queue is made with.
pub(super) struct Settings {
    /// Its kind and name, as errors tell them.
    pub(super) name: String,
    pub(super) dtypes: Vec<DType>,
    /// By component: the shape that it must have; empty for any.
    pub(super) shapes: Vec<Shape>,
    /// The most elements; any number where it is negative.
    pub(super) capacity: i64,
    /// Whether elements of different shapes are padded to make a batch.
    pub(super) pads: bool,
    /// Draws elements in random order where there is one.
    pub(super) shuffle: Option<Shuffle>,
    /// Whose bytes its batches are.
    pub(super) memory: Arc<Memory>,
}

/// How a queue draws elements.
pub(super) struct Shuffle {
    pub(super) philox: Philox,
    /// How many elements must stay until the queue is closed.
    pub(super) min_after_dequeue: usize,
}

pub(super) struct Queue {
    pub(super) settings: Settings,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    elements: VecDeque<Element>,
    closed: bool,
    drawn: u64,
    waiting: VecDeque<Attempt>,
}

/// Someone who puts elements in, or takes some out.
struct Attempt {
    ticket: Ticket,
    what: What,
    /// What came of it.
    outcome: Option<Result<Vec<Element>, KernelError>>,
}

enum What {
    /// Puts these in.
    Enqueue(VecDeque<Element>),
    /// Takes so many; `up_to` gives what there is where the queue is closed.
    Dequeue {
        count: usize,
        up_to: bool,
        taken: Vec<Element>,
    },
}

impl Queue {
    pub(super) fn new(settings: Settings) -> Queue {
        Queue {
            settings,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts elements in, as soon as there is room for them.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        cx: &TensorCx<'_>,
        elements: impl FnOnce() -> Result<Vec<Element>, KernelError>,
    ) -> Result<(), KernelError> {
        let what = || {
            let elements = elements()?;
            for element in &elements {
                check_element(&self.settings, element)?;
            }
            Ok(What::Enqueue(elements.into()))
        };
        self.attempt(cx, what).map(drop)
    }

    /// Takes elements out, as soon as there are so many.
    pub(super) fn dequeue(
        self: &Arc<Self>,
        cx: &TensorCx<'_>,
        count: i64,
        up_to: bool,
    ) -> Result<Vec<Element>, KernelError> {
        self.attempt(cx, || {
            let count = usize::try_from(count).map_err(|_| {
                KernelError::Invalid(format!(
                    "{count} elements cannot be taken: ask for 0 or more"
                ))
            })?;
            Ok(What::Dequeue {
                count,
                up_to,
                taken: Vec::new(),
            })
        })
    }

    /// Goes on with what a node wants, which may have been here before.
    fn attempt(
        self: &Arc<Self>,
        cx: &TensorCx<'_>,
        what: impl FnOnce() -> Result<What, KernelError>,
    ) -> Result<Vec<Element>, KernelError> {
        let ticket = cx.environment().ticket();
        let number = ticket.number();
        let mut state = self.lock();
        let own = |a: &Attempt| a.ticket.number() == number;
        if !state.waiting.iter().any(own) {
            state.waiting.push_back(Attempt {
                ticket,
                what: what()?,
                outcome: None,
            });
            state.go_on(&self.settings);
            if state.waiting.iter().any(|a| own(a) && a.outcome.is_none()) {
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
            .waiting
            .iter()
            .position(|a| own(a) && a.outcome.is_some());
        let done = at.and_then(|at| state.waiting.remove(at));
        done.and_then(|a| a.outcome)
            .unwrap_or(Err(KernelError::Blocked))
    }

    /// Forgets someone who waits no more: what was taken goes back.
    fn abandon(&self, number: u64) {
        let mut state = self.lock();
        let at = state
            .waiting
            .iter()
            .position(|a| a.ticket.number() == number);
        if let Some(attempt) = at.and_then(|at| state.waiting.remove(at)) {
            let taken = match (attempt.outcome, attempt.what) {
                (Some(Ok(elements)), _) => elements,
                (None, What::Dequeue { taken, .. }) => taken,
                _ => Vec::new(),
            };
            for element in taken.into_iter().rev() {
                state.elements.push_front(element);
            }
        }
        state.go_on(&self.settings);
    }

    /// Ends the putting in; with `cancel`, of those who wait to do so too.
    pub(super) fn close(&self, cancel: bool) -> Result<(), KernelError> {
        let mut state = self.lock();
        if state.closed && !cancel {
            let name = &self.settings.name;
            return Err(KernelError::Cancelled(format!("{name} is already closed")));
        }
        state.closed = true;
        if cancel {
            let name = &self.settings.name;
            for attempt in &mut state.waiting {
                if matches!(attempt.what, What::Enqueue(_)) && attempt.outcome.is_none() {
                    attempt.outcome = Some(Err(KernelError::Cancelled(format!(
                        "{name} was closed, and what was to be put in was cancelled"
                    ))));
                    attempt.ticket.wake();
                }
            }
        }
        state.go_on(&self.settings);
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The number of elements that are in it.
    pub(super) fn len(&self) -> usize {
        self.lock().elements.len()
    }

    /// Elements as batches, one for each component.
    pub(super) fn batches(&self, elements: &[Element]) -> Result<Vec<Tensor>, KernelError> {
        batch(&self.settings, elements)
    }
}

impl QueueState {
    /// Lets those who wait go on, each side in its order, until nobody can.
    fn go_on(&mut self, settings: &Settings) {
        while self.step(settings, true) | self.step(settings, false) {}
    }

    /// Goes on with the first of those who put in, or take out; whether anything changed.
    fn step(&mut self, settings: &Settings, enqueues: bool) -> bool {
        let QueueState {
            elements,
            closed,
            drawn,
            waiting,
        } = self;
        let is_first = |a: &&mut Attempt| {
            a.outcome.is_none() && matches!(a.what, What::Enqueue(_)) == enqueues
        };
        let Some(first) = waiting.iter_mut().find(is_first) else {
            return false;
        };
        let name = &settings.name;
        let (mut changed, mut outcome) = (false, None);
        match &mut first.what {
            What::Enqueue(_) if *closed => {
                outcome = Some(Err(KernelError::Cancelled(format!("{name} is closed"))));
            }
            What::Enqueue(rest) => {
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
            What::Dequeue {
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
                    let Some(element) = draw(settings, elements, drawn) else {
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

/// The next element: the first, or any.
fn draw(settings: &Settings, elements: &mut VecDeque<Element>, drawn: &mut u64) -> Option<Element> {
    let Some(shuffle) = &settings.shuffle else {
        return elements.pop_front();
    };
    // One word after the other, as TensorFlow's `SingleSampleAdapter` hands them out.
    let words = shuffle.philox.block(*drawn / 4);
    let word = words[(*drawn % 4) as usize];
    *drawn += 1;
    let at = word as usize % elements.len().max(1);
    elements.swap_remove_back(at)
}
