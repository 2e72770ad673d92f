//! Cache: keeps the elements of an epoch in memory.

use super::Stage;
use crate::error::DataError;

/// Keeps the elements of epoch 0, and gives copies of them.
pub struct Cache<S: Stage> {
    before: S,
    items: Vec<S::Item>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// All elements since the start are kept.
    Filling,
    /// Some were passed over: the next epoch fills.
    Passing,
    /// All elements of an epoch are kept; the number of the next one.
    Complete(usize),
}

impl<S: Stage> Cache<S> {
    pub(super) fn new(before: S) -> Cache<S> {
        Cache {
            before,
            items: Vec::new(),
            state: State::Filling,
        }
    }
}

impl<S: Stage<Item: Clone>> Stage for Cache<S> {
    type Item = S::Item;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        if let State::Complete(next) = &mut self.state {
            *next = 0;
            return Ok(());
        }
        self.items.clear();
        self.state = State::Filling;
        // The elements must not depend on the epoch in which a training resumes.
        self.before.start(0)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        if let State::Complete(next) = &mut self.state {
            let item = self.items.get(*next).cloned();
            *next += usize::from(item.is_some());
            return Ok(item);
        }
        let item = self.before.next()?;
        if let State::Filling = self.state {
            match &item {
                Some(item) => self.items.push(item.clone()),
                None => self.state = State::Complete(self.items.len()),
            }
        }
        Ok(item)
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        if let State::Complete(next) = &mut self.state {
            let left = (self.items.len() - *next) as u64;
            *next += count.min(left) as usize;
            return Ok(count.min(left));
        }
        if count > 0 {
            self.items.clear();
            self.state = State::Passing;
        }
        self.before.pass(count)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        match self.state {
            State::Complete(_) => Ok(Some(self.items.len() as u64)),
            _ => self.before.length(),
        }
    }
}
