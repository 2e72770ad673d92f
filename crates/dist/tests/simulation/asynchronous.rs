//! Asynchronous training with faults: each worker adds numbered gradients to variables of its own on every server, so
//! that the applied gradients and their counts can be read from the variables.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_graph::{DeviceSpec, Graph, Output};
use thalweg_ops::{NewGraph, SourceOps, StateOps, Variable};
use thalweg_session::{Feeding, RunOptions};
use thalweg_tensor::{BUFFER_OVERHEAD, DType};
use tokio::time::{Instant, sleep};

use super::faults::{END, Faults, SeededRandom};
use super::ledger::Ledger;
use super::world::World;
use crate::error::{Cause, ClusterError};
use crate::session::Session;

/// Maximum number of gradients of a worker.
const MOST: usize = 512;
/// Number of gradients that have to be applied after the last fault.
const ENOUGH: usize = 10;
/// Time limit of every other step.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum duration of a step without a time limit: an absent task is waited for (5 s), a silent one is lost after 1
/// s, for each task in turn.
const NEVER: Duration = Duration::from_secs(16);

type Ledgers = Arc<Mutex<Vec<Ledger>>>;

pub(super) fn scenario(seed: u64) -> Result<String, String> {
    let mut numbers = SeededRandom::new(seed);
    let (servers, workers) = (1 + numbers.below(2) as u32, 1 + numbers.below(2) as u32);
    let world = World::new(seed, servers, workers);
    let ledgers: Ledgers = Arc::default();
    let mut sim = super::world::simulation(seed, &mut numbers);
    let mut hosts = Vec::new();
    for index in 0..servers {
        hosts.push(format!("ps{index}"));
        let world = world.clone();
        sim.host(format!("ps{index}"), move || {
            let world = world.clone();
            async move {
                let _task = world.start("ps", index).await?;
                std::future::pending().await
            }
        });
    }
    for index in 0..workers {
        ledgers.lock().unwrap().push(Ledger::default());
        hosts.push(format!("worker{index}"));
        let (world, ledgers) = (world.clone(), ledgers.clone());
        sim.host(format!("worker{index}"), move || {
            let (world, ledgers) = (world.clone(), ledgers.clone());
            async move { Ok(work(&world, &ledgers, index, servers).await?) }
        });
    }
    let (monitored, books) = (world.clone(), ledgers.clone());
    sim.client("watcher", async move {
        while !books.lock().unwrap().iter().all(|l| l.ended) {
            sleep(Duration::from_millis(100)).await;
        }
        // The workers' leases have ended by then.
        sleep(super::world::TIMEOUTS.heartbeat * 3).await;
        let bytes = workers as usize * (MOST * 4 + BUFFER_OVERHEAD);
        Ok(monitored.held("ps", |_| bytes)?)
    });
    let done = Faults::new(&mut numbers, &hosts, &hosts).run(&mut sim, &world);
    done.map_err(|e| format!("{e}\n{}", world.noted()))?;
    Ok(world.noted())
}

/// A worker's variable on each server, the additions, and the fed placeholder.
fn build(g: &Graph, worker: u32, servers: u32) -> (Output<'_>, Vec<Variable<'_>>) {
    let x = g.placeholder("x", DType::F32, [MOST as i64]);
    let logs = (0..servers).map(|s| {
        let on: DeviceSpec = format!("/job:ps/task:{s}").parse().unwrap();
        g.device(on, || {
            g.variable(&format!("log{worker}_{s}"), vec![0.0f32; MOST])
        })
    });
    (x, logs.collect())
}

async fn work(world: &World, ledgers: &Ledgers, index: u32, servers: u32) -> Result<(), String> {
    let task = world
        .start("worker", index)
        .await
        .map_err(|e| e.to_string())?;
    if ledgers.lock().unwrap()[index as usize].ended {
        return Ok(());
    }
    let book = |change: &mut dyn FnMut(&mut Ledger)| {
        change(&mut ledgers.lock().unwrap()[index as usize]);
    };
    let g = Graph::new();
    let (x, logs) = build(&g, index, servers);
    let mut value = x;
    let mut adds = Vec::new();
    for &log in &logs {
        adds.push(log.assign_add(value));
        // Through the worker from one server to the next.
        value = value + log.read() - log.read();
    }
    let session = world.session(&task, &g).map_err(|e| e.to_string())?;
    // Number of successful steps after the last fault.
    let mut after = 0;
    loop {
        let mut id = 0;
        book(&mut |l| {
            id = l.next;
            l.next += 1;
        });
        let late = turmoil::sim_elapsed().unwrap_or_default() > END;
        if id == MOST {
            return Err(format!("worker {index} has made no way"));
        }
        let mut one = vec![0.0f32; MOST];
        one[id] = 1.0;
        let options = match id % 2 {
            0 => RunOptions::new().timeout(LIMIT),
            _ => RunOptions::default(),
        };
        let began = Instant::now();
        let done = session.step_async(&adds, &[x.feed(one)], &options).await;
        let limit = if id % 2 == 0 {
            LIMIT + LIMIT / 10
        } else {
            NEVER
        };
        if began.elapsed() > limit {
            return Err(format!(
                "worker {index}: step {id} took {:?}",
                began.elapsed()
            ));
        }
        match done {
            Ok(_) => {
                world.note(format!("worker {index} gave {id}"));
                book(&mut |l| l.applied.push(id));
                after += usize::from(late);
                if after >= ENOUGH {
                    break;
                }
            }
            Err(e) => {
                world.note(format!(
                    "worker {index} failed with {id}: {:?} {e}",
                    e.cause
                ));
                failed(&session, &g, &e, &book, world).await?;
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
    let mut values = Err(ClusterError::new(Cause::Internal, "never read"));
    for _ in 0..5 {
        values = session
            .step_async(&logs, &[], &RunOptions::new().timeout(LIMIT))
            .await;
        if values.is_ok() {
            break;
        }
    }
    let values = values.map_err(|e| format!("worker {index}, at its end: {e}"))?;
    for server in 0..logs.len() {
        let log = values.0.slice::<f32>(server).map_err(|e| e.to_string())?;
        ledgers.lock().unwrap()[index as usize]
            .check(log)
            .map_err(|e| format!("worker {index} on server {server}: {e}"))?;
    }
    drop(session);
    world.note(format!("worker {index} has ended"));
    book(&mut |l| l.ended = true);
    Ok(())
}

/// Next action after a failed step.
async fn failed(
    session: &Session<'_>,
    g: &Graph,
    error: &ClusterError,
    book: &impl Fn(&mut dyn FnMut(&mut Ledger)),
    world: &World,
) -> Result<(), String> {
    match error.cause {
        Cause::Deadline => {}
        cause if cause.is_loss() => {}
        Cause::Uninitialized => {
            let mut before = false;
            book(&mut |l| {
                before = l.lost();
            });
            let made = session
                .step_async(&g.initializers(), &[], &RunOptions::new().timeout(LIMIT))
                .await;
            world.note(format!("variables are made: {:?}", made.is_ok()));
            if made.is_ok() {
                book(&mut |l| l.doubtful = before);
            }
        }
        _ => {
            return Err(format!(
                "an error that no fault explains: {:?} {error}",
                error.cause
            ));
        }
    }
    sleep(Duration::from_millis(100)).await;
    Ok(())
}
