//! Slurm: the step that a process is a task of, and the hosts of its tasks.

use crate::error::SlurmError;
use crate::hostlist::{MAX_HOSTS, expand_hosts};
use crate::variables::Lookup;

/// First of the numbers that Slurm gives to steps that `srun` has not started, such as the script of `sbatch`.
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

/// Names of the variables of a job or a step.
struct Names {
    hosts: &'static str,
    tasks: &'static str,
    tasks_per_node: &'static str,
}

/// Variables of a job: `sbatch` and `salloc` set them.
const JOB: Names = Names {
    hosts: "SLURM_JOB_NODELIST",
    tasks: "SLURM_NTASKS",
    tasks_per_node: "SLURM_TASKS_PER_NODE",
};

/// Variables of a step, which may have fewer hosts and tasks than its job: `srun` sets them.
const STEP: Names = Names {
    hosts: "SLURM_STEP_NODELIST",
    tasks: "SLURM_STEP_NUM_TASKS",
    tasks_per_node: "SLURM_STEP_TASKS_PER_NODE",
};

/// Parses the number of tasks of each host: `2(x3),1` is 2, 2, 2 and 1.
fn tasks_per_node(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for item in text.split(',') {
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (item, 1),
        };
        let count: usize = count.trim().parse().ok()?;
        if times > MAX_HOSTS || count > MAX_HOSTS || all.len() + times > MAX_HOSTS {
            return None;
        }
        all.extend(std::iter::repeat_n(count, times));
    }
    Some(all)
}

/// Value of a variable that `srun` sets.
fn required(get: Lookup<'_>, name: &str) -> Result<String, SlurmError> {
    let unset = "it is not set: is this process one of an allocation (srun)?";
    get(name).ok_or_else(|| SlurmError::new(name, unset))
}

/// Number in a variable that `srun` sets.
fn number<T: std::str::FromStr>(get: Lookup<'_>, name: &str) -> Result<T, SlurmError> {
    let number = required(get, name)?.trim().parse();
    number.map_err(|_| SlurmError::new(name, "it is no number"))
}

/// Step of a job in which `srun` has started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlurmStep {
    /// Number of the job.
    pub job: u32,
    /// Number of the step within its job.
    pub step: u32,
}

impl SlurmStep {
    /// Reads `SLURM_JOB_ID` and `SLURM_STEP_ID`. `None` if `srun` has not started the process: it runs in the script of `sbatch`
    /// or the shell of `salloc`, which have the number of tasks of the job and are not one of them.
    ///
    /// # Errors
    /// A variable is no number, or is missing.
    pub fn from_variables(get: Lookup<'_>) -> Result<Option<SlurmStep>, SlurmError> {
        if get("SLURM_STEP_ID").is_none() || get(STEP.tasks).is_none() {
            return Ok(None);
        }
        let step = number(get, "SLURM_STEP_ID")?;
        if step >= FIRST_SPECIAL_STEP {
            return Ok(None);
        }
        let job = number(get, "SLURM_JOB_ID")?;
        Ok(Some(SlurmStep { job, step }))
    }
}

/// Tasks of the step or job that a process runs in, and their hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Number of this process among the tasks.
    pub own: usize,
    /// By task: its host, and the number of earlier tasks on the same host.
    pub tasks: Vec<(String, usize)>,
}

