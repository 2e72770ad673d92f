//! `thalweg launch k8s`: manifests of jobs in Kubernetes.

use clap::{Args, ValueEnum};
use thalweg_launch::{JobExit, KubernetesJob, PodOptions, PodRestart, PodTasks};

use super::explain::done;
use super::job_flags::variables_of;
use crate::failure::Failure;
use crate::output;

/// Prints the manifests of a job in Kubernetes, as YAML, and starts nothing: `thalweg launch k8s ... | kubectl apply -f -`. It needs
/// Kubernetes 1.28 or later.
///
/// Ranks (--np) are an indexed Job. Parameter servers are a StatefulSet, and workers an indexed Job. A headless Service gives the
/// Pods names. Programs get the same flags and variables as of `launch local`. Servers stay until the objects are deleted.
#[derive(Args)]
pub(super) struct Kubernetes {
    /// Name of the job, and of its Service: a DNS label of at most 40 characters.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Namespace. Without it, that of the one who creates the objects.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Image of all containers, which has the program.
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Number of ranks, in place of a cluster. `-np 2`, as of horovodrun, is the same.
    #[arg(short = 'n', long = "np", value_name = "RANKS", conflicts_with_all = ["ps", "workers"],
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ranks: Option<u32>,
    /// Number of parameter servers. They listen at port 2230.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=65_536))]
    ps: u32,
    /// Number of workers. They listen at port 2220.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    workers: u32,
    /// GPUs of each rank or worker (nvidia.com/gpu).
    #[arg(long, default_value_t = 0, value_name = "N")]
    gpus: u32,
    /// Cores that each Pod requests, such as 4 or 500m.
    #[arg(long, value_name = "QUANTITY")]
    cpu: Option<String>,
    /// Memory that each Pod requests, and its limit, such as 16Gi.
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<String>,
    /// Sets a variable of all tasks; without a value, to that of this process. May be given several times.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Secret with the files of a folder that `thalweg protect` has made for the names of all Pods. It is mounted, and
    /// THALWEG_PROTECTION names the folder.
    #[arg(long, value_name = "NAME", conflicts_with = "unprotected_network")]
    protection_secret: Option<String>,
    /// Allows tasks without --protection-secret, over a network that you trust.
    #[arg(long)]
    unprotected_network: bool,
    /// Restarts of failed containers of ranks or workers. Use on-failure with programs that restore a checkpoint, and not with
    /// ranks: a rank cannot join a job that has begun.
    #[arg(long, value_name = "POLICY", default_value = "never")]
    restart: Restart,
    /// Number of times that ranks or workers may fail until the job has failed.
    #[arg(long, default_value_t = 0, value_name = "TIMES",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    backoff_limit: u32,
    /// The program of all tasks in the image, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Restarts of failed containers.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Restart {
    /// The Pod fails.
    Never,
    /// The container starts again in its Pod.
    OnFailure,
}

impl Kubernetes {
    pub(super) fn run(&self) -> Result<JobExit, Failure> {
        let job = KubernetesJob {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            tasks: match self.ranks {
                Some(ranks) => PodTasks::Ranks(ranks as usize),
                None => PodTasks::Cluster {
                    servers: self.ps as usize,
                    workers: self.workers as usize,
                },
            },
            pods: PodOptions {
                image: self.image.clone(),
                gpus: self.gpus,
                cpu: self.cpu.clone(),
                memory: self.memory.clone(),
                env: variables_of(&self.env)?,
                protection_secret: self.protection_secret.clone(),
                unprotected_network: self.unprotected_network,
            },
            backoff_limit: self.backoff_limit,
            restart: match self.restart {
                Restart::Never => PodRestart::Never,
                Restart::OnFailure => PodRestart::OnFailure,
            },
            command: self.command.clone(),
        };
        output::text(&job.manifests()?).map(|()| done())
    }
}
