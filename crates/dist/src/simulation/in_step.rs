//! Workers that train in step: each gives numbered gradients, so that what is in the variable tells
//! which of them were taken, and how often.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_graph::{DeviceSpec, Graph, Output};
use thalweg_ops::{NewGraph, ReduceOps, SourceOps, StateOps, Variable};
use thalweg_session::{Feeding, RunOptions};
use thalweg_tensor::DType;
use thalweg_train::{GradientDescent, SyncReplicas, Synchronized, create_global_step};
use tokio::time::sleep;

use super::faults::{Faults, Numbers};
use super::world::{PATIENCE, World};
use crate::error::Cause;
use crate::net::frames::Frames;
use crate::net::messages::Finish;
use crate::net::messages::header::Kind;
use crate::sync::{Coordinator, give_async};

/// The most gradients of all workers.
const MOST: usize = 2048;
/// The time that a step of the worker which makes the variables is given.
const LIMIT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Shared {
    next: usize,
    made: bool,
    ended: BTreeSet<u32>,
    /// The variable and the global step at the end.
    found: Option<(Vec<f32>, i64)>,
}

#[derive(Clone, Copy)]
struct Size {
    workers: u32,
    aggregate: u32,
    steps: i64,
}

pub(super) fn scenario(seed: u64) -> Result<String, String> {
    let mut numbers = Numbers::new(seed);
    let workers = 1 + numbers.below(3) as u32;
    let size = Size {
        workers,
        aggregate: 1 + numbers.below(u64::from(workers)) as u32,
        steps: 100 + numbers.below(200) as i64,
    };
    let world = World::new(seed, 1, workers);
    let shared: Arc<Mutex<Shared>> = Arc::default();
    let mut sim = super::world::simulation(seed, &mut numbers);
    let (of, books) = (world.clone(), shared.clone());
    sim.host("ps0", move || {
        let (world, shared) = (of.clone(), books.clone());
        async move { Ok(serve(&world, &shared, size).await?) }
    });
    let mut hosts: Vec<String> = Vec::new();
    for index in 0..workers {
        hosts.push(format!("worker{index}"));
        let (world, shared) = (world.clone(), shared.clone());
        sim.host(format!("worker{index}"), move || {
            let (world, shared) = (world.clone(), shared.clone());
            async move { Ok(work(&world, &shared, index, size).await?) }
        });
    }
    let (watched, books) = (world.clone(), shared.clone());
    sim.client("watcher", async move {
        let ended = || {
            let shared = books.lock().unwrap();
            shared.ended.len() == workers as usize && shared.found.is_some()
        };
        while !ended() {
            sleep(Duration::from_millis(100)).await;
        }
        sleep(PATIENCE.silence * 3).await;
        watched.idle("ps")?;
        let shared = books.lock().unwrap();
        let (values, step) = shared.found.as_ref().ok_or("nothing was found")?;
        Ok(check(values, *step, size, shared.next)?)
    });
    let mortal = hosts.clone();
    hosts.push("ps0".to_owned());
    let done = Faults::new(&mut numbers, &hosts, &mortal).run(&mut sim, &world);
    done.map_err(|e| format!("{e}\n{}", world.noted()))?;
    Ok(world.noted())
}

struct Model<'g> {
    x: Output<'g>,
    w: Variable<'g>,
    sync: Synchronized<'g>,
}

/// A loss whose gradient is what is fed.
fn build(g: &Graph, size: Size) -> Model<'_> {
    let x = g.placeholder("x", DType::F32, [MOST as i64]);
    let on: DeviceSpec = "/job:ps/task:0".parse().unwrap();
    let (w, step) = g.device(on, || {
        (g.variable("w", vec![0.0f32; MOST]), create_global_step(g))
    });
    let loss = (w * x).reduce_sum(&[0], false);
    let sync = SyncReplicas::new(GradientDescent::new(1.0), size.workers)
        .aggregate(size.aggregate)
        .minimize(loss, step);
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    Model { x, w, sync }
}

