//! Soak test: a training with a fault every two seconds. No task hangs, the training goes on, and memory, descriptors
//! and threads do not grow.
//!
//! ```text
//! cargo build --release -p thalweg-cli
//! SECONDS=3600 SEED=1 cargo test --release -p thalweg-tests --test outages soak::a_training -- --ignored --nocapture
//! ```
//!
//! Requires root, network namespaces and a tmpfs. `SOAK=FOLDER` keeps the table and the plot. With `PROTECTED=0` the
//! tasks use no TLS, clients send messages that expand to large ones, and no certificates are replaced. With
//! `IN_STEP=0` the workers train asynchronously, and the result is not compared.
#![cfg(target_os = "linux")]

mod cluster;
mod faults;
mod hostile;
mod keys;
mod samples;
mod tasks;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use thalweg::checkpoint::BundleReader;
use thalweg_tests::synchronous_training::expected_weights;

use super::small_disk::SmallDisk;
use cluster::{Cluster, Statistics};
use faults::Faults;
use samples::Samples;

/// Parameter servers and workers.
const SERVERS: usize = 2;
const WORKERS: usize = 4;
/// Time between two faults.
const FAULT_INTERVAL: Duration = Duration::from_secs(2);
/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Most time until each worker makes a step after the end of a fault.
const MAX_RECOVERY: Duration = Duration::from_secs(60);
/// Most time until all tasks end after SIGTERM.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(60);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |n| n.parse().unwrap())
}

#[test]
#[ignore = "takes as long as SECONDS says: see the top of this file"]
fn a_training_under_constant_faults_goes_on_without_leaks() {
    let seconds = number("SECONDS", 300);
    let seed = number("SEED", 1);
    let in_step = number("IN_STEP", 1) == 1;
    let disk = SmallDisk::new("soak", 8).expect("a tmpfs, which takes root");
    let mut cluster = Cluster::start(disk.path(), number("PROTECTED", 1) == 1, in_step)
        .expect("network namespaces, which take root");
    cluster.wait_for_steps_of_all(MAX_RECOVERY);
    // From then on one server and one worker are not restarted: their memory must not grow.
    let settled = Instant::now() + Duration::from_secs(seconds / 3);
    let mut faults = Faults::new(seed, settled);
    let mut samples = Samples::new();
    let began = Instant::now();
    let (mut fault, mut sample) = (FAULT_INTERVAL, Duration::ZERO);
    while began.elapsed() < Duration::from_secs(seconds) {
        cluster.read_lines(Duration::from_millis(50));
        faults.end_due(&mut cluster, &disk);
        if began.elapsed() >= fault {
            let what = faults.begin(&mut cluster, &disk);
            fault = began.elapsed().max(fault) + FAULT_INTERVAL;
            println!("{:7.1} {what}", began.elapsed().as_secs_f64());
        }
        if began.elapsed() >= sample {
            sample = began.elapsed() + SAMPLE_INTERVAL;
            samples.take(began.elapsed(), &cluster);
        }
    }
    faults.end_all(&mut cluster, &disk);
    let resumed = cluster.wait_for_steps_of_all(MAX_RECOVERY);
    println!("all workers train again after {resumed:?}");
    println!(
        "all tasks have ended after {:?}",
        cluster.drain(SHUTDOWN_TIMEOUT)
    );
    let statistics = cluster.statistics();
    report(&statistics, &faults, &samples);
    assert_eq!(statistics.panics, 0, "a task has panicked");
    assert_eq!(statistics.ended, 0, "tasks have ended by themselves");
    assert_eq!(
        faults.wrong, 0,
        "clients were not answered as they should be"
    );
    if in_step {
        assert_fault_free(&cluster);
    }
    samples.assert_flat();
}

/// Asserts that the result of synchronous training is the one without faults.
fn assert_fault_free(cluster: &Cluster) {
    let reader = BundleReader::open(cluster.checkpoint()).unwrap();
    let step = reader
        .tensor("global_step")
        .unwrap()
        .to_scalar::<i64>()
        .unwrap();
    let expected = expected_weights(WORKERS as u32, step);
    let mut farthest = 0.0f32;
    for (name, expected) in ["w", "b"].iter().zip(&expected) {
        let found = reader.tensor(name).unwrap().to_vec::<f32>().unwrap();
        let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        farthest = apart.fold(farthest, f32::max);
    }
    println!(
        "after {step} updates the weights are {farthest:e} from those of an undisturbed training"
    );
    // An update that is lost, or made twice, moves some weight by a hundred times as much.
    assert!(farthest < 1e-3, "{farthest}");
}

fn report(statistics: &Statistics, faults: &Faults, samples: &Samples) {
    println!("{}", faults.table());
    println!("{}", samples.table());
    println!("{statistics}");
    if let Some(folder) = std::env::var_os("SOAK").map(PathBuf::from) {
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "{}\n\n{}\n\n{statistics}\n",
            faults.table(),
            samples.table()
        );
        std::fs::write(folder.join("soak.txt"), text).unwrap();
        samples.plot(&folder.join("soak.svg")).unwrap();
    }
}

#[test]
fn a_lost_or_repeated_update_changes_some_weight_by_a_tenth() {
    for steps in 0..200 {
        let [before, after] = [steps, steps + 1].map(|n| expected_weights(WORKERS as u32, n));
        let apart = before.iter().flatten().zip(after.iter().flatten());
        let most = apart.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(most > 0.1, "{most} at {steps}");
    }
}
