//! `thalweg server`: a task that clients connect to.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use thalweg_device::Files;
use thalweg_dist::{AllowedOps, ClusterSpec, Protection, Server, ServerOptions};

use crate::Failure;

/// Runs a task that clients connect to, TensorFlow's with grpc://HOST:PORT among them. Alone, it is
/// /job:localhost/task:0.
#[derive(Args)]
pub struct Serve {
    /// Where to listen, as host:port; port 0 takes a free one. In a cluster, the task's address.
    #[arg(long)]
    listen: Option<String>,
    /// The job of this task.
    #[arg(long, default_value = "localhost")]
    job: String,
    /// The number of this task in its job.
    #[arg(long, default_value_t = 0)]
    task: u32,
    /// The addresses of the parameter servers, with commas between them.
    #[arg(long, default_value = "", value_name = "HOST:PORT,...")]
    ps_hosts: String,
    /// The addresses of the workers, with commas between them.
    #[arg(long, default_value = "", value_name = "HOST:PORT,...")]
    worker_hosts: String,
    /// Threads that compute; as many as the machine has where this is 0.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// The folder with what protects the cluster, which `thalweg protect` makes. TensorFlow's own client
    /// cannot show it.
    #[arg(long, value_name = "DIR")]
    protection: Option<PathBuf>,
    /// Listen beyond this machine though nothing protects the server: whoever reaches it may run
    /// graphs on it.
    #[arg(long)]
    unprotected_network: bool,
    /// A file with the names of the ops that the server runs, one a line, in place of all. Constants,
    /// placeholders, identities and casts need not be named.
    #[arg(long, value_name = "FILE")]
    ops: Option<PathBuf>,
    /// A folder whose files graphs may read and write, such as checkpoints; may be given several times. Without it,
    /// graphs use no files.
    #[arg(long, value_name = "DIR")]
    files: Vec<PathBuf>,
    /// Send large values to tasks on this machine over the connection too, in place of shared memory.
    #[arg(long)]
    no_shared_memory: bool,
}

impl Serve {
    /// Runs the server until it is told to end.
    pub fn run(&self) -> Result<(), Failure> {
        let jobs = [("ps", &*self.ps_hosts), ("worker", &*self.worker_hosts)];
        let cluster = ClusterSpec::from_flags(&jobs)?;
        let listen = self.listen.as_deref().unwrap_or("127.0.0.1:0");
        let keys = self.protection.as_ref().map(Protection::from_dir);
        let mut options = ServerOptions::listening(listen)
            .unprotected_network(self.unprotected_network)
            .files(Files::within(&self.files).map_err(|e| format!("--files {e}"))?)
            .shared_memory(!self.no_shared_memory)
            .protection(keys.transpose()?);
        if let Some(file) = &self.ops {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|e| format!("{}: {e}", file.display()))?;
            options.limits.ops = AllowedOps::only(text.split_whitespace())?;
        }
        options.session.job.clone_from(&self.job);
        options.session.task = self.task;
        options.session.threads = self.threads;
        let server = Arc::new(match cluster.is_empty() {
            true => Server::start(options)?,
            false => {
                let own = cluster.address(&self.job, self.task)?;
                if self.listen.as_deref().is_some_and(|l| l != own) {
                    let text = format!("--listen is not {own}, where the other tasks look for it");
                    return Err(text.into());
                }
                Server::new(cluster, &self.job, self.task, options)?
            }
        });
        let signalled = server.clone();
        ctrlc::set_handler(move || signalled.shutdown())?;
        // One line, when it is ready: programs that start a server wait for it.
        if let Err(e) = crate::say::line(server.target()) {
            // Clients are worth more than the line.
            crate::say::error(format_args!("note: {e}"));
        }
        Ok(server.join()?)
    }
}
