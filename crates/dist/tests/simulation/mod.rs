//! Clusters on a simulated network, in simulated time: the tasks' own protocol, from the master's steps to the bytes
//! of a connection, while connections are cut and hosts crash. A seed decides the faults.
//!
//! `SEEDS=10000 cargo test --workspace --lib simulated -- --nocapture` runs many seeds;
//! `SEED=7 cargo test --workspace --lib simulated -- --nocapture` runs one again.

mod asynchronous;
mod calls;
mod clients;
mod clock;
mod faults;
mod in_step;
mod ledger;
mod line;
mod masters;
mod network;
mod platform;
mod slow;
mod world;

use std::ops::Range;

/// Returns the seeds to run: `SEED` alone, or the first `SEEDS`.
fn seeds(few: u64) -> Range<u64> {
    let asked = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    match (asked("SEED"), asked("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, many) => 0..many.unwrap_or(few),
    }
}

/// Runs a scenario with each seed, on as many threads as there are processors; reports the failed seeds.
fn all(name: &str, seeds: Range<u64>, scenario: fn(u64) -> Result<String, String>) {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    let (next, count) = (AtomicU64::new(seeds.start), seeds.end - seeds.start);
    let failed = Mutex::new(Vec::new());
    let run = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let told = clock::stopped(|| scenario(seed));
            let told = told.unwrap_or_else(|_| Err("it panicked".to_owned()));
            match told {
                Ok(told) if count == 1 => println!("{name}, seed {seed}:\n{told}"),
                Ok(_) => {}
                Err(why) => {
                    println!("{name}, seed {seed}: {why}");
                    failed.lock().unwrap().push(seed);
                }
            }
            if (seed + 1 - seeds.start).is_multiple_of(500) {
                println!("{name}: {} seeds", seed + 1 - seeds.start);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(run);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{name}: {} of {count} seeds failed: {failed:?}; SEED=... runs one again",
        failed.len()
    );
    println!("{name}: {count} seeds, none failed");
}

#[test]
fn simulated_workers_train_asynchronously_whatever_fails() {
    all("asynchronous", seeds(15), asynchronous::scenario);
}

#[test]
fn simulated_workers_train_in_step_whatever_fails() {
    all("in step", seeds(15), in_step::scenario);
}

#[test]
fn simulated_tasks_on_a_slow_line_are_not_taken_for_lost() {
    all("slow line", seeds(6), slow::scenario);
}

#[test]
fn simulated_masters_serve_clients_of_tensorflow_whatever_fails() {
    all("masters", seeds(6), masters::scenario);
}

// Elsewhere the machine's clock does not stand still: see `clock`.
#[cfg(target_os = "linux")]
#[test]
fn a_seed_gives_the_same_again() {
    for seed in 0..3 {
        for scenario in [
            asynchronous::scenario,
            in_step::scenario,
            masters::scenario,
            slow::scenario,
        ] {
            let run = || clock::stopped(|| scenario(seed)).unwrap().unwrap();
            let (once, again) = (run(), run());
            let differs = once.lines().zip(again.lines()).find(|(a, b)| a != b);
            assert_eq!(differs, None, "seed {seed}");
            assert!(once == again && !once.is_empty(), "seed {seed}");
        }
    }
}
