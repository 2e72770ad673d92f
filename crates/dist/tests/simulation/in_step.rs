//! Synchronous training over several servers that crash, restart and are restored: each worker gives numbered
//! gradients, so that the variables show which of them an update took, and on which servers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_graph::{DeviceSpec, Graph, Operation, Output};
use thalweg_ops::{NewGraph, ReduceOps, SourceOps, StateOps, Variable};
use thalweg_optim::{GradientDescent, SyncReplicas, Synchronized, create_global_step};
use thalweg_session::{Feed, Feeding, RunOptions};
use thalweg_tensor::DType;
use tokio::time::sleep;

use super::faults::{Faults, SeededRandom};
use super::world::{Hardship, TIMEOUTS, World};
use crate::error::{Cause, ClusterError};
use crate::session::Session;
use crate::sync::Coordinator;
use crate::sync::replica::give_async;
use crate::transport::frames::Frames;
use crate::transport::messages::Finish;
use crate::transport::messages::header::Kind;

/// Maximum number of gradients of all workers.
const MOST: usize = 1024;
/// Time limit of a step that restores or saves.
const LIMIT: Duration = Duration::from_secs(3);

struct TrainedState {
    next: usize,
    ended: BTreeSet<u32>,
    /// The newest checkpoint: the variables and the global step.
    saved: (Vec<Vec<f32>>, i64),
    /// The variables and the global step at the end.
    found: Option<(Vec<Vec<f32>>, i64)>,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    servers: u32,
    workers: u32,
    aggregate: u32,
    steps: i64,
    /// Updates between two checkpoints.
    save: i64,
    /// `true` if workers crash: a restarted one computes another gradient for the ticket of the one that it gave in
    /// part.
    workers_die: bool,
}

pub(super) fn scenario(seed: u64) -> Result<String, String> {
    let mut numbers = SeededRandom::new(seed);
    let workers = 1 + numbers.below(3) as u32;
    let size = Size {
        servers: 1 + numbers.below(3) as u32,
        workers,
        aggregate: match numbers.below(2) {
            0 => workers,
            _ => 1 + numbers.below(u64::from(workers) + 1) as u32,
        },
        steps: 30 + numbers.below(60) as i64,
        save: 1 + numbers.below(10) as i64,
        workers_die: numbers.below(2) == 0,
    };
    let hardship = Hardship {
        threads: match numbers.below(3) {
            0 => 1 + numbers.below(3) as usize,
            _ => usize::MAX,
        },
        ..Hardship::default()
    };
    let world = World::with(seed, size.servers, workers, hardship);
    world.note(format!("{size:?} {hardship:?}"));
    let variables = size.servers as usize;
    let shared = Arc::new(Mutex::new(TrainedState {
        next: 0,
        ended: BTreeSet::new(),
        saved: (vec![vec![0.0; MOST]; variables], 0),
        found: None,
    }));
    let mut sim = super::world::simulation(seed, &mut numbers);
    let (mut servers, mut all) = (Vec::new(), Vec::new());
    for index in 0..size.servers {
        servers.push(format!("ps{index}"));
        let (world, shared) = (world.clone(), shared.clone());
        sim.host(format!("ps{index}"), move || {
            let (world, shared) = (world.clone(), shared.clone());
            async move { Ok(serve(&world, &shared, index, size).await?) }
        });
    }
    for index in 0..workers {
        all.push(format!("worker{index}"));
        let (world, shared) = (world.clone(), shared.clone());
        sim.host(format!("worker{index}"), move || {
            let (world, shared) = (world.clone(), shared.clone());
            async move { Ok(work(&world, &shared, index, size).await?) }
        });
    }
    let (monitored, books) = (world.clone(), shared.clone());
    sim.client("watcher", async move {
        let ended = || {
            let shared = books.lock().unwrap();
            shared.ended.len() == workers as usize && shared.found.is_some()
        };
        while !ended() {
            sleep(Duration::from_millis(100)).await;
        }
        sleep(TIMEOUTS.heartbeat * 3).await;
        monitored.idle("ps")?;
        let shared = books.lock().unwrap();
        let found = shared.found.as_ref().ok_or("nothing was found")?;
        Ok(check(found, size, shared.next)?)
    });
    let mut mortal = servers.clone();
    if size.workers_die {
        mortal.extend(all.iter().cloned());
    }
    all.extend(servers);
    let done = Faults::new(&mut numbers, &all, &mortal).run(&mut sim, &world);
    done.map_err(|e| format!("{e}\n{}", world.noted()))?;
    Ok(world.noted())
}

