//! Deep MNIST between parameter servers and workers: every worker is a process that builds the same
//! graph, with the variables on the servers, and trains them with its own batches.

mod flags;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use flags::{Flags, Job};
use thalweg::data::{Mnist, Split};
use thalweg::dist::{
    ClusterError, ClusterOptions, ClusterSpec, Server, ServerOptions, Session, TrainingGauges, sync,
};
use thalweg::prelude::*;
use thalweg::train::hooks::{Every, StopOnSignalHook};
use thalweg::train::{MonitoredSession, Role, StopSignal, SyncReplicas, Synchronized};
use thalweg_examples::model::{
    DeepMnist, deep_mnist_trained_by, falling_rate, feeds, synthetic_feeds,
};
use thalweg_examples::output;
use thalweg_examples::report::print;
use thalweg_examples::traces::warmed_up;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Test images of one step.
const TEST_BATCH: usize = 200;
/// Steps of a benchmark that come before the measured ones.
const WARMUP: u64 = 8;

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<()> {
    let jobs = [("ps", &*flags.ps_hosts), ("worker", &*flags.worker_hosts)];
    let cluster = ClusterSpec::from_flags(&jobs)?;
    let options = ServerOptions::listening("")
        .session(SessionOptions::new().threads(flags.threads))
        .launched(flags.protection.as_deref())?;
    let server = Server::new(cluster, flags.job.name(), flags.task, options)?;
    if flags.job == Job::Ps {
        if flags.sync && flags.task == 0 {
            coordinate(flags, &server)?;
        }
        return Ok(server.join_workers("worker")?);
    }
    let done = work(flags, &server);
    // After a failure too: the servers then do not wait for this worker.
    server.finish("ps");
    done
}

/// Devices of the variables and of everything else.
fn setter(server: &Server, own: &str) -> Result<ReplicaDeviceSetter> {
    let servers = server.cluster().len("ps") as u32;
    Ok(ReplicaDeviceSetter::new(servers)
        .worker_device(own.parse()?)
        .strategy(Greedy::by_bytes(servers)))
}

/// The training op.
enum Training<'g> {
    /// The worker's own update.
    Alone(Operation<'g>),
    /// The worker's part of a synchronous update.
    InStep(Synchronized<'g>),
}

/// The network, its training op and the global step.
fn build<'g>(
    g: &'g Graph,
    flags: &Flags,
    setter: ReplicaDeviceSetter,
    workers: u32,
) -> (DeepMnist<'g>, Training<'g>, Variable<'g>) {
    g.device(setter, || {
        let step = create_global_step(g);
        let mut training = None;
        let net = deep_mnist_trained_by(g, flags.data_format, |loss| {
            let adam = adam(flags, step);
            let (built, operation) = match flags.sync {
                false => {
                    let update = adam.minimize_counting(loss, step);
                    (Training::Alone(update), update)
                }
                true => {
                    let asked = if flags.aggregate == 0 {
                        workers
                    } else {
                        flags.aggregate
                    };
                    let sync = SyncReplicas::new(adam, workers).aggregate(asked);
                    let sync = sync.minimize(loss, step);
                    let give = sync.give;
                    (Training::InStep(sync), give)
                }
            };
            training = Some(built);
            operation
        });
        let training = training.unwrap_or(Training::Alone(net.train));
        (net, training, step)
    })
}

/// The first server's work in synchronous training: it is the chief, and updates the variables.
fn coordinate(flags: &Flags, server: &Server) -> Result<()> {
    let g = Graph::new();
    g.set_seed(flags.seed.into());
    let workers = server.cluster().len("worker") as u32;
    let (_, training, _) = build(&g, flags, setter(server, "/job:ps/task:0")?, workers);
    let Training::InStep(sync) = &training else {
        return Ok(());
    };
    let mut coordinator = sync::Coordinator::new(server, sync, "worker")?;
    let options = ClusterOptions::new().device_filter("/job:ps");
    let mut session = monitored(flags, &g, Role::Chief, true)?
        .start(|| Session::on(server, &g, options.clone()))?;
    let last = i64::try_from(flags.steps())?;
    let mut step = session.global_step()?.unwrap_or(0);
    while step < last {
        match session.run_step_fn(|s| coordinator.update(s))? {
            Some(now) => step = now,
            None => break,
        }
    }
    // The last checkpoint is saved before the workers learn of the end: the other servers end with them.
    let saved = session.close();
    coordinator.close();
    Ok(saved?)
}

