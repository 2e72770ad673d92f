//! Trials of library calls: before a call is captured, each plan that the library offers for it runs once, and the fastest
//! of those that run is taken. The choice is kept on disk by the call, the card, and the library's version.
//!
//! A library's heuristics may put an engine first that fails when it runs, or that is slower than the next one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Card;
use super::candidate::Candidate;
use super::disk_cache::{DiskCache, hash};
use super::driver_api::{DriverApi, DriverCode, Stream};
use crate::gpu::{ALIGNMENT, Address, Call, GpuError};

/// Timed runs of a plan, after one that is not timed. The shortest counts.
const RUNS: usize = 3;

/// Value of each byte of a trial's inputs: small positive numbers in every float dtype, whose sums overflow in none.
const INPUT_BYTE: u8 = 0x2c;

/// Trials on a card.
#[derive(Debug)]
pub(super) struct CallTrials {
    api: DriverApi,
    /// The card and the driver, as text: choices of another one do not count.
    place: String,
    kept: Option<DiskCache>,
}

/// Memory and a stream for a trial, given back when it is dropped.
struct TrialMemory {
    api: DriverApi,
    memory: Address,
    stream: Stream,
}

impl Drop for TrialMemory {
    fn drop(&mut self) {
        // SAFETY: made by `new`; the stream has run, or the context is lost.
        unsafe {
            let _ = (self.api.synchronize)(self.stream);
            let _ = (self.api.destroy_stream)(self.stream);
            let _ = (self.api.free)(self.memory);
        }
    }
}

impl TrialMemory {
    /// So many bytes, filled.
    fn new(api: DriverApi, bytes: usize) -> Result<TrialMemory, DriverCode> {
        let mut memory = 0;
        // SAFETY: `memory` lives through the call.
        DriverCode::of(unsafe { (api.allocate)(&mut memory, bytes.max(1)) })?;
        let stream = api.stream().inspect_err(|_| {
            // SAFETY: given just now, and not used.
            let _ = unsafe { (api.free)(memory) };
        })?;
        let trial = TrialMemory {
            api,
            memory,
            stream,
        };
        // SAFETY: the memory has so many bytes.
        DriverCode::of(unsafe { (api.fill)(memory, INPUT_BYTE, bytes, stream) })?;
        trial.wait()?;
        Ok(trial)
    }

    fn wait(&self) -> Result<(), DriverCode> {
        // SAFETY: the stream lives.
        DriverCode::of(unsafe { (self.api.synchronize)(self.stream) })
    }
}

impl CallTrials {
    pub(super) fn new(api: DriverApi, card: &Card, folder: Option<PathBuf>) -> CallTrials {
        let driver = api.version().unwrap_or(0);
        let (name, memory) = (&card.name, card.memory);
        CallTrials {
            api,
            place: format!("{name} {} {memory} {driver}", card.architecture()),
            kept: folder.map(|folder| DiskCache::new(folder.join("choices"))),
        }
    }

    /// The fastest of these plans that runs. Without memory for a trial it is the first one.
    ///
    /// # Errors
    /// The reason that the last one does not run.
    pub(super) fn fastest(
        &self,
        call: &Call,
        tf32: bool,
        version: u64,
        candidates: &[impl Candidate],
    ) -> Result<usize, String> {
        let count = candidates.len();
        let key = format!("{} {version} {count} {tf32} {call:?}", self.place);
        let name = format!("{:016x}.choice", hash(key.as_bytes()));
        let kept = self
            .kept
            .as_ref()
            .and_then(|k| k.get(&name, key.as_bytes()));
        let kept = kept.and_then(|bytes| Some(usize::from(*bytes.first()?)));
        let kept = kept.filter(|&choice| choice < count);
        let bytes = call.bytes().map(|b| b.next_multiple_of(ALIGNMENT));
        let workspace = candidates.iter().map(Candidate::workspace).max();
        let all = bytes.iter().sum::<usize>() + workspace.unwrap_or(0);
        let Ok(trial) = TrialMemory::new(self.api, all) else {
            return Ok(kept.unwrap_or(0));
        };
        let mut addresses = [trial.memory; 4];
        for i in 1..4 {
            addresses[i] = addresses[i - 1] + bytes[i - 1] as Address;
        }
        let run = |i: usize| run(&candidates[i], addresses, &trial);
        if let Some(kept) = kept
            && run(kept).is_ok()
        {
            return Ok(kept);
        }
        let mut best: Option<(Duration, usize)> = None;
        let mut last = String::new();
        for i in 0..count {
            match time(|| run(i)) {
                Ok(time) if best.is_none_or(|(least, _)| time < least) => best = Some((time, i)),
                Ok(_) => {}
                Err(e) => last = e.to_string(),
            }
        }
        let (_, best) = best.ok_or(last)?;
        if let (Some(kept), Ok(choice)) = (&self.kept, u8::try_from(best)) {
            // Where it cannot be kept, the trial is made again.
            let _ = kept.put(&name, key.as_bytes(), &[choice]);
        }
        Ok(best)
    }
}

/// Runs a plan, and waits for it.
fn run(
    candidate: &impl Candidate,
    [first, second, output, workspace]: [Address; 4],
    trial: &TrialMemory,
) -> Result<(), GpuError> {
    // SAFETY: the memory holds the call's tensors and the largest workspace, and is the trial's alone.
    unsafe { candidate.submit([first, second, output], workspace, trial.stream)? };
    trial.wait().map_err(|code| GpuError::Driver {
        what: "try a call of a library",
        reason: code.to_string(),
    })
}

/// The shortest time of some runs.
fn time(run: impl Fn() -> Result<(), GpuError>) -> Result<Duration, GpuError> {
    run()?;
    let mut least = Duration::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        least = least.min(start.elapsed());
    }
    Ok(least)
}
