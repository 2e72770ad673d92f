//! Operators of the order: Shuffle, Shard, Take, Skip, Repeat.

use super::Stage;
use crate::error::DataError;
use crate::shuffle::SplitMix64;

/// Draws each element from the next few ones.
pub struct Shuffle<S: Stage> {
    before: S,
    buffer: Vec<S::Item>,
    size: usize,
    seed: u64,
    random: SplitMix64,
}

impl<S: Stage> Shuffle<S> {
    pub(super) fn new(before: S, size: usize, seed: u64) -> Shuffle<S> {
        Shuffle {
            before,
            buffer: Vec::new(),
            size: size.max(1),
            seed,
            random: SplitMix64::keyed(seed, 0),
        }
    }
}

impl<S: Stage> Stage for Shuffle<S> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.buffer.clear();
        self.random = SplitMix64::keyed(self.seed, epoch);
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        while self.buffer.len() < self.size {
            match self.before.next()? {
                Some(item) => self.buffer.push(item),
                None => break,
            }
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let drawn = self.random.below(self.buffer.len() as u64) as usize;
        Ok(Some(self.buffer.swap_remove(drawn)))
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        self.before.length()
    }
}

/// Every n-th element.
pub struct Shard<S> {
    before: S,
    shards: u64,
    index: u64,
    /// Number of elements before the next one.
    gap: u64,
}

impl<S> Shard<S> {
    pub(super) fn new(before: S, shards: u64, index: u64) -> Shard<S> {
        Shard {
            before,
            shards: shards.max(1),
            index,
            gap: index,
        }
    }
}

impl<S: Stage> Stage for Shard<S> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        if self.index >= self.shards {
            return Err(DataError::Shard {
                shards: self.shards,
                index: self.index,
            });
        }
        self.gap = self.index;
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        if self.before.pass(self.gap)? < self.gap {
            return Ok(None);
        }
        self.gap = self.shards - 1;
        self.before.next()
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        let before = self.before.length()?;
        Ok(before.map(|n| n.saturating_sub(self.index).div_ceil(self.shards)))
    }
}

/// The first elements.
pub struct Take<S> {
    before: S,
    most: u64,
    left: u64,
}

impl<S> Take<S> {
    pub(super) fn new(before: S, most: u64) -> Take<S> {
        Take {
            before,
            most,
            left: most,
        }
    }
}

impl<S: Stage> Stage for Take<S> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.left = self.most;
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.before.next()
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = self.before.pass(count.min(self.left))?;
        self.left -= passed;
        Ok(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        Ok(self.before.length()?.map(|n| n.min(self.most)))
    }
}

/// All elements but the first ones.
pub struct Skip<S> {
    before: S,
    count: u64,
    left: u64,
}

impl<S> Skip<S> {
    pub(super) fn new(before: S, count: u64) -> Skip<S> {
        Skip {
            before,
            count,
            left: count,
        }
    }
}

impl<S: Stage> Stage for Skip<S> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.left = self.count;
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        let left = std::mem::take(&mut self.left);
        if self.before.pass(left)? < left {
            return Ok(None);
        }
        self.before.next()
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let left = std::mem::take(&mut self.left);
        match self.before.pass(left)? < left {
            true => Ok(0),
            false => self.before.pass(count),
        }
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        Ok(self.before.length()?.map(|n| n.saturating_sub(self.count)))
    }
}

/// The elements several times, or without end.
pub struct Repeat<S> {
    before: S,
    times: Option<u64>,
    /// Number of the first epoch and of the running one.
    first: u64,
    epoch: u64,
    /// `true` once the running epoch has given an element.
    any: bool,
}

impl<S> Repeat<S> {
    pub(super) fn new(before: S, times: Option<u64>) -> Repeat<S> {
        Repeat {
            before,
            times,
            first: 0,
            epoch: 0,
            any: false,
        }
    }
}

impl<S: Stage> Repeat<S> {
    /// Jumps over whole epochs after the running one, which has ended, while there are so many elements to pass.
    /// Returns the number of elements.
    fn jump(&mut self, count: u64) -> Result<u64, DataError> {
        let length = self.before.length()?.unwrap_or(0);
        if !self.any || length == 0 {
            return Ok(0);
        }
        let done = self.epoch - self.first + 1;
        let left = self.times.map_or(u64::MAX, |times| times - done);
        let whole = left.min(count / length);
        self.epoch += whole;
        Ok(whole * length)
    }

    /// Starts the next epoch; `false` if there is none. An epoch without an element is the last.
    fn next_epoch(&mut self) -> Result<bool, DataError> {
        let done = self.epoch - self.first + 1;
        if !std::mem::take(&mut self.any) || self.times.is_some_and(|times| done >= times) {
            return Ok(false);
        }
        self.epoch += 1;
        self.before.start(self.epoch)?;
        Ok(true)
    }
}

impl<S: Stage> Stage for Repeat<S> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        // A repetition that is repeated goes on counting.
        self.first = epoch.saturating_mul(self.times.unwrap_or(1));
        self.epoch = self.first;
        self.any = false;
        self.before.start(self.epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        if self.times == Some(0) {
            return Ok(None);
        }
        loop {
            if let Some(item) = self.before.next()? {
                self.any = true;
                return Ok(Some(item));
            }
            if !self.next_epoch()? {
                return Ok(None);
            }
        }
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        if self.times == Some(0) {
            return Ok(0);
        }
        let mut passed = 0;
        loop {
            let own = self.before.pass(count - passed)?;
            self.any |= own > 0;
            passed += own;
            if passed == count {
                return Ok(passed);
            }
            passed += self.jump(count - passed)?;
            if !self.next_epoch()? {
                return Ok(passed);
            }
        }
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        let Some(times) = self.times else {
            return Ok(None);
        };
        let each = self.before.length()?;
        Ok(each.and_then(|each| each.checked_mul(times)))
    }
}