/// A session that restores the newest checkpoint after a loss, and saves them if it `saves`. It ends on Ctrl-C and SIGTERM.
fn monitored<'g>(
    flags: &Flags,
    g: &'g Graph,
    role: Role,
    saves: bool,
) -> Result<MonitoredTrainingSession<'g>> {
    let monitored = MonitoredTrainingSession::new(g)
        .role(role)
        .hook(StopOnSignalHook::new(StopSignal::catch()?))
        .log_step_count(None);
    Ok(match flags.checkpoint_dir.as_ref().filter(|_| saves) {
        Some(folder) => monitored
            .checkpoint_dir(folder)
            .save_checkpoint(Every::Steps(flags.save_steps)),
        None => monitored,
    })
}

fn work(flags: &Flags, server: &Server) -> Result<()> {
    let g = Graph::new();
    // Each worker drops features of its own; the weights are worker 0's.
    g.set_seed((flags.seed + flags.task * 1000).into());
    let own = format!("/job:worker/task:{}", flags.task);
    let workers = server.cluster().len("worker") as u32;
    let (net, training, step) = build(&g, flags, setter(server, &own)?, workers);
    // The other workers have nothing that this one needs.
    let options = ClusterOptions::new().device_filter("/job:ps");
    // In synchronous training the first server is the chief.
    let role = match flags.task {
        0 if !flags.sync => Role::Chief,
        _ => Role::Worker,
    };
    let session = monitored(flags, &g, role, !flags.sync)?
        .start(|| Session::on(server, &g, options.clone()))?;
    let mut worker = Worker {
        flags,
        gauges: server.training(),
        session,
        net,
        training,
        step,
    };
    match flags.benchmark {
        0 => worker.train()?,
        measured => worker.benchmark(measured)?,
    }
    // The last checkpoint, with the values of the last step.
    Ok(worker.session.close()?)
}

/// Adam, whose rate falls at the end; the updates of all workers are counted together.
fn adam<'g>(flags: &Flags, step: Variable<'g>) -> Adam<'g> {
    let falling = (flags.train_steps as f64 * flags.decay).round() as u32;
    match flags.benchmark > 0 || falling == 0 {
        true => Adam::new(flags.learning_rate),
        false => Adam::new(falling_rate(
            step,
            flags.learning_rate,
            flags.train_steps,
            falling,
        )),
    }
}

/// One worker, ready to train.
struct Worker<'w, 'g, M> {
    flags: &'w Flags,
    /// Loss and global step among the metrics of the server.
    gauges: TrainingGauges,
    session: MonitoredSession<Session<'g>, M>,
    net: DeepMnist<'g>,
    training: Training<'g>,
    step: Variable<'g>,
}

