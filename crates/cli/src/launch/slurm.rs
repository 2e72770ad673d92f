//! `thalweg launch slurm`: jobs in an allocation of Slurm.

use clap::Args;
use thalweg_launch::{
    Access, HostedJob, JobExit, JobOptions, command_of_variables, hosts_needed, shape_of_variables,
    shell_quoted, slurm_hosts,
};

use super::elastic_flags::ElasticFlags;
use super::explain::done;
use super::job_flags::{NetworkFlags, TaskFlags};
use super::np_flag::accept_np_flag;
use super::shape_flags::ShapeFlags;
use crate::failure::Failure;
use crate::output;

/// Starts the tasks of a job on the hosts of a Slurm allocation, by srun: parameter servers and workers, or ranks (--np). It is run
/// inside salloc, or in a script of sbatch. All else is as of `launch ssh`.
///
/// Without a flag, its variable counts: TF_NUM_PS, TF_NUM_WORKERS, TF_PS_PER_NODE, TF_WORKER_PER_NODE, TF_PS_IN_WORKER, TF_SCRIPT
/// and TF_FLAGS.
#[derive(Args)]
pub(super) struct Slurm {
    /// Prints a script for sbatch that runs this command, and starts nothing.
    #[arg(long)]
    script: bool,
    /// With --script: number of hosts. Without it, as few as the tasks need.
    #[arg(long, value_name = "N", requires = "script",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    nodes: Option<u32>,
    /// With --script: so many seconds before the end of the job's time (120), and when it is preempted, the tasks get SIGTERM, so
    /// that they can save; then the job goes to the queue again. Use it with programs that restore a checkpoint.
    #[arg(long, value_name = "SECONDS", requires = "script", num_args = 0..=1, default_missing_value = "120",
          require_equals = true, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    requeue: Option<u32>,
    #[command(flatten)]
    shape: ShapeFlags,
    #[command(flatten)]
    tasks: TaskFlags,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    elastic: ElasticFlags,
    /// The program of all tasks, and its arguments. A name without a folder is that of a program beside this one, or on the
    /// PATH.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Slurm {
    pub(super) fn run(&self) -> Result<JobExit, Failure> {
        let get = |name: &str| std::env::var(name).ok();
        let shape = self.shape.shape(shape_of_variables(&get)?);
        let command = match self.command.is_empty() {
            true => command_of_variables(&get)?,
            false => self.command.clone(),
        };
        let options = self.network.add_to(JobOptions {
            restarts: self.shape.restarts.times,
            free_ports: self.shape.free_ports,
            ..self.tasks.options(self.shape.is_ranks())?
        })?;
        if self.script {
            options.check_protection()?;
            let nodes = self.nodes.map(|n| n as usize);
            let nodes = nodes.unwrap_or_else(|| hosts_needed(&shape));
            let command = own_command()?;
            return output::text(&script(nodes, self.requeue, &command)).map(|()| done());
        }
        let job = HostedJob {
            hosts: slurm_hosts(&get, &shape)?,
            shape,
            access: Access::Srun,
            options,
            command,
        };
        self.elastic.run_or_explain(job, &self.tasks.explain)
    }
}

/// This command as a line of a shell, without the flags of its script.
///
/// # Errors
/// The path of this program is unknown.
fn own_command() -> Result<String, Failure> {
    let own = std::env::current_exe()?;
    let mut words = vec![shell_quoted(&own.to_string_lossy())];
    let mut args = accept_np_flag(std::env::args_os()).into_iter().skip(1);
    let mut is_own = true;
    while let Some(arg) = args.next() {
        let arg = arg.to_string_lossy().into_owned();
        is_own &= arg != "--";
        match &*arg {
            "--script" | "--requeue" if is_own => {}
            _ if is_own && arg.starts_with("--requeue=") => {}
            "--nodes" if is_own => drop(args.next()),
            _ if is_own && arg.starts_with("--nodes=") => {}
            _ => words.push(shell_quoted(&arg)),
        }
    }
    Ok(words.join(" "))
}

/// Script for sbatch that runs a command on so many hosts. Slurm ends a job by SIGTERM, which the launcher passes on to the tasks.
/// With `requeue`, a signal comes so many seconds before the end of the job's time too.
fn script(nodes: usize, requeue: Option<u32>, command: &str) -> String {
    let head = format!(
        "#!/bin/bash\n\
         #SBATCH --job-name=thalweg\n\
         #SBATCH --nodes={nodes}\n\
         #SBATCH --ntasks-per-node=1\n"
    );
    let Some(seconds) = requeue else {
        return format!("{head}exec {command}\n");
    };
    // A shell runs a trap while it waits for a child of the background. Output is appended, so that the earlier runs' stays.
    format!(
        "{head}\
         #SBATCH --requeue\n\
         #SBATCH --open-mode=append\n\
         #SBATCH --signal=B:USR1@{seconds}\n\
         {command} &\n\
         launcher=$!\n\
         save() {{\n    kill -TERM $launcher\n    wait $launcher\n}}\n\
         trap 'save; scontrol requeue \"$SLURM_JOB_ID\"; exit 0' USR1\n\
         trap 'save; exit 143' TERM\n\
         wait $launcher\n"
    )
}
