//! Member: the process that `mpirun` starts, which becomes the program of its task.

use thalweg_launch_env::LaunchedRank;

use super::hydra::HydraSocket;
use super::table::{TABLE, TaskTable};
use crate::error::{LaunchError, Result};
use crate::hosted_job::{cluster_flags, tf_config, with_port};
use crate::layout::{HostResources, PlacedTask, PortChoice, TaskKind, assign};
use crate::probe::probe;
use crate::process::{become_program, command_of, die_with_parent};
use crate::program::program_path;
use crate::protocol::{ProbeRequest, StartTask};

/// Variable of the GPUs that a program sees.
const GPUS: &str = "CUDA_VISIBLE_DEVICES";

/// Becomes a program as the task that the table of the launcher has for this process. The process dies with its parent, on
/// Linux. Hydra does not notice the failure of a program without MPI: under Hydra this process stays, and tells it. Returns the
/// exit code of the program, or an error.
///
/// # Errors
/// There is no table, or it does not fit the rank of this process; the program cannot be started.
pub fn run_member(command: &[String]) -> Result<u8> {
    let get = |name: &str| std::env::var(name).ok();
    let start = member_task(command, &get)?;
    let mut program = command_of(&start);
    program.env_remove(TABLE);
    die_with_parent()?;
    let ended = match HydraSocket::from_variables(&get) {
        Some(hydra) => hydra.supervise(&mut program),
        None => become_program(&mut program),
    };
    ended.map_err(|e| {
        LaunchError::of_attempt(e, |source| LaunchError::Start {
            program: start.program,
            source,
        })
    })
}

/// Program, arguments and variables of the task of this process, whose variables `get` looks up.
pub(super) fn member_task(
    command: &[String],
    get: &dyn Fn(&str) -> Option<String>,
) -> Result<StartTask> {
    let first = command.first().ok_or("no program is named")?;
    let none = format!("{TABLE} is not set: `thalweg launch mpi` starts this command");
    let table = TaskTable::parse(&get(TABLE).ok_or(none)?)?;
    let rank = LaunchedRank::from_variables(get)
        .map_err(|e| e.to_string())?
        .ok_or("no variable tells the rank of this process: is mpirun the one that --mpi names?")?;
    let misplaced = |what: String| {
        LaunchError::Argument(format!(
            "rank {}: {what}: mpirun has placed the ranks otherwise than the launcher; take options of places out of \
             --mpirun-args",
            rank.rank
        ))
    };
    if rank.size != table.len() {
        let text = format!("there are {} ranks, and {} tasks", rank.size, table.len());
        return Err(misplaced(text));
    }
    let (mut here, own) = table
        .host_of(rank.rank)
        .ok_or_else(|| misplaced("it has no task".to_owned()))?;
    if let Some(local) = rank.local_rank.filter(|local| *local != own) {
        return Err(misplaced(format!(
            "it is number {local} of its host, and its task is number {own}"
        )));
    }
    share_devices(&mut here, &table)?;
    let task = here.swap_remove(own);
    let mut start = StartTask {
        program: program_path(first).to_string_lossy().into_owned(),
        args: command[1..].to_vec(),
        folder: String::new(),
        env: Vec::new(),
        cores: task.cores.clone(),
    };
    if task.kind != TaskKind::Rank {
        let cluster = table.cluster().map(|all| -> Vec<String> {
            let text = |(address, port)| with_port(address, port);
            all.into_iter().map(text).collect()
        });
        start.args.extend(cluster_flags(&task, &cluster));
        let config = tf_config(&task, &cluster);
        start.env.push(("TF_CONFIG".to_owned(), config));
    }
    if let Some(gpus) = task.gpus.filter(|_| !table.keeps_gpus()) {
        start.env.push((GPUS.to_owned(), gpus.join(",")));
    }
    Ok(start)
}

/// Divides the GPUs and cores of this host among its tasks, which keep their ports.
fn share_devices(here: &mut [PlacedTask], table: &TaskTable) -> Result<()> {
    let ports = |kind| {
        let all = here.iter().filter(|task| task.kind == kind);
        all.map(|task| task.port).collect::<Vec<u16>>()
    };
    let ports = PortChoice {
        servers: ports(TaskKind::Server),
        workers: ports(TaskKind::Worker),
        metrics: Vec::new(),
    };
    here.iter_mut().for_each(|task| task.host = 0);
    let host = probe(&ProbeRequest::default());
    let resources = HostResources {
        gpus: host.gpus,
        cores: host.cores,
        ..HostResources::default()
    };
    assign(here, &[resources], &ports, table.sharing())
        .map_err(|_| format!("{TABLE} has fewer ports than tasks for this host").into())
}
