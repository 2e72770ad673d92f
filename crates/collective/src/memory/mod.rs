//! Shared memory of the ranks of one host, and its protocol.
//!
//! One rank creates an anonymous file (`memfd_create`), and the others map it. Each rank has counters and a *slot* of two
//! pieces, which it alone writes. A value goes through the slots piece by piece, so the slots stay in the cache: memory is
//! read once and written once for each element, as for a copy.
//!
//! For piece k each rank
//!
//! 1. waits until all have taken piece k - 2, whose place it reuses,
//! 2. writes its piece, and posts it,
//! 3. waits until all have posted, and reduces: the whole piece, in the order of ranks, if there are two ranks or the piece
//!    is small; otherwise a part of it, in its own slot, and takes the other parts from the other slots.

mod collectives;
#[cfg(target_os = "linux")]
mod map;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod map;
// Compiled on Linux too, so that a change here does not break the other systems unseen.
#[cfg(all(test, target_os = "linux"))]
mod unsupported;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::control::Control;
use crate::error::{CollectiveError, Result};
use crate::links::check_message;
use crate::phase_timer::{Phase, PhaseTimer};

use map::Map;

/// Bytes of a piece. Two of each rank fit into a core's second cache.
const PIECE: usize = 128 << 10;
/// Pieces of a slot.
const PIECES: usize = 2;
/// Maximum size of a piece that each rank reduces as a whole.
const SMALL_BYTES: usize = 4 << 10;
/// Bytes of the counters of a rank: two cache lines, as processors fetch them in pairs.
const COUNTERS_BYTES: usize = 128;
/// Number of polls of a wait without a pause.
const SPIN_COUNT: u32 = 2_000;
/// Time for which a wait then yields, before it sleeps.
const YIELD_TIME: Duration = Duration::from_micros(50);
/// Sleep between two polls.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Counters of a rank, which it alone writes.
#[repr(C, align(128))]
struct Counters {
    /// Tag of the collective of each piece.
    tag: [AtomicU64; PIECES],
    /// Bytes of the whole value of each piece.
    bytes: [AtomicU64; PIECES],
    /// Number of posted pieces.
    posted: AtomicU64,
    /// Number of pieces of which this rank has reduced its part.
    reduced: AtomicU64,
    /// Number of pieces that this rank no longer reads.
    taken: AtomicU64,
}

const _: () = assert!(size_of::<Counters>() == COUNTERS_BYTES);

/// Shared memory of this rank and others of its host.
pub(crate) struct SharedMemory {
    map: Map,
    /// Place of this rank among the members.
    place: usize,
    /// Ranks that share the memory.
    members: Vec<usize>,
    /// Number of pieces that were begun: the same on all ranks.
    pieces: u64,
    control: Arc<Control>,
    timer: PhaseTimer,
    spins: u32,
}

/// Size of the memory of so many ranks.
fn map_bytes(ranks: usize) -> usize {
    ranks * (COUNTERS_BYTES + PIECES * PIECE)
}

impl SharedMemory {
    /// Creates the memory on the first member; returns it with its description for the others.
    ///
    /// # Errors
    /// The system has no such memory.
    pub(crate) fn offer(ranks: usize) -> std::io::Result<(Map, Value)> {
        let map = Map::new(map_bytes(ranks))?;
        let offer = map.offer();
        Ok((map, offer))
    }

    /// Maps the memory that the first member has described.
    ///
    /// # Errors
    /// The system does not let one process open the other's file.
    pub(crate) fn accept(offer: &Value, ranks: usize) -> std::io::Result<Map> {
        Map::open(offer, map_bytes(ranks))
    }

    /// Shared memory of these members.
    pub(crate) fn new(
        map: Map,
        members: Vec<usize>,
        rank: usize,
        control: Arc<Control>,
        timer: PhaseTimer,
    ) -> SharedMemory {
        // If ranks share cores, a rank that spins keeps another one from running.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        SharedMemory {
            map,
            place: members.iter().position(|&m| m == rank).unwrap_or(0),
            spins: if members.len() <= cores {
                SPIN_COUNT
            } else {
                0
            },
            members,
            pieces: 0,
            control,
            timer,
        }
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn counters(&self, place: usize) -> &Counters {
        let at = self.map.at(place * COUNTERS_BYTES, COUNTERS_BYTES);
        // SAFETY: the map has `COUNTERS_BYTES` bytes at a multiple of 128 for each place; they are zero or written by atomics, and
        // are used as atomics only.
        unsafe { &*at.cast::<Counters>() }
    }

