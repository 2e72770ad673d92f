//! Collectives through memory that the ranks of one host share.
//!
//! One rank makes a file without a name (`memfd_create`), and the others map it. Each rank has a *slot* of two pieces, which
//! it alone writes, and counters. A value goes through the slots piece by piece, so the slots stay in the cache: memory is
//! read once and written once for each element, as for a copy.
//!
//! For piece k each rank
//!
//! 1. waits until all have taken piece k - 2, whose place it is written to,
//! 2. writes its piece, and posts it,
//! 3. waits until all have posted, and reduces: all of the piece where there are two ranks or the piece is small, in the
//!    order of ranks; otherwise a part of it, in its own slot, and takes the other parts from the other slots.

mod collectives;
#[cfg(target_os = "linux")]
mod map;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod map;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::control::Control;
use crate::error::{CollectiveError, Result};
use crate::links::same;
use crate::watch::{Phase, Watch};

use map::Map;

/// Bytes of a piece. Two of each rank fit into a core's second cache.
const PIECE: usize = 128 << 10;
/// Pieces of a slot.
const PIECES: usize = 2;
/// Up to so many bytes each rank reduces all of a piece.
const SMALL: usize = 4 << 10;
/// Bytes for the counters of a rank: two cache lines, as processors fetch them in pairs.
const COUNTERS: usize = 128;
/// How often a wait looks again at once.
const SPINS: u32 = 2_000;
/// How long it then lets others run, before it sleeps.
const YIELDS: Duration = Duration::from_micros(50);
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(20);

/// The counters of a rank, which it alone writes.
#[repr(C, align(128))]
struct Counters {
    /// By piece: the collective that it is of, and the bytes of the whole value.
    tag: [AtomicU64; PIECES],
    bytes: [AtomicU64; PIECES],
    /// Pieces that it has posted, in all.
    posted: AtomicU64,
    /// Pieces of which it has reduced its part.
    reduced: AtomicU64,
    /// Pieces that it has done with.
    taken: AtomicU64,
}

const _: () = assert!(size_of::<Counters>() == COUNTERS);

/// The shared memory of some ranks, of which this is one.
pub(crate) struct SharedMemory {
    map: Map,
    /// The place of this rank among those that share, and which ranks they are.
    place: usize,
    members: Vec<usize>,
    /// Pieces that have been begun, in all: the same on all ranks.
    pieces: u64,
    control: Arc<Control>,
    watch: Watch,
    spins: u32,
}

/// Bytes that so many ranks share.
fn bytes(ranks: usize) -> usize {
    ranks * (COUNTERS + PIECES * PIECE)
}

impl SharedMemory {
    /// What the first of the members says to the others, so that they map the same.
    ///
    /// # Errors
    /// The system has no such memory.
    pub(crate) fn offer(ranks: usize) -> std::io::Result<(Map, Value)> {
        let map = Map::new(bytes(ranks))?;
        let offer = map.offer();
        Ok((map, offer))
    }

    /// What is mapped of what the first one has said.
    ///
    /// # Errors
    /// The system does not let one process see the other's file.
    pub(crate) fn accept(offer: &Value, ranks: usize) -> std::io::Result<Map> {
        Map::open(offer, bytes(ranks))
    }

    /// The members share this map.
    pub(crate) fn new(
        map: Map,
        members: Vec<usize>,
        rank: usize,
        control: Arc<Control>,
        watch: Watch,
    ) -> SharedMemory {
        // Where ranks share cores, who spins keeps another one from running.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        SharedMemory {
            map,
            place: members.iter().position(|&m| m == rank).unwrap_or(0),
            spins: if members.len() <= cores { SPINS } else { 0 },
            members,
            pieces: 0,
            control,
            watch,
        }
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn counters(&self, place: usize) -> &Counters {
        let at = self.map.at(place * COUNTERS, COUNTERS);
        // SAFETY: the map has `COUNTERS` bytes at a multiple of 128 for each place; they are zeros or what atomics wrote, and
        // are used as atomics only.
        unsafe { &*at.cast::<Counters>() }
    }

    /// Where a piece of a rank begins.
    fn piece(&self, place: usize, piece: u64) -> *mut u8 {
        let slot = place * PIECES + (piece % PIECES as u64) as usize;
        self.map.at(self.size() * COUNTERS + slot * PIECE, PIECE)
    }

