//! Requests to a queue: pending enqueues, dequeues and closes, in their order of arrival.

use std::collections::VecDeque;

use thalweg_device::{KernelError, Ticket};

use super::elements::{QueueElement, QueueSettings, priority};

/// Elements of a queue and its requests.
#[derive(Default)]
pub(super) struct QueueState {
    pub(super) elements: VecDeque<QueueElement>,
    pub(super) closed: bool,
    draw_count: u64,
    pub(super) pending: VecDeque<PendingRequest>,
}

/// A request of a node, and its result.
pub(super) struct PendingRequest {
    pub(super) ticket: Ticket,
    pub(super) request: QueueRequest,
    /// The result, once the attempt has ended.
    pub(super) outcome: Option<Result<Vec<QueueElement>, KernelError>>,
    /// Its step has ended, so nobody fetches the result.
    pub(super) detached: bool,
}

pub(super) enum QueueRequest {
    /// Closes the queue, once the enqueues before it have ended. It outlives its step, as in TensorFlow.
    Close,
    /// Adds these elements.
    Enqueue(VecDeque<QueueElement>),
    /// Removes `count` elements; with `up_to`, fewer are enough once the queue is closed.
    Dequeue {
        count: usize,
        up_to: bool,
        taken: Vec<QueueElement>,
    },
}

impl QueueState {
    /// Advances pending requests until none can go on: enqueues and closes in their order, and dequeues in theirs.
    pub(super) fn advance_all(&mut self, settings: &QueueSettings) {
        while self.advance_first(settings, true) | self.advance_first(settings, false) {}
        self.pending
            .retain(|a| !(a.detached && a.outcome.is_some()));
    }

    /// Drops the request of a step that has ended; elements that it has taken go back. A pending close stays.
    pub(super) fn abandon(&mut self, settings: &QueueSettings, number: u64) {
        let Some(at) = self
            .pending
            .iter()
            .position(|a| a.ticket.number() == number && !a.detached)
        else {
            return;
        };
        let one_stays = self.pending.iter().any(|a| a.detached);
        let request = &mut self.pending[at];
        if matches!(request.request, QueueRequest::Close) && request.outcome.is_none() && !one_stays
        {
            request.detached = true;
            return;
        }
        let taken = match self.pending.remove(at) {
            Some(PendingRequest {
                outcome: Some(Ok(elements)),
                ..
            }) => elements,
            Some(PendingRequest {
                outcome: None,
                request: QueueRequest::Dequeue { taken, .. },
                ..
            }) => taken,
            _ => Vec::new(),
        };
        for element in taken.into_iter().rev() {
            put_back(settings, &mut self.elements, element);
        }
    }

