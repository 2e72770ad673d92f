//! Stall of a training by a checkpoint, compared with one copy of its variables in memory.
//!
//! ```text
//! cargo bench -p thalweg-benches --bench checkpoints -- FOLDER [ROUNDS]
//! ```
//!
//! A step updates all variables. The stall is the time of `begin_save`, plus the extra time of the next step, which
//! writes to other memory; it is measured without a writer. The copy is measured into memory that was used before, and
//! into new memory. The total cost of a save is the extra time of all steps until it is on the disk.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thalweg::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Sizes of variables, in numbers of `f32`: those of deep MNIST, 100 MB, 1 GB.
fn sizes() -> [(&'static str, Vec<usize>); 3] {
    let deep_mnist = vec![800, 32, 51_200, 64, 3_211_264, 1024, 10_240, 10];
    [
        ("deep MNIST", deep_mnist),
        ("100 MB", vec![3_125_000; 8]),
        ("1 GB", vec![15_625_000; 16]),
    ]
}

/// The median.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64())
}

/// Results of one round, in seconds.
struct Round {
    step: f64,
    begin: f64,
    held: f64,
    warm: f64,
    fresh: f64,
    written: f64,
    lost: f64,
}

fn round(
    session: &Session<'_>,
    train: Operation<'_>,
    saver: &Saver,
    prefix: &Path,
    bytes: usize,
) -> Result<Round> {
    let step = || seconds(|| Ok(session.run(train, [])?));
    let steps: Vec<f64> = (0..5).map(|_| step()).collect::<Result<_>>()?;
    let normal = median(steps);
    // The snapshot alone.
    let values: Vec<Tensor> = session.run(session.graph().trainable_variables(), [])?;
    let held = step()?;
    drop(values);
    step()?;
    // A save, with steps until it is on the disk.
    let began = Instant::now();
    let save = || saver.begin_save(session, prefix, 1);
    let begin = seconds(|| Ok(save().map(drop)?))?;
    let mut steps = 0.0;
    while saver.is_writing() {
        step()?;
        steps += 1.0;
    }
    saver.wait()?;
    let written = began.elapsed().as_secs_f64();
    let from = vec![1u8; bytes];
    let mut to = vec![2u8; bytes];
    let warm = seconds(|| {
        black_box(&mut to).copy_from_slice(black_box(&from));
        Ok(())
    })?;
    drop(to);
    let fresh = seconds(|| {
        drop(black_box(black_box(&from).clone()));
        Ok(())
    })?;
    Ok(Round {
        step: normal,
        begin,
        held,
        warm,
        fresh,
        written,
        lost: written - steps * normal,
    })
}

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let folder = PathBuf::from(given.first().map_or("target/checkpoints", |f| f));
    let rounds: usize = given.get(1).map_or(Ok(7), |n| n.parse())?;
    std::fs::create_dir_all(&folder)?;
    println!(
        "| variables | a step | begin_save | the step after it | stall | copy, used memory | copy, new memory | stall / copy | written after | lost in all |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, sizes) in sizes() {
        let g = Graph::new();
        let all = sizes.iter().map(|&n| {
            let zeros = g.fill([n as i64], 0.5f32);
            g.variable("w", zeros)
        });
        let all: Vec<Variable<'_>> = all.collect();
        let loss = all.iter().map(|w| w.value().square().sum() * 0.5);
        let loss = loss.reduce(|a, b| a + b).ok_or("no variables")?;
        let train = GradientDescent::new(0.01).minimize(loss);
        let saver = Saver::new(&g).max_to_keep(1);
        let session = Session::new(&g)?;
        session.run(g.initializers(), [])?;
        let bytes = 4 * sizes.iter().sum::<usize>();
        let prefix = folder.join("stall");
        let mut measured = Vec::new();
        for i in 0..=rounds {
            let round = round(&session, train, &saver, &prefix, bytes)?;
            // The first round compiles the plans.
            if i > 0 {
                measured.push(round);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let of = |what: fn(&Round) -> f64| median(measured.iter().map(what).collect());
        let stall = |r: &Round| (r.begin + r.held - r.step).max(0.0);
        let ms = |s: f64| format!("{:.2} ms", 1e3 * s);
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {:.2}, {:.2} | {} | {} |",
            ms(of(|r| r.step)),
            ms(of(|r| r.begin)),
            ms(of(|r| r.held)),
            ms(of(stall)),
            ms(of(|r| r.warm)),
            ms(of(|r| r.fresh)),
            median(measured.iter().map(|r| stall(r) / r.warm).collect()),
            median(measured.iter().map(|r| stall(r) / r.fresh).collect()),
            ms(of(|r| r.written)),
            ms(of(|r| r.lost)),
        );
    }
    Ok(())
}