impl<'g, M> Worker<'_, 'g, M>
where
    M: FnMut() -> std::result::Result<Session<'g>, ClusterError>,
{
    /// Runs a step; returns the loss and the global step, or `None` where the training is over.
    fn run(&mut self, batch: &[Tensor; 3]) -> Result<Option<(f32, u64)>> {
        let (net, flags) = (&self.net, self.flags);
        let done = match &self.training {
            Training::Alone(update) => {
                let fetches = (*update, net.loss, self.step);
                let done = self
                    .session
                    .run::<((), f32, i64)>(fetches, net.feed(batch))?;
                done.map(|(_, loss, step)| (loss, step))
            }
            Training::InStep(all) => (self.session)
                .run_step_fn(|s| sync::give(s, all, flags.task, net.loss, net.feed(batch)))?,
        };
        let Some((loss, step)) = done else {
            return Ok(None);
        };
        self.gauges.record(loss, step);
        Ok(Some((loss, u64::try_from(step)?)))
    }

    /// With `--trace`, worker 0 runs a few more steps, and saves a trace of the last one on all tasks.
    fn trace(&self, batch: &[Tensor; 3]) -> Result<()> {
        let (Some(path), 0) = (&self.flags.trace, self.flags.task) else {
            return Ok(());
        };
        let Training::Alone(update) = &self.training else {
            return Err("--trace records steps without --sync_replicas alone".into());
        };
        let options = RunOptions::new().traced();
        let session = self.session.session();
        let traced = || session.step_with(*update, self.net.feed(batch), &options);
        // The update alone is another plan than the update and the loss.
        Ok(warmed_up(|| traced().map(|(_, trace)| trace))?.save(path)?)
    }

    fn train(&mut self) -> Result<()> {
        let flags = self.flags;
        let bundled = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"));
        let mnist = Mnist::load(flags.data_dir.clone().unwrap_or_else(bundled))?;
        let seed = flags.seed + flags.task;
        let mut batches = mnist.train.batches(flags.batch_size, seed.into())?;
        let mut batch = feeds(flags.batch_size, 0.5)?;
        let (mut own, mut sum) = (0, 0.0);
        let mut done = u64::try_from(self.session.global_step()?.unwrap_or(0))?;
        let mut began = Instant::now();
        while done < flags.train_steps {
            let [images, labels, _] = &mut batch;
            batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
            let Some((loss, at)) = self.run(&batch)? else {
                break;
            };
            if !loss.is_finite() {
                return Err(format!("the loss is {loss}: try a lower --learning_rate").into());
            }
            done = at;
            own += 1;
            if own == WARMUP {
                self.trace(&batch)?;
            }
            sum += f64::from(loss);
            if own % flags.display_every == 0 && !flags.json {
                let shown = flags.display_every as f64;
                let speed = shown * flags.batch_size as f64 / began.elapsed().as_secs_f64();
                output::line(format_args!(
                    "step {done}: loss {:.4}, {speed:.0} images/s",
                    sum / shown
                ));
                (sum, began) = (0.0, Instant::now());
            }
        }
        if flags.task == 0 {
            let accuracy = self.accuracy(&mnist.test)?;
            let name = "dist_deep_mnist_test_accuracy";
            print(
                flags.json,
                flags.batch_size,
                &[(name, accuracy, "fraction")],
            );
        }
        Ok(())
    }

    /// The accuracy on a split.
    fn accuracy(&self, split: &Split) -> Result<f64> {
        let (mut found, mut seen) = (0.0, 0);
        for chunk in split.chunks(TEST_BATCH)? {
            let mut batch = feeds(chunk.len(), 1.0)?;
            let [images, labels, _] = &mut batch;
            chunk.images_into(images.as_mut_slice()?)?;
            chunk.one_hot_into(labels.as_mut_slice()?)?;
            let session = self.session.session();
            let part: f32 = session.run(self.net.accuracy, self.net.feed(&batch))?;
            found += f64::from(part) * chunk.len() as f64;
            seen += chunk.len();
        }
        Ok(found / seen.max(1) as f64)
    }

    fn benchmark(&mut self, steps: u64) -> Result<()> {
        let flags = self.flags;
        let batch = synthetic_feeds(flags.batch_size)?;
        for _ in 0..WARMUP {
            self.run(&batch)?;
        }
        self.trace(&batch)?;
        let began = Instant::now();
        let mut measured = 0;
        while measured < steps && self.run(&batch)?.is_some() {
            measured += 1;
        }
        let images = measured as f64 * flags.batch_size as f64;
        let name = format!("dist_deep_mnist/worker{}", flags.task);
        let speed = images / began.elapsed().as_secs_f64();
        print(flags.json, flags.batch_size, &[(&name, speed, "images/s")]);
        Ok(())
    }
}