    /// Advances the first pending request that adds (an enqueue or a close) or removes; returns `true` if anything
    /// changed.
    fn advance_first(&mut self, settings: &QueueSettings, adds: bool) -> bool {
        let QueueState {
            elements,
            closed,
            draw_count,
            pending,
        } = self;
        let is_first = |a: &&mut PendingRequest| {
            a.outcome.is_none() && matches!(a.request, QueueRequest::Dequeue { .. }) != adds
        };
        let Some(first) = pending.iter_mut().find(is_first) else {
            return false;
        };
        let name = &settings.name;
        let (mut changed, mut outcome) = (false, None);
        match &mut first.request {
            QueueRequest::Close => {
                outcome = Some(match std::mem::replace(closed, true) {
                    false => Ok(Vec::new()),
                    true => Err(KernelError::Cancelled(format!("{name} is already closed"))),
                });
            }
            QueueRequest::Enqueue(_) if *closed => {
                outcome = Some(Err(KernelError::Cancelled(format!("{name} is closed"))));
            }
            QueueRequest::Enqueue(rest) => {
                let room =
                    |n: usize| usize::try_from(settings.capacity).map_or(true, |most| n < most);
                while room(elements.len())
                    && let Some(element) = rest.pop_front()
                {
                    put(settings, elements, element);
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
                            None => put_back(settings, elements, element),
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
                // Those of a request are in order only if all are there.
                let enough = !settings.prioritized || *closed || elements.len() >= *count;
                while outcome.is_none() && enough && taken.len() < *count && elements.len() > kept {
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

/// Adds an element: at the end, or behind those of its priority.
fn put(settings: &QueueSettings, elements: &mut VecDeque<QueueElement>, element: QueueElement) {
    if !settings.prioritized {
        return elements.push_back(element);
    }
    let own = priority(&element);
    elements.insert(elements.partition_point(|e| priority(e) <= own), element);
}

/// Adds an element that was taken: at the start, or before those of its priority.
fn put_back(
    settings: &QueueSettings,
    elements: &mut VecDeque<QueueElement>,
    element: QueueElement,
) {
    if !settings.prioritized {
        return elements.push_front(element);
    }
    let own = priority(&element);
    elements.insert(elements.partition_point(|e| priority(e) < own), element);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thalweg_tensor::{DType, Memory, Tensor};

    use super::super::elements::Shuffle;
    use super::*;
    use crate::random::philox::Philox;

    /// A queue of at most two elements, of each kind, with a full buffer.
    fn full_queues() -> Vec<(QueueSettings, QueueState)> {
        let settings = |pads, shuffle| QueueSettings {
            kind: "FIFOQueue",
            name: "queue".to_owned(),
            dtypes: vec![DType::I32],
            shapes: Vec::new(),
            capacity: 2,
            pads,
            shuffle,
            prioritized: false,
            memory: Arc::new(Memory::new(None)),
        };
        let shuffle = Shuffle {
            philox: Philox::new(1, 2),
            seeds: [1, 2],
            min_after_dequeue: 0,
        };
        let kinds = [
            settings(false, None),
            settings(true, None),
            settings(false, Some(shuffle)),
        ];
        let mut queues = Vec::new();
        for settings in kinds {
            let mut state = QueueState::default();
            request(&mut state, &settings, 1, enqueue(&[1, 2]));
            queues.push((settings, state));
        }
        queues
    }

    fn enqueue(values: &[i32]) -> QueueRequest {
        let memory = Arc::new(Memory::new(None));
        let element = |&v: &i32| QueueElement::new(vec![Tensor::scalar(v)], &memory).unwrap();
        QueueRequest::Enqueue(values.iter().map(element).collect())
    }

    fn dequeue(count: usize) -> QueueRequest {
        QueueRequest::Dequeue {
            count,
            up_to: false,
            taken: Vec::new(),
        }
    }

    fn request(
        state: &mut QueueState,
        settings: &QueueSettings,
        number: u64,
        request: QueueRequest,
    ) {
        state.pending.push_back(PendingRequest {
            ticket: Ticket::new(number, || {}),
            request,
            outcome: None,
            detached: false,
        });
        state.advance_all(settings);
    }

    /// The state of a request: `None` if it waits, or the values that it has taken, in order, or its error.
    fn outcome(state: &QueueState, number: u64) -> Option<Result<Vec<i32>, String>> {
        let request = state.pending.iter().find(|p| p.ticket.number() == number);
        let outcome = request.unwrap().outcome.as_ref()?;
        Some(match outcome {
            Ok(elements) => {
                let values = elements.iter().map(|e| e[0].to_scalar::<i32>().unwrap());
                let mut values: Vec<i32> = values.collect();
                values.sort();
                Ok(values)
            }
            Err(error) => Err(error.to_string()),
        })
    }

    #[test]
    fn a_close_waits_for_the_enqueues_before_it_and_refuses_those_after_it() {
        for (settings, mut state) in full_queues() {
            request(&mut state, &settings, 2, enqueue(&[3, 4]));
            request(&mut state, &settings, 3, QueueRequest::Close);
            request(&mut state, &settings, 4, enqueue(&[5]));
            assert_eq!((outcome(&state, 3), state.closed), (None, false));
            request(&mut state, &settings, 5, dequeue(1));
            assert_eq!((outcome(&state, 2), outcome(&state, 3)), (None, None));
            request(&mut state, &settings, 6, dequeue(1));
            assert_eq!(outcome(&state, 2), Some(Ok(vec![])));
            assert_eq!(outcome(&state, 3), Some(Ok(vec![])));
            let refused = outcome(&state, 4).unwrap().unwrap_err();
            assert!(refused.contains("is closed"), "{refused}");
            request(&mut state, &settings, 7, dequeue(2));
            let all: Vec<i32> = [5, 6, 7]
                .iter()
                .flat_map(|n| outcome(&state, *n).unwrap().unwrap())
                .collect();
            assert_eq!(all.iter().sum::<i32>(), 10, "{all:?}");
            request(&mut state, &settings, 8, dequeue(1));
            let ended = outcome(&state, 8).unwrap().unwrap_err();
            assert!(ended.contains("insufficient elements"), "{ended}");
            request(&mut state, &settings, 9, QueueRequest::Close);
            let again = outcome(&state, 9).unwrap().unwrap_err();
            assert!(again.contains("already closed"), "{again}");
        }
    }

    #[test]
    fn a_pending_close_outlives_its_step_once() {
        for (settings, mut state) in full_queues() {
            request(&mut state, &settings, 2, enqueue(&[3]));
            for number in 3..6 {
                request(&mut state, &settings, number, QueueRequest::Close);
                state.abandon(&settings, number);
            }
            assert_eq!(state.pending.iter().filter(|p| p.detached).count(), 1);
            assert!(!state.closed);
            request(&mut state, &settings, 6, dequeue(3));
            assert_eq!(outcome(&state, 6), Some(Ok(vec![1, 2, 3])));
            assert!(state.closed);
            assert!(!state.pending.iter().any(|p| p.detached));
        }
    }

    #[test]
    fn a_dequeue_whose_step_ends_gives_its_elements_back() {
        for (settings, mut state) in full_queues() {
            request(&mut state, &settings, 2, dequeue(3));
            assert_eq!((outcome(&state, 2), state.elements.len()), (None, 0));
            state.abandon(&settings, 2);
            assert_eq!(state.elements.len(), 2);
        }
    }
}