    /// What a rank has posted, from `at` on.
    ///
    /// # Safety
    /// The rank has posted (or reduced) these bytes, and this rank has not yet said that it has taken the piece.
    unsafe fn posted(&self, place: usize, piece: u64, at: usize, len: usize) -> &[u8] {
        debug_assert!(at + len <= PIECE);
        // SAFETY: within a piece; nobody writes there until this rank has taken it.
        unsafe { std::slice::from_raw_parts(self.piece(place, piece).add(at), len) }
    }

    /// This rank's own piece.
    ///
    /// # Safety
    /// All have taken what was there, or what is written is a part that this rank alone reads.
    #[allow(
        clippy::mut_from_ref,
        reason = "the memory is shared; the counters say whose it is"
    )]
    unsafe fn own(&self, piece: u64, at: usize, len: usize) -> &mut [u8] {
        debug_assert!(at + len <= PIECE);
        // SAFETY: as the caller says.
        unsafe { std::slice::from_raw_parts_mut(self.piece(self.place, piece).add(at), len) }
    }

    /// Waits until a counter of all ranks is at least this.
    fn all(&self, counter: impl Fn(&Counters) -> &AtomicU64, least: u64) -> Result<()> {
        (0..self.size()).try_for_each(|place| self.one(place, &counter, least))
    }

    /// Waits until a counter of a rank is at least this.
    fn one(
        &self,
        place: usize,
        counter: impl Fn(&Counters) -> &AtomicU64,
        least: u64,
    ) -> Result<()> {
        self.watch
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
        let mut look = 1;
        loop {
            if counter.load(Ordering::Acquire) >= least {
                return Ok(());
            }
            let waited = began.elapsed();
            if waited < YIELDS {
                std::thread::yield_now();
                continue;
            }
            look += 1;
            if look % 64 == 0 {
                self.control
                    .may_wait(self.members[place], "a value", waited)?;
                let left = self.control.has_left(self.members[place]);
                // It may have done its part and left since the counter was looked at.
                if left && counter.load(Ordering::Acquire) < least {
                    let rank = self.members[place];
                    return Err(CollectiveError::lost(rank, "it has shut down"));
                }
            }
            std::thread::sleep(NAP);
        }
    }

    /// Whether a rank, which has posted this piece, runs the same.
    fn check(&self, place: usize, k: u64, expected: (u64, usize)) -> Result<()> {
        let (other, at) = (self.counters(place), (k % PIECES as u64) as usize);
        let tag = other.tag[at].load(Ordering::Relaxed);
        let bytes = other.bytes[at].load(Ordering::Relaxed);
        same(self.members[place], (tag, bytes as usize), expected)
    }

    /// Waits until all have posted a piece, and looks whether they run the same.
    fn meet(&self, k: u64, expected: (u64, usize)) -> Result<()> {
        self.all(|c| &c.posted, k + 1)?;
        (0..self.size()).try_for_each(|place| self.check(place, k, expected))
    }

    /// Posts a piece of a value with this tag and so many bytes: waits until its place is free, and writes. Gives its
    /// number.
    fn post(&mut self, (tag, total): (u64, usize), bytes: &[u8]) -> Result<u64> {
        let k = self.pieces;
        self.pieces += 1;
        self.all(|c| &c.taken, k.saturating_sub(PIECES as u64 - 1))?;
        // SAFETY: all have taken what was there.
        let slot = unsafe { self.own(k, 0, bytes.len()) };
        self.copy(slot, bytes);
        let (own, at) = (self.counters(self.place), (k % PIECES as u64) as usize);
        own.tag[at].store(tag, Ordering::Relaxed);
        own.bytes[at].store(total as u64, Ordering::Relaxed);
        own.posted.store(k + 1, Ordering::Release);
        Ok(k)
    }

    fn copy(&self, to: &mut [u8], from: &[u8]) {
        self.watch.time(Phase::Copy, || to.copy_from_slice(from));
    }

    fn taken(&self, k: u64) {
        self.counters(self.place)
            .taken
            .store(k + 1, Ordering::Release);
    }
}