    /// Address of a piece of a rank.
    fn piece(&self, place: usize, piece: u64) -> *mut u8 {
        let slot = place * PIECES + (piece % PIECES as u64) as usize;
        self.map
            .at(self.size() * COUNTERS_BYTES + slot * PIECE, PIECE)
    }

    /// Bytes that a rank has posted, from `at` on.
    ///
    /// # Safety
    /// The rank has posted (or reduced) these bytes, and this rank has not yet marked the piece as taken.
    unsafe fn posted(&self, place: usize, piece: u64, at: usize, len: usize) -> &[u8] {
        debug_assert!(at + len <= PIECE);
        // SAFETY: within a piece; no rank writes there until this rank has taken it.
        unsafe { std::slice::from_raw_parts(self.piece(place, piece).add(at), len) }
    }

    /// Piece of this rank, mutable.
    ///
    /// # Safety
    /// All ranks have taken the previous content, or this rank alone reads the written part.
    #[allow(
        clippy::mut_from_ref,
        reason = "the memory is shared; the counters say whose it is"
    )]
    unsafe fn own(&self, piece: u64, at: usize, len: usize) -> &mut [u8] {
        debug_assert!(at + len <= PIECE);
        // SAFETY: the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.piece(self.place, piece).add(at), len) }
    }

    /// Waits until a counter of every rank is at least `least`.
    fn all(&self, counter: impl Fn(&Counters) -> &AtomicU64, least: u64) -> Result<()> {
        (0..self.size()).try_for_each(|place| self.one(place, &counter, least))
    }

    /// Waits until a counter of a rank is at least `least`.
    fn one(
        &self,
        place: usize,
        counter: impl Fn(&Counters) -> &AtomicU64,
        least: u64,
    ) -> Result<()> {
        self.timer
            .time(Phase::Wait, || self.wait(place, counter, least))
    }

    fn wait(
        &self,
        place: usize,
        counter: impl Fn(&Counters) -> &AtomicU64,
        least: u64,
    ) -> Result<()> {
        let counter = counter(self.counters(place));
        for _ in 0..=self.spins {
            if counter.load(Ordering::Acquire) >= least {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let began = Instant::now();
        let mut polls = 1;
        loop {
            if counter.load(Ordering::Acquire) >= least {
                return Ok(());
            }
            let waited = began.elapsed();
            if waited < YIELD_TIME {
                std::thread::yield_now();
                continue;
            }
            polls += 1;
            if polls % 64 == 0 {
                self.control
                    .may_wait(self.members[place], "a value", waited)?;
                let left = self.control.has_left(self.members[place]);
                // The rank may have done its part and left since the counter was read.
                if left && counter.load(Ordering::Acquire) < least {
                    let rank = self.members[place];
                    return Err(CollectiveError::lost(rank, "it has shut down"));
                }
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Checks that a rank that has posted a piece runs the same collective.
    fn check(&self, place: usize, k: u64, expected: (u64, usize)) -> Result<()> {
        let (other, at) = (self.counters(place), (k % PIECES as u64) as usize);
        let tag = other.tag[at].load(Ordering::Relaxed);
        let bytes = other.bytes[at].load(Ordering::Relaxed);
        check_message(self.members[place], (tag, bytes as usize), expected)
    }

    /// Waits until all have posted a piece, and checks that they run the same collective.
    fn meet(&self, k: u64, expected: (u64, usize)) -> Result<()> {
        self.all(|c| &c.posted, k + 1)?;
        (0..self.size()).try_for_each(|place| self.check(place, k, expected))
    }

    /// Posts a piece of a value with this tag and so many bytes: waits until its place is free, and writes. Returns the number
    /// of the piece.
    fn post(&mut self, (tag, total): (u64, usize), bytes: &[u8]) -> Result<u64> {
        let k = self.pieces;
        self.pieces += 1;
        self.all(|c| &c.taken, k.saturating_sub(PIECES as u64 - 1))?;
        // SAFETY: all ranks have taken the previous content.
        let slot = unsafe { self.own(k, 0, bytes.len()) };
        self.copy(slot, bytes);
        let (own, at) = (self.counters(self.place), (k % PIECES as u64) as usize);
        own.tag[at].store(tag, Ordering::Relaxed);
        own.bytes[at].store(total as u64, Ordering::Relaxed);
        own.posted.store(k + 1, Ordering::Release);
        Ok(k)
    }

    fn copy(&self, to: &mut [u8], from: &[u8]) {
        self.timer.time(Phase::Copy, || to.copy_from_slice(from));
    }

    /// Marks a piece as taken: its owner may overwrite it.
    fn mark_taken(&self, k: u64) {
        self.counters(self.place)
            .taken
            .store(k + 1, Ordering::Release);
    }
}
