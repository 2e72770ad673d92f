//! Prefetch: makes elements before they are asked for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::Stage;
use super::parallel::text;
use crate::error::DataError;

/// Makes elements on a thread of its own, up to so many before they are asked for.
///
/// Dropping the stage does not wait for the thread: it ends once the element in work is made. A new start does wait,
/// because the thread has the stages before.
pub struct Prefetch<S: Stage> {
    most: usize,
    state: State<S>,
}

enum State<S: Stage> {
    /// The stages before, at rest.
    Resting(S),
    /// The stages before, at work on a thread that gives them back at its end.
    Running {
        items: Receiver<Result<S::Item, DataError>>,
        thread: JoinHandle<S>,
    },
    /// They are lost: their thread could not be started.
    Lost,
}

impl<S> Prefetch<S>
where
    S: Stage + Send + 'static,
    S::Item: Send + 'static,
{
    pub(super) fn new(before: S, most: usize) -> Prefetch<S> {
        Prefetch {
            most: most.max(1),
            state: State::Resting(before),
        }
    }

    /// The stages before, once their thread has ended.
    fn rest(&mut self) -> Result<&mut S, DataError> {
        self.state = match std::mem::replace(&mut self.state, State::Lost) {
            State::Running { items, thread } => {
                // Its next send fails.
                drop(items);
                match thread.join() {
                    Ok(before) => State::Resting(before),
                    Err(panic) => return Err(DataError::Panicked(text(&*panic))),
                }
            }
            other => other,
        };
        match &mut self.state {
            State::Resting(before) => Ok(before),
            _ => Err(DataError::Panicked("the stages before are gone".to_owned())),
        }
    }

    fn run(&mut self) -> Result<(), DataError> {
        let State::Resting(mut before) = std::mem::replace(&mut self.state, State::Lost) else {
            return Err(DataError::Panicked("the stages before are gone".to_owned()));
        };
        let (sender, items) = sync_channel(self.most);
        let work = move || {
            loop {
                let next = catch_unwind(AssertUnwindSafe(|| before.next()));
                let next = next.unwrap_or_else(|panic| Err(DataError::Panicked(text(&*panic))));
                let Some(item) = next.transpose() else {
                    return before;
                };
                let failed = item.is_err();
                if sender.send(item).is_err() || failed {
                    return before;
                }
            }
        };
        let thread = std::thread::Builder::new().name("prefetch".to_owned());
        let thread = thread.spawn(work).map_err(DataError::Thread)?;
        self.state = State::Running { items, thread };
        Ok(())
    }
}

impl<S> Stage for Prefetch<S>
where
    S: Stage + Send + 'static,
    S::Item: Send + 'static,
{
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.rest()?.start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        if let State::Resting(_) = self.state {
            self.run()?;
        }
        match &self.state {
            // The end of the thread is the end of the elements.
            State::Running { items, .. } => items.recv().ok().transpose(),
            _ => Err(DataError::Panicked("the stages before are gone".to_owned())),
        }
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        if let State::Resting(before) = &mut self.state {
            return before.pass(count);
        }
        for passed in 0..count {
            if self.next()?.is_none() {
                return Ok(passed);
            }
        }
        Ok(count)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        match &mut self.state {
            State::Resting(before) => before.length(),
            _ => Ok(None),
        }
    }
}
