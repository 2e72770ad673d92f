//! `--explain`: the places and commands of the tasks of a job that is not run.

use clap::Args;
use serde_json::json;
use thalweg_launch::{HostedJob, JobExit, JobPlan, MpiPlan, PlannedTask, shell_quoted};

use crate::failure::Failure;
use crate::{output, table};

/// Flags of an explanation.
#[derive(Args)]
pub(super) struct Explain {
    /// Prints the place and the command of each task, and starts nothing. The ports, GPUs and cores of other hosts are those of
    /// hosts where nothing else runs.
    #[arg(long)]
    explain: bool,
    /// With --explain: as JSON.
    #[arg(long, requires = "explain")]
    json: bool,
}

impl Explain {
    /// `true` if the job is explained, and not run.
    pub(super) fn is_wanted(&self) -> bool {
        self.explain
    }

    /// Prints a plan.
    pub(super) fn show(&self, plan: &JobPlan) -> Result<(), Failure> {
        match self.json {
            true => output::line(format_args!("{:#}", plan_json(plan))),
            false => output::text(&plan_text(plan)),
        }
    }
}

impl Explain {
    /// Prints a plan of a job that `mpirun` starts.
    pub(super) fn show_mpi(&self, plan: &MpiPlan) -> Result<(), Failure> {
        if self.json {
            let mut all = plan_json(&plan.job);
            all["mpi"] = json!(plan.kind.to_string());
            all["command"] = json!(plan.command);
            all["env"] = env_json(&plan.env);
            return output::line(format_args!("{all:#}"));
        }
        let line = command_line(&plan.env, &plan.command);
        output::text(&format!("{}{}: {line}\n", plan_text(&plan.job), plan.kind))
    }
}

/// Runs a job, or shows what it would start.
pub(super) fn run_or_explain(job: &HostedJob, explain: &Explain) -> Result<JobExit, Failure> {
    match explain.is_wanted() {
        true => explain.show(&job.plan()?).map(|()| done()),
        false => Ok(job.run()?),
    }
}

/// End of a command that has run no job.
pub(crate) fn done() -> JobExit {
    JobExit {
        code: 0,
        messages: Vec::new(),
    }
}

fn plan_text(plan: &JobPlan) -> String {
    let row = |task: &PlannedTask| {
        let place = &task.place;
        vec![
            place.name(),
            plan.hosts[place.host].name.clone(),
            address(plan, task),
            match &place.gpus {
                None => "all".to_owned(),
                Some(gpus) if gpus.is_empty() => "none".to_owned(),
                Some(gpus) => gpus.join(","),
            },
            match place.cores.is_empty() {
                true => "all".to_owned(),
                false => numbers(&place.cores),
            },
        ]
    };
    let rows = plan.tasks.iter().map(row).collect();
    let mut text = table::table(&["task", "host", "address", "GPUs", "cores"], rows, &[]);
    for host in plan.hosts.iter().filter(|host| !host.access.is_empty()) {
        text += &format!("agent of {}: {}\n", host.name, quoted(&host.access));
    }
    for task in &plan.tasks {
        let line = command_line(&task.env, &task.command);
        text += &format!("{}: {line}\n", task.place.name());
    }
    text
}

/// A command with its variables, for a shell.
fn command_line(env: &[(String, String)], command: &[String]) -> String {
    let set = env.iter().map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = set.chain(command.iter().cloned()).collect();
    format!("env {}", quoted(&words))
}

fn env_json(env: &[(String, String)]) -> serde_json::Value {
    let all = env.iter().map(|(name, value)| (name.clone(), json!(value)));
    serde_json::Value::Object(all.collect())
}

fn plan_json(plan: &JobPlan) -> serde_json::Value {
    let hosts = plan
        .hosts
        .iter()
        .map(|host| json!({"name": host.name, "address": host.address, "agent": host.access}));
    let tasks = plan.tasks.iter().map(|task| {
        json!({
            "task": task.place.name(),
            "job": task.place.kind.to_string(),
            "index": task.place.index,
            "host": plan.hosts[task.place.host].name,
            "address": address(plan, task),
            "gpus": task.place.gpus,
            "cores": task.place.cores,
            "command": task.command,
            "env": env_json(&task.env),
        })
    });
    json!({"hosts": hosts.collect::<Vec<_>>(), "tasks": tasks.collect::<Vec<_>>()})
}

/// Address of a task; that of its host for ranks, which choose their ports.
fn address(plan: &JobPlan, task: &PlannedTask) -> String {
    let host = &plan.hosts[task.place.host].address;
    match task.place.port {
        0 => host.clone(),
        port => format!("{host}:{port}"),
    }
}

fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_quoted(word)).collect();
    words.join(" ")
}

fn numbers(all: &[usize]) -> String {
    let all: Vec<String> = all.iter().map(usize::to_string).collect();
    all.join(",")
}