async fn serve(world: &World, shared: &Mutex<Shared>, size: Size) -> Result<(), String> {
    let task = world.start("ps", 0).await.map_err(|e| e.to_string())?;
    {
        let g = Graph::new();
        let model = build(&g, size);
        let session = world.session(&task, &g).map_err(|e| e.to_string())?;
        let coordinator = Coordinator {
            task: &task,
            session: &session,
            sync: &model.sync,
            job: "worker",
        };
        let done = coordinator.coordinate(size.steps).await;
        done.map_err(|e| format!("the coordinator: {:?} {e}", e.cause))?;
        world.note("all updates are made");
        while task.finished("worker").len() < size.workers as usize {
            sleep(Duration::from_millis(100)).await;
        }
        let found = session
            .step_async(
                &(model.w, model.sync.global_step),
                &[],
                &RunOptions::default(),
            )
            .await;
        let found = found.map_err(|e| e.to_string())?;
        let values = found.slice::<f32>(0).map_err(|e| e.to_string())?.to_vec();
        let step = found.scalar::<i64>(1).map_err(|e| e.to_string())?;
        shared.lock().unwrap().found = Some((values, step));
    }
    std::future::pending().await
}

async fn work(world: &World, shared: &Mutex<Shared>, index: u32, size: Size) -> Result<(), String> {
    let task = world
        .start("worker", index)
        .await
        .map_err(|e| e.to_string())?;
    if shared.lock().unwrap().ended.contains(&index) {
        return Ok(());
    }
    let explained = |e: &crate::ClusterError| match e.cause {
        Cause::Deadline => Ok(()),
        cause if cause.is_loss() => Ok(()),
        // Nobody has made the variables yet.
        Cause::Uninitialized => Ok(()),
        _ => Err(format!(
            "worker {index}: no fault explains {:?} {e}",
            e.cause
        )),
    };
    {
        let g = Graph::new();
        let model = build(&g, size);
        let session = world.session(&task, &g).map_err(|e| e.to_string())?;
        while index == 0 && !shared.lock().unwrap().made {
            let options = RunOptions::new().timeout(LIMIT);
            match session.step_async(&g.initializers(), &[], &options).await {
                Ok(_) => shared.lock().unwrap().made = true,
                Err(e) => explained(&e)?,
            }
        }
        loop {
            let id = {
                let mut shared = shared.lock().unwrap();
                shared.next += 1;
                shared.next - 1
            };
            if id >= MOST {
                return Err("the training has made no way".to_owned());
            }
            let mut one = vec![0.0f32; MOST];
            one[id] = 1.0;
            let feeds = vec![model.x.feed(one)];
            let nothing: Vec<Output<'_>> = Vec::new();
            match give_async(&session, &model.sync, index, &nothing, feeds).await {
                Ok(Some((_, step))) => world.note(format!("worker {index} gave {id} in {step}")),
                Ok(None) => break,
                Err(e) => {
                    world.note(format!(
                        "worker {index} failed with {id}: {:?} {e}",
                        e.cause
                    ));
                    explained(&e)?;
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    let ps = ("ps".to_owned(), 0);
    let address = world.cluster.address("ps", 0).map_err(|e| e.to_string())?;
    let peer = task.peers.get(&ps, address).map_err(|e| e.to_string())?;
    let finish = || {
        Frames::of(Kind::Finish(Finish {
            job: "worker".to_owned(),
            index,
        }))
    };
    while tokio::time::timeout(LIMIT, peer.ask("Finish", finish()))
        .await
        .is_ok_and(|told| told.is_err())
    {
        sleep(Duration::from_millis(100)).await;
    }
    world.note(format!("worker {index} has ended"));
    shared.lock().unwrap().ended.insert(index);
    Ok(())
}

/// Each update is the mean of as many gradients as are asked for, or of more; no gradient is in two of
/// them, or twice in one.
fn check(values: &[f32], step: i64, size: Size, given: usize) -> Result<(), String> {
    if step != size.steps {
        return Err(format!("the global step is {step}, not {}", size.steps));
    }
    let most = 1.0 / size.aggregate as f32 + 1e-6;
    for (id, &v) in values.iter().enumerate() {
        if !(-most..=0.0).contains(&v) || (v != 0.0 && id >= given) {
            return Err(format!(
                "gradient {id} has {v} of the updates, {most} at most"
            ));
        }
    }
    let sum: f64 = values.iter().map(|&v| f64::from(-v)).sum();
    if (sum - step as f64).abs() > 1e-3 {
        return Err(format!(
            "{step} updates have applied {sum} gradients' means"
        ));
    }
    Ok(())
}