struct SimulatedModel<'g> {
    x: Output<'g>,
    /// Reads all variables.
    loss: Output<'g>,
    variables: Vec<Variable<'g>>,
    sync: Synchronized<'g>,
    /// Assigns the feeds to the variables, and to the global step.
    restore: Operation<'g>,
    saved: Vec<Output<'g>>,
}

/// A loss whose gradient for each variable is the feed.
fn build(g: &Graph, size: Size) -> SimulatedModel<'_> {
    let x = g.placeholder("x", DType::F32, [MOST as i64]);
    let on = |server: u32| -> DeviceSpec { format!("/job:ps/task:{server}").parse().unwrap() };
    let step = g.device(on(0), || create_global_step(g));
    let variable = |i: u32| g.device(on(i), || g.variable(&format!("w{i}"), vec![0.0f32; MOST]));
    let variables: Vec<Variable<'_>> = (0..size.servers).map(variable).collect();
    let losses = variables.iter().map(|&w| (w * x).reduce_sum(&[0], false));
    let loss = losses.reduce(|a, b| a + b).unwrap();
    let sync = SyncReplicas::new(GradientDescent::new(1.0), size.workers)
        .aggregate(size.aggregate)
        .minimize(loss, step);
    let saved = variables
        .iter()
        .map(|_| g.placeholder("saved", DType::F32, [MOST as i64]));
    let mut saved: Vec<Output<'_>> = saved.collect();
    let mut assigned: Vec<Operation<'_>> = variables
        .iter()
        .zip(&saved)
        .map(|(w, &s)| w.assign(s))
        .collect();
    saved.push(g.placeholder("saved_step", DType::I64, []));
    assigned.push(step.assign(saved[variables.len()]));
    let restore = g.group("restore", assigned);
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    SimulatedModel {
        x,
        loss,
        variables,
        sync,
        restore,
        saved,
    }
}

impl<'g> SimulatedModel<'g> {
    /// The variables and the global step.
    async fn read(&self, session: &Session<'g>) -> Result<(Vec<Vec<f32>>, i64), ClusterError> {
        let options = RunOptions::new().timeout(LIMIT);
        let all = (&self.variables, self.sync.global_step);
        let (found, _) = session.step_async(&all, &[], &options).await?;
        let count = self.variables.len();
        let values = (0..count).map(|i| Ok(found.slice::<f32>(i)?.to_vec()));
        Ok((
            values.collect::<Result<_, ClusterError>>()?,
            found.scalar::<i64>(count)?,
        ))
    }

    /// Restores the checkpoint, if a variable has no value, or if a restore was not completed.
    async fn prepare(
        &self,
        session: &Session<'g>,
        shared: &Mutex<TrainedState>,
        unfinished: &mut bool,
    ) -> Result<bool, ClusterError> {
        let options = RunOptions::new().timeout(LIMIT);
        let (ready, _) = session.step_async(&self.sync.ready, &[], &options).await?;
        if ready.scalar::<bool>(0)? && !*unfinished {
            return Ok(false);
        }
        *unfinished = true;
        let (values, step) = shared.lock().unwrap().saved.clone();
        let mut feeds: Vec<Feed<'g>> = Vec::new();
        for (value, &into) in values.into_iter().zip(&self.saved) {
            feeds.push(into.feed(value));
        }
        feeds.push(self.saved[self.variables.len()].feed(step));
        session.step_async(&self.restore, &feeds, &options).await?;
        *unfinished = false;
        Ok(true)
    }
}

