//! `thalweg server`: a task that clients connect to.

mod log;
mod said;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use clap::Args;
use thalweg_device::Files;
use thalweg_dist::{AllowedOps, ClusterSpec, Protection, Server, ServerOptions};
use thalweg_launch::Signals;

use crate::Failure;
use said::Said;

/// How often it is looked whether a signal came.
const LOOK: Duration = Duration::from_millis(20);

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
    said: Said,
}

impl Serve {
    /// Runs the server until it is told to end.
    pub fn run(&self) -> Result<(), Failure> {
        let said = match &self.config {
            Some(file) => self.said.clone().or_file(file)?,
            None => self.said.clone(),
        };
        let options = options(&said)?;
        if self.show_config {
            return crate::say::text(&said.shown(&options));
        }
        log::start(&said)?;
        let drain = options.limits.drain;
        let mut signals = Signals::catch()?;
        let server = Arc::new(started(&said, options)?);
        if let Some(address) = said.text("metrics") {
            let at = server.serve_metrics(address);
            let at = at.map_err(|e| said.wrong("metrics", &e))?;
            tracing::info!("metrics are at http://{at}/metrics");
        }
        let (told, ends) = channel();
        // It ends with the process. A second signal ends the process at once.
        std::thread::Builder::new()
            .name("thalweg-signals".to_owned())
            .spawn(move || {
                let mut ending = false;
                loop {
                    for signal in signals.pending() {
                        if std::mem::replace(&mut ending, true) {
                            std::process::exit(128 + signal);
                        }
                        let _ = told.send(());
                    }
                    std::thread::sleep(LOOK);
                }
            })?;
        let checkpoint = said.text("drain_checkpoint").map(PathBuf::from);
        if let Some(folder) = &checkpoint {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|e| said.wrong("drain_checkpoint", &e))?;
        }
        // One line, when it is ready: programs that start a server wait for it.
        if let Err(e) = crate::say::line(server.target()) {
            // Clients are worth more than the line.
            crate::say::error(format_args!("note: {e}"));
        }
        let draining = server.clone();
        let (lost, losses) = channel();
        std::thread::Builder::new()
            .name("thalweg-drain".to_owned())
            .spawn(move || {
                if ends.recv().is_ok() {
                    if let Err(e) = drained(&draining, drain, checkpoint.as_deref()) {
                        let _ = lost.send(e.to_string());
                    }
                    draining.shutdown();
                }
            })?;
        server.join()?;
        match losses.try_recv() {
            Ok(e) => Err(format!("the variables are not saved: {e}").into()),
            Err(_) => Ok(()),
        }
    }
}

/// Lets the steps of a server end, and saves its variables.
fn drained(server: &Server, limit: Duration, checkpoint: Option<&Path>) -> Result<(), Failure> {
    let left = server.drain(limit);
    if left > 0 {
        let text = format!("note: {left} steps did not end within {limit:?}: they are cancelled");
        crate::say::error(text);
    }
    if let Some(folder) = checkpoint {
        let at = saved(server, folder)?;
        crate::say::error(format_args!("note: variables are in {at}"));
    }
    Ok(())
}

/// Writes a checkpoint of a server's variables; gives its prefix.
fn saved(server: &Server, folder: &Path) -> Result<String, Failure> {
    let (job, task) = server.task();
    let prefix = folder.join(format!("{job}-{task}"));
    let began = Instant::now();
    let done = thalweg_checkpoint::save_weights(&prefix, server.variables());
    server.saved(began.elapsed(), done.is_ok());
    done?;
    Ok(prefix.display().to_string())
}

/// The options of a server that is told this.
fn options(said: &Said) -> Result<ServerOptions, Failure> {
    let listen = said.text("listen").unwrap_or("127.0.0.1:0");
    let files = Files::within(said.list("files")).map_err(|e| said.wrong("files", &e))?;
    let mut options = ServerOptions::listening(listen)
        .unprotected_network(said.flag("unprotected_network"))
        .files(files)
        .shared_memory(!said.flag("no_shared_memory"));
    if let Some(folder) = said.text("protection") {
        let keys = Protection::from_dir(folder);
        options = options.protection(keys.map_err(|e| said.wrong("protection", &e))?);
    }
    if let Some(file) = said.text("ops") {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|e| said.wrong("ops", &format!("{file}: {e}")))?;
        let ops = AllowedOps::only(text.split_whitespace());
        options.limits.ops = ops.map_err(|e| said.wrong("ops", &e))?;
    }
    options.session.job = said.text("job").unwrap_or("localhost").to_owned();
    options.session.task = said.number("task", 0)?;
    options.session.threads = said.number("threads", 0)?;
    said.apply(&mut options)?;
    Ok(options)
}

/// A server that is alone, or a task of the cluster that was said.
fn started(said: &Said, options: ServerOptions) -> Result<Server, Failure> {
    let hosts = |name| said.text(name).unwrap_or_default();
    let jobs = [("ps", hosts("ps_hosts")), ("worker", hosts("worker_hosts"))];
    let cluster = ClusterSpec::from_flags(&jobs)?;
    if cluster.is_empty() {
        return Ok(Server::start(options)?);
    }
    let (job, task) = (options.session.job.clone(), options.session.task);
    let own = cluster.address(&job, task)?;
    if said.text("listen").is_some_and(|l| l != own) {
        let text = format!("is not {own}, where the other tasks look for it");
        return Err(said.wrong("listen", &text));
    }
    Ok(Server::new(cluster, &job, task, options)?)
}
