//! `thalweg server`: runs one task of a cluster.

mod log;
mod log_queue;
mod option_specs;
mod server_args;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use clap::Args;
use thalweg_device::Files;
use thalweg_dist::{AllowedOps, ClusterSpec, Limits, Protection, Server, ServerOptions};
use thalweg_launch::Signals;
use thalweg_session::SessionOptions;

use crate::failure::Failure;
use crate::output_file::check_output_file;
use log_queue::LogQueue;
use server_args::ServerArgs;

/// Time that the end of the process waits for log lines that are not written yet.
const LOG_FLUSH_LIMIT: Duration = Duration::from_secs(1);
/// Interval at which signals are polled.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a task that clients connect to, TensorFlow's with grpc://HOST:PORT among them. Alone, it is
/// /job:localhost/task:0.
///
/// On SIGTERM or Ctrl-C it takes nothing new, lets the steps that run end, and ends itself. A second signal ends it
/// at once.
#[derive(Args)]
pub struct Serve {
    /// A file of settings, as TOML: each flag is an entry, with underscores for dashes. What a flag says counts more.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings and where each comes from, as a file for --config, and end.
    #[arg(long)]
    show_config: bool,
    #[command(flatten)]
    args: ServerArgs,
}

impl Serve {
    /// Runs the server until a signal ends it.
    pub fn run(&self) -> Result<(), Failure> {
        let args = match &self.config {
            Some(file) => self.args.clone().or_file(file)?,
            None => self.args.clone(),
        };
        let options = options(&args)?;
        if self.show_config {
            return crate::output::text(&args.to_config(&options));
        }
        let log = log::start(&args)?;
        let drain = options.drain();
        let mut signals = Signals::catch()?;
        let server = Arc::new(start(&args, options)?);
        if let Some(address) = args.text("metrics") {
            let at = server.serve_metrics(address);
            let at = at.map_err(|e| args.invalid("metrics", &e))?;
            tracing::info!("metrics are at http://{at}/metrics");
        }
        let (sender, ends) = channel();
        // The thread ends with the process. A second signal ends the process at once.
        std::thread::Builder::new()
            .name("thalweg-signals".to_owned())
            .spawn(move || {
                let mut ending = false;
                loop {
                    for signal in signals.pending() {
                        if std::mem::replace(&mut ending, true) {
                            std::process::exit(128 + signal);
                        }
                        let _ = sender.send(());
                    }
                    std::thread::sleep(SIGNAL_POLL_INTERVAL);
                }
            })?;
        let checkpoint = args.text("drain_checkpoint").map(PathBuf::from);
        if let Some(folder) = &checkpoint {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|e| args.invalid("drain_checkpoint", &e))?;
            let written = check_output_file(&folder.join("checkpoint"));
            written.map_err(|e| args.invalid("drain_checkpoint", &e))?;
        }
        // One line when the server is ready: programs that start a server wait for it.
        if let Err(e) = crate::output::line(server.target()) {
            // The server goes on without the line.
            log.push(format!("note: {e}").as_bytes());
        }
        let (draining, notes) = (server.clone(), log.clone());
        let (lost, losses) = channel();
        std::thread::Builder::new()
            .name("thalweg-drain".to_owned())
            .spawn(move || {
                if ends.recv().is_ok() {
                    if let Err(e) = drain_and_save(&draining, drain, checkpoint.as_deref(), &notes)
                    {
                        let _ = lost.send(e.to_string());
                    }
                    draining.shutdown();
                }
            })?;
        server.join()?;
        // A reader that has stopped does not hold the end.
        log.flush(LOG_FLUSH_LIMIT);
        match losses.try_recv() {
            Ok(e) => Err(format!("the variables are not saved: {e}").into()),
            Err(_) => Ok(()),
        }
    }
}

/// Waits for the steps of a server to end, and saves its variables.
fn drain_and_save(
    server: &Server,
    limit: Duration,
    checkpoint: Option<&Path>,
    log: &LogQueue,
) -> Result<(), Failure> {
    let left = server.drain(limit);
    if left > 0 {
        let text = format!("note: {left} steps did not end within {limit:?}: they are cancelled");
        log.push(text.as_bytes());
    }
    if let Some(folder) = checkpoint {
        let saved = save_variables(server, folder)?;
        log.push(format!("note: variables are in {saved}").as_bytes());
    }
    Ok(())
}

/// Writes a checkpoint of a server's variables, and returns its prefix.
fn save_variables(server: &Server, folder: &Path) -> Result<String, Failure> {
    let (job, task) = server.task();
    let prefix = folder.join(format!("{job}-{task}"));
    let began = Instant::now();
    let done = thalweg_checkpoint::save_weights(&prefix, server.variables());
    server.saved(began.elapsed(), done.is_ok());
    done?;
    Ok(prefix.display().to_string())
}

/// Returns the job and the number of the task from the arguments.
fn task_name(args: &ServerArgs) -> Result<(&str, u32), Failure> {
    Ok((
        args.text("job").unwrap_or("localhost"),
        args.number("task", 0)?,
    ))
}

/// Returns the server's options from its arguments.
fn options(args: &ServerArgs) -> Result<ServerOptions, Failure> {
    let listen = args.text("listen").unwrap_or("127.0.0.1:0");
    let files = Files::within(args.list("files")).map_err(|e| args.invalid("files", &e))?;
    let (job, task) = task_name(args)?;
    let session = SessionOptions::new()
        .task(job, task)
        .threads(args.number("threads", 0)?);
    let mut options = ServerOptions::listening(listen)
        .session(session)
        .unprotected_network(args.flag("unprotected_network"))
        .files(files)
        .shared_memory(!args.flag("no_shared_memory"));
    if let Some(folder) = args.text("protection") {
        let keys = Protection::from_dir(folder);
        options = options.protection(keys.map_err(|e| args.invalid("protection", &e))?);
    }
    if let Some(file) = args.text("ops") {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|e| args.invalid("ops", &format!("{file}: {e}")))?;
        let ops = AllowedOps::only(text.split_whitespace());
        options = options.limits(Limits {
            ops: ops.map_err(|e| args.invalid("ops", &e))?,
            ..Limits::default()
        });
    }
    args.apply(&mut options)?;
    Ok(options)
}

/// Starts a server that is alone, or a task of the cluster of its arguments.
fn start(args: &ServerArgs, options: ServerOptions) -> Result<Server, Failure> {
    let hosts = |name| args.text(name).unwrap_or_default();
    let jobs = [("ps", hosts("ps_hosts")), ("worker", hosts("worker_hosts"))];
    let cluster = ClusterSpec::from_flags(&jobs)?;
    if cluster.is_empty() {
        return Ok(Server::start(options)?);
    }
    let (job, task) = task_name(args)?;
    let own = cluster.address(job, task)?;
    if args.text("listen").is_some_and(|l| l != own) {
        let text = format!("is not {own}, where the other tasks look for it");
        return Err(args.invalid("listen", &text));
    }
    Ok(Server::new(cluster, job, task, options)?)
}
