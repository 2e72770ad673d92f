//! Work sharing: indices that several threads draw, each from a share of its own while that lasts.
//!
//! ```
//! use thalweg_cpu::shares::Shares;
//!
//! let shares = Shares::default();
//! shares.reset(6, 2);
//! let mut drawn = Vec::new();
//! // A thread begins with its own share, and goes on with the others'.
//! shares.draw(6, 2, 1, |index| drawn.push(index));
//! assert_eq!(drawn, [3, 4, 5, 0, 1, 2]);
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most shares; with more threads than this several begin with the same one.
const MAX_SHARES: usize = 8;

/// The indices below a number, cut into shares that lie side by side.
///
/// A thread draws from the share it is given first, and then helps with the others. So what follows each other is mostly
/// done by one thread, which writes whole cache lines by itself; and where loops over the same data follow each other and
/// threads come to them in the same order, as two do whose caller stays the same, a thread finds in its cache what it has
/// left there.
#[derive(Debug, Default)]
pub struct Shares {
    next: [AtomicUsize; MAX_SHARES],
}

impl Shares {
    /// All indices below `tasks`, to be drawn by so many threads. Nobody may draw meanwhile.
    pub fn reset(&self, tasks: usize, threads: usize) {
        let count = Self::count(threads);
        for (share, next) in self.next[..count].iter().enumerate() {
            next.store(Self::start(tasks, count, share), Ordering::Relaxed);
        }
    }

    /// Calls `body` with indices, as long as there are any: first with those of share `home`, modulo the number of shares.
    /// `tasks` and `threads` are those that it was reset to.
    pub fn draw(&self, tasks: usize, threads: usize, home: usize, mut body: impl FnMut(usize)) {
        let count = Self::count(threads);
        for other in 0..count {
            let share = (home + other) % count;
            let end = Self::start(tasks, count, share + 1);
            loop {
                let index = self.next[share].fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    break;
                }
                body(index);
            }
        }
    }

    fn count(threads: usize) -> usize {
        threads.clamp(1, MAX_SHARES)
    }

    fn start(tasks: usize, count: usize, share: usize) -> usize {
        let (each, more) = (tasks / count, tasks % count);
        share * each + share.min(more)
    }
}
