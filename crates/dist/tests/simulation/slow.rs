//! Workers on slow lines that buffer seconds of data: training goes on, and no task is taken for lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_graph::{DeviceSpec, Graph};
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_session::{Feeding, RunOptions};
use thalweg_tensor::DType;
use tokio::time::{Instant, sleep};

use super::faults::SeededRandom;
use super::line::SlowLine;
use super::world::{Hardship, TIMEOUTS, World};

/// The steps of each worker.
const STEPS: usize = 3;

pub(super) fn scenario(seed: u64) -> Result<String, String> {
    let mut numbers = SeededRandom::new(seed);
    let workers = 1 + numbers.below(2) as u32;
    let rate = 20_000 + numbers.below(200_000);
    // A value takes up to three times the heartbeat timeout.
    let elements = (rate as usize / 4) * (1 + numbers.below(3) as usize);
    let hardship = Hardship {
        line: Some(SlowLine {
            rate,
            holds: (16 << 10) + numbers.below(4 * rate) as usize,
        }),
        ..Hardship::default()
    };
    let world = World::with(seed, 1, workers, hardship);
    world.note(format!(
        "{workers} workers, {elements} elements, {hardship:?}"
    ));
    let ended: Arc<Mutex<u32>> = Arc::default();
    let mut sim = super::world::simulation(seed, &mut numbers);
    let of = world.clone();
    sim.host("ps0", move || {
        let world = of.clone();
        async move {
            let _task = world.start("ps", 0).await?;
            std::future::pending().await
        }
    });
    for index in 0..workers {
        let (world, ended) = (world.clone(), ended.clone());
        sim.host(format!("worker{index}"), move || {
            let (world, ended) = (world.clone(), ended.clone());
            async move {
                work(&world, index, elements).await?;
                *ended.lock().unwrap() += 1;
                Ok(())
            }
        });
    }
    let monitored = world.clone();
    sim.client("watcher", async move {
        while *ended.lock().unwrap() < workers {
            sleep(Duration::from_millis(100)).await;
        }
        // Bytes on the lines arrive first.
        sleep(TIMEOUTS.heartbeat * 12).await;
        Ok(monitored.idle("ps")?)
    });
    sim.run().map_err(|e| format!("{e}\n{}", world.noted()))?;
    Ok(world.noted())
}

/// Reads a large variable, and adds to it.
async fn work(world: &World, index: u32, elements: usize) -> Result<(), String> {
    let task = world
        .start("worker", index)
        .await
        .map_err(|e| e.to_string())?;
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [elements as i64]);
    let on: DeviceSpec = "/job:ps/task:0".parse().unwrap();
    let w = g.device(on, || {
        g.variable(&format!("w{index}"), vec![0.0f32; elements])
    });
    let add = w.assign_add(w.read() * x);
    let session = world.session(&task, &g).map_err(|e| e.to_string())?;
    let options = RunOptions::default();
    let made = session.step_async(&g.initializers(), &[], &options).await;
    made.map_err(|e| format!("worker {index} cannot begin: {:?} {e}", e.cause))?;
    for step in 0..STEPS {
        let began = Instant::now();
        let feeds = [x.feed(vec![1.0f32; elements])];
        let done = session.step_async(&add, &feeds, &options).await;
        done.map_err(|e| format!("worker {index}, step {step}: {:?} {e}", e.cause))?;
        world.note(format!(
            "worker {index}: step {step} took {:?}",
            began.elapsed()
        ));
    }
    Ok(())
}