impl Allocation {
    /// Reads the hosts, the number of tasks, and the number of tasks of each host. In a step these are `SLURM_STEP_NODELIST`,
    /// `SLURM_STEP_NUM_TASKS` and `SLURM_STEP_TASKS_PER_NODE`; otherwise the job's `SLURM_JOB_NODELIST`, `SLURM_NTASKS` and
    /// `SLURM_TASKS_PER_NODE`. `SLURM_PROCID` is the number of this task.
    ///
    /// Tasks fill one host after the other. With `SLURM_DISTRIBUTION=cyclic` they go over the hosts in turn; with `plane`,
    /// `SLURM_DIST_PLANESIZE` at a time.
    ///
    /// # Errors
    /// A variable is missing or cannot be used. Variables do not tell the hosts of an arbitrary distribution.
    pub fn from_variables(get: Lookup<'_>) -> Result<Allocation, SlurmError> {
        let names = match get(STEP.hosts).is_some() {
            true => STEP,
            false => JOB,
        };
        let list = required(get, names.hosts)?;
        let hosts = expand_hosts(&list).map_err(|e| SlurmError::of_list(names.hosts, &e))?;
        let tasks: usize = number(get, names.tasks)?;
        let own = number(get, "SLURM_PROCID")?;
        if hosts.is_empty() {
            return Err(SlurmError::new(names.hosts, "it names no host"));
        }
        if tasks > MAX_HOSTS || own >= tasks {
            let reason = format!("it is not below {}", names.tasks);
            return Err(SlurmError::new("SLURM_PROCID", reason));
        }
        let wrong = |reason: &str| SlurmError::new(names.tasks_per_node, reason);
        let mut slots = match get(names.tasks_per_node) {
            Some(text) => {
                tasks_per_node(&text).ok_or_else(|| wrong("it is not of the form 2(x3),1"))?
            }
            None => vec![tasks.div_ceil(hosts.len()); hosts.len()],
        };
        slots.resize(hosts.len(), 0);
        let places = places(&slots, tasks, tasks_in_turn(get)?);
        if places.len() < tasks {
            return Err(wrong("its hosts have too few tasks"));
        }
        let place = |(host, before): (usize, usize)| (hosts[host].clone(), before);
        Ok(Allocation {
            own,
            tasks: places.into_iter().map(place).collect(),
        })
    }
}

/// Number of tasks of this step on this node: `SLURM_STEP_TASKS_PER_NODE` at `SLURM_NODEID`. `None` if one of them is not set.
///
/// # Errors
/// A variable cannot be used.
pub(crate) fn tasks_of_this_node(get: Lookup<'_>) -> Result<Option<usize>, SlurmError> {
    if get("SLURM_NODEID").is_none() {
        return Ok(None);
    }
    let Some(text) = get(STEP.tasks_per_node) else {
        return Ok(None);
    };
    let wrong = |reason: &str| SlurmError::new(STEP.tasks_per_node, reason);
    let tasks = tasks_per_node(&text).ok_or_else(|| wrong("it is not of the form 2(x3),1"))?;
    let own = tasks.get(number::<usize>(get, "SLURM_NODEID")?);
    Ok(Some(*own.ok_or_else(|| {
        wrong("it has no entry for SLURM_NODEID")
    })?))
}

/// Number of tasks that a host gets before the next host gets some.
fn tasks_in_turn(get: Lookup<'_>) -> Result<usize, SlurmError> {
    let distribution = get("SLURM_DISTRIBUTION").unwrap_or_default();
    match distribution.split([':', '=']).next().unwrap_or_default() {
        "cyclic" => Ok(1),
        "plane" => Ok(number::<usize>(get, "SLURM_DIST_PLANESIZE")?.max(1)),
        "arbitrary" => {
            let reason = "variables do not tell the hosts of an arbitrary distribution: use block, cyclic or plane";
            Err(SlurmError::new("SLURM_DISTRIBUTION", reason))
        }
        _ => Ok(usize::MAX),
    }
}

/// By task: the index of its host, and the number of earlier tasks there. `slots` has the number of tasks of each host.
fn places(slots: &[usize], tasks: usize, in_turn: usize) -> Vec<(usize, usize)> {
    let mut places = Vec::with_capacity(tasks);
    let mut begun = 0;
    while places.len() < tasks && slots.iter().any(|&n| n > begun) {
        let until = begun.saturating_add(in_turn);
        let round = slots.iter().enumerate();
        let round = round.flat_map(|(host, &n)| (begun..n.min(until)).map(move |i| (host, i)));
        places.extend(round.take(tasks - places.len()));
        begun = until;
    }
    places
}

#[cfg(test)]
mod tests;