async fn serve(
    world: &World,
    shared: &Mutex<TrainedState>,
    index: u32,
    size: Size,
) -> Result<(), String> {
    let task = world.start("ps", index).await.map_err(|e| e.to_string())?;
    if index > 0 {
        return std::future::pending().await;
    }
    {
        let g = Graph::new();
        let model = build(&g, size);
        let session = world.session(&task, &g).map_err(|e| e.to_string())?;
        let coordinator = Coordinator::on(&task, &model.sync, "worker");
        let mut coordinator = coordinator.map_err(|e| e.to_string())?;
        let mut unfinished = false;
        while shared.lock().unwrap().saved.1 < size.steps {
            let update = async {
                if model.prepare(&session, shared, &mut unfinished).await? {
                    world.note("restored");
                }
                // The last update may have been made although its save has failed.
                let now = model.read(&session).await?;
                if now.1 >= size.steps {
                    shared.lock().unwrap().saved = now;
                }
                while shared.lock().unwrap().saved.1 < size.steps {
                    let Some(step) = coordinator.update_async(&session).await? else {
                        return Ok::<_, ClusterError>(None);
                    };
                    world.note(format!("update {step}"));
                    if step % size.save == 0 || step >= size.steps {
                        let saved = model.read(&session).await?;
                        shared.lock().unwrap().saved = saved;
                    }
                }
                Ok(Some(()))
            };
            match update.await {
                Ok(Some(())) => {}
                Ok(None) => return Err("the workers are done before the end".to_owned()),
                Err(e) => {
                    world.note(format!("the coordinator failed: {:?} {e}", e.cause));
                    explained(&e).map_err(|e| format!("the coordinator: {e}"))?;
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        coordinator.close();
        let mut shared = shared.lock().unwrap();
        shared.found = Some(shared.saved.clone());
        world.note("all updates are made");
    }
    // A restarted coordinator tells the workers that have not finished.
    std::future::pending().await
}

/// `true` if a fault explains an error.
fn explained(e: &ClusterError) -> Result<(), String> {
    match e.cause {
        // The variables are not restored yet.
        Cause::Deadline | Cause::Uninitialized => Ok(()),
        // A host has few threads.
        Cause::Exhausted => Ok(()),
        cause if cause.is_loss() => Ok(()),
        _ => Err(format!("no fault explains {:?} {e}", e.cause)),
    }
}

async fn work(
    world: &World,
    shared: &Mutex<TrainedState>,
    index: u32,
    size: Size,
) -> Result<(), String> {
    let task = world
        .start("worker", index)
        .await
        .map_err(|e| e.to_string())?;
    if shared.lock().unwrap().ended.contains(&index) {
        return Ok(());
    }
    {
        let g = Graph::new();
        let model = build(&g, size);
        let session = world.session(&task, &g).map_err(|e| e.to_string())?;
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
            let options = RunOptions::default();
            match give_async(&session, &model.sync, index, &model.loss, feeds, &options).await {
                Ok(Some((_, step, _))) => world.note(format!("worker {index} gave {id} in {step}")),
                Ok(None) => break,
                Err(e) => {
                    world.note(format!(
                        "worker {index} failed with {id}: {:?} {e}",
                        e.cause
                    ));
                    explained(&e).map_err(|e| format!("worker {index}: {e}"))?;
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

/// Checks that each update is the mean of at least the requested number of gradients, and was made on all servers.
fn check((values, step): &(Vec<Vec<f32>>, i64), size: Size, given: usize) -> Result<(), String> {
    if *step != size.steps {
        return Err(format!("the global step is {step}, not {}", size.steps));
    }
    // If no ticket changes its worker, a gradient is in one update.
    let strict = !size.workers_die && size.aggregate == size.workers;
    let most = 1.0 / size.aggregate as f32;
    for (server, values) in values.iter().enumerate() {
        let sum: f64 = values.iter().map(|&v| f64::from(-v)).sum();
        if (sum - *step as f64).abs() > 1e-3 {
            return Err(format!(
                "server {server}: {step} updates have applied the means of {sum}"
            ));
        }
        for (id, &v) in values.iter().enumerate() {
            let near = |x: f32| (v + x).abs() < 1e-6;
            let fits = match strict {
                true => near(0.0) || near(most),
                false => v <= 0.0,
            };
            if !fits || (v != 0.0 && id >= given) {
                return Err(format!(
                    "server {server}: gradient {id} has {v} of the updates"
                ));
            }
        }
    }
    if strict && values.iter().any(|v| v != &values[0]) {
        return Err("servers have applied different gradients".to_owned());
    }
    Ok(())
}
