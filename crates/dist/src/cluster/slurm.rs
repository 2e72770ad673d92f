//! The cluster of a Slurm allocation.

use super::spec::{ClusterSpec, SpecError, TaskName};

/// The most hosts that a list may name: a bracket can ask for any number.
const MOST_HOSTS: usize = 1 << 16;

/// The hosts that Slurm's short form names: `nid[001-003,7],login` is `nid001`, `nid002`, `nid003`,
/// `nid7` and `login`.
///
/// # Errors
/// [`SpecError::Slurm`].
pub fn expand_hosts(list: &str) -> Result<Vec<String>, SpecError> {
    let wrong = |reason: &str| SpecError::Slurm {
        variable: "SLURM_JOB_NODELIST".to_owned(),
        reason: format!("{reason} in '{list}'"),
    };
    let mut hosts = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        // Up to the next comma that stands in no bracket.
        let mut inside = false;
        let end = rest.find(|c| {
            inside = match c {
                '[' => true,
                ']' => false,
                _ => inside,
            };
            c == ',' && !inside
        });
        let (item, after) = match end {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, ""),
        };
        rest = after;
        let Some((prefix, tail)) = item.split_once('[') else {
            hosts.push(item.to_owned());
            continue;
        };
        let (ranges, suffix) = tail
            .split_once(']')
            .ok_or_else(|| wrong("a bracket is open"))?;
        if suffix.contains('[') {
            return Err(wrong("there is a second bracket"));
        }
        for range in ranges.split(',') {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| {
                text.parse::<u64>()
                    .map_err(|_| wrong("a number is missing"))
            };
            let (first, last) = (number(from)?, number(to)?);
            if from.len() > 20 || last < first || (last - first) as usize >= MOST_HOSTS {
                return Err(wrong("a range is empty or too long"));
            }
            // Zeros in front stay.
            let width = from.len();
            hosts.extend((first..=last).map(|n| format!("{prefix}{n:0width$}{suffix}")));
        }
        if hosts.len() > MOST_HOSTS {
            return Err(wrong("there are too many hosts"));
        }
    }
    Ok(hosts)
}

/// How many tasks each host has: `2(x3),1` is 2, 2, 2 and 1.
fn per_node(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for item in text.split(',') {
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (item, 1),
        };
        let count: usize = count.trim().parse().ok()?;
        if times > MOST_HOSTS || count > MOST_HOSTS || all.len() + times > MOST_HOSTS {
            return None;
        }
        all.extend(std::iter::repeat_n(count, times));
    }
    Some(all)
}

impl ClusterSpec {
    /// The cluster of the allocation that this process runs in, and the task that it is: `servers`
    /// tasks of job `ps`, the rest of job `worker`. Slurm's tasks fill one host after the other
    /// (`SLURM_TASKS_PER_NODE` says how many each has), or go over the hosts in turn where
    /// `SLURM_DISTRIBUTION` begins with `cyclic`; those on one host listen on `port` and the ports after
    /// it. `variable` looks up the environment: those two, `SLURM_JOB_NODELIST`, `SLURM_NTASKS` and
    /// `SLURM_PROCID`.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn from_slurm(
        servers: usize,
        port: u16,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(ClusterSpec, TaskName), SpecError> {
        let wrong = |variable: &str, reason: &str| SpecError::Slurm {
            variable: variable.to_owned(),
            reason: reason.to_owned(),
        };
        let read = |name: &str| {
            let unset = "it is not set: is this process one of an allocation (srun)?";
            variable(name).ok_or_else(|| wrong(name, unset))
        };
        let number = |name: &str| {
            let text = read(name)?;
            let number = text.trim().parse::<usize>();
            number.map_err(|_| wrong(name, "it is no number"))
        };
        let hosts = expand_hosts(&read("SLURM_JOB_NODELIST")?)?;
        let (tasks, own) = (number("SLURM_NTASKS")?, number("SLURM_PROCID")?);
        if hosts.is_empty() {
            return Err(wrong("SLURM_JOB_NODELIST", "it names no host"));
        }
        if tasks > MOST_HOSTS || own >= tasks {
            return Err(wrong("SLURM_PROCID", "it is not below SLURM_NTASKS"));
        }
        if servers >= tasks {
            let reason = format!("{tasks} tasks are too few for {servers} servers and a worker");
            return Err(wrong("SLURM_NTASKS", &reason));
        }
        let cyclic = variable("SLURM_DISTRIBUTION").is_some_and(|d| d.starts_with("cyclic"));
        let mut room = match variable("SLURM_TASKS_PER_NODE") {
            Some(text) => per_node(&text)
                .ok_or_else(|| wrong("SLURM_TASKS_PER_NODE", "it is not of the form 2(x3),1"))?,
            None => vec![tasks.div_ceil(hosts.len()); hosts.len()],
        };
        room.resize(hosts.len(), 0);
        // By task: its host, and how many tasks that had before.
        let mut places = Vec::with_capacity(tasks);
        if cyclic {
            for round in 0..tasks {
                let some = room.iter().enumerate().filter(|(_, room)| **room > round);
                places.extend(some.map(|(host, _)| (host, round)));
                if places.len() >= tasks {
                    break;
                }
            }
        } else {
            let some = room.iter().enumerate();
            places.extend(some.flat_map(|(host, &n)| (0..n).map(move |i| (host, i))));
        }
        let address = |task: usize| {
            let short = || wrong("SLURM_TASKS_PER_NODE", "its hosts have too few tasks");
            let &(host, before) = places.get(task).ok_or_else(short)?;
            let beyond = "the ports of one host go beyond 65535";
            match u16::try_from(usize::from(port) + before) {
                Ok(port) => Ok(format!("{}:{port}", hosts[host])),
                Err(_) => Err(wrong("SLURM_NTASKS", beyond)),
            }
        };
        let all: Vec<String> = (0..tasks).map(address).collect::<Result<_, _>>()?;
        let (ps, workers) = all.split_at(servers);
        let jobs = [("ps", ps), ("worker", workers)];
        let jobs = jobs.into_iter().filter(|(_, all)| !all.is_empty());
        let cluster = ClusterSpec::new(jobs.map(|(job, all)| (job, all.to_vec())))?;
        let task = match own.checked_sub(servers) {
            None => ("ps".to_owned(), own as u32),
            Some(worker) => ("worker".to_owned(), worker as u32),
        };
        Ok((cluster, task))
    }
}
