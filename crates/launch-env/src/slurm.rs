//! Slurm: host lists, and the tasks of the allocation that a process runs in.

use thiserror::Error;

/// Maximum number of hosts or tasks: a bracket of a host list can ask for any number.
const MAX_HOSTS: usize = 1 << 16;

/// Slurm variable that is missing or cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{variable}: {reason}")]
pub struct SlurmError {
    /// Name of the variable.
    pub variable: String,
    /// Why it cannot be used.
    pub reason: String,
}

impl SlurmError {
    /// Error of a variable, for a reason.
    pub fn new(variable: &str, reason: impl Into<String>) -> SlurmError {
        SlurmError {
            variable: variable.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Expands a host list: `nid[001-003,7],login` is `nid001`, `nid002`, `nid003`, `nid7` and `login`.
///
/// # Errors
/// The list is malformed, or names too many hosts.
pub fn expand_hosts(list: &str) -> Result<Vec<String>, SlurmError> {
    let wrong =
        |reason: &str| SlurmError::new("SLURM_JOB_NODELIST", format!("{reason} in '{list}'"));
    let mut hosts = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        // Up to the next comma outside of brackets.
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
            if from.len() > 20 || last < first || (last - first) as usize >= MAX_HOSTS {
                return Err(wrong("a range is empty or too long"));
            }
            // Leading zeros stay.
            let width = from.len();
            hosts.extend((first..=last).map(|n| format!("{prefix}{n:0width$}{suffix}")));
        }
        if hosts.len() > MAX_HOSTS {
            return Err(wrong("there are too many hosts"));
        }
    }
    Ok(hosts)
}

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

/// Allocation that a process runs in: the hosts of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Number of this process among the tasks.
    pub own: usize,
    /// By task: its host, and the number of earlier tasks on the same host.
    pub tasks: Vec<(String, usize)>,
}

impl Allocation {
    /// Reads the allocation from `SLURM_JOB_NODELIST`, `SLURM_NTASKS` and `SLURM_PROCID`, which `get` looks up. Tasks fill
    /// one host after the other (`SLURM_TASKS_PER_NODE` has the number of each), or go over the hosts in turn if
    /// `SLURM_DISTRIBUTION` begins with `cyclic`.
    ///
    /// # Errors
    /// A variable is missing or cannot be used.
    pub fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Allocation, SlurmError> {
        let read = |name: &str| {
            let unset = "it is not set: is this process one of an allocation (srun)?";
            get(name).ok_or_else(|| SlurmError::new(name, unset))
        };
        let number = |name: &str| {
            let number = read(name)?.trim().parse::<usize>();
            number.map_err(|_| SlurmError::new(name, "it is no number"))
        };
        let hosts = expand_hosts(&read("SLURM_JOB_NODELIST")?)?;
        let (tasks, own) = (number("SLURM_NTASKS")?, number("SLURM_PROCID")?);
        if hosts.is_empty() {
            return Err(SlurmError::new("SLURM_JOB_NODELIST", "it names no host"));
        }
        if tasks > MAX_HOSTS || own >= tasks {
            let reason = "it is not below SLURM_NTASKS";
            return Err(SlurmError::new("SLURM_PROCID", reason));
        }
        let cyclic = get("SLURM_DISTRIBUTION").is_some_and(|d| d.starts_with("cyclic"));
        let wrong = |reason: &str| SlurmError::new("SLURM_TASKS_PER_NODE", reason);
        let mut slots = match get("SLURM_TASKS_PER_NODE") {
            Some(text) => {
                tasks_per_node(&text).ok_or_else(|| wrong("it is not of the form 2(x3),1"))?
            }
            None => vec![tasks.div_ceil(hosts.len()); hosts.len()],
        };
        slots.resize(hosts.len(), 0);
        // By task: the index of its host, and the number of earlier tasks there.
        let mut places = Vec::with_capacity(tasks);
        if cyclic {
            for round in 0..tasks {
                let open = slots.iter().enumerate().filter(|(_, n)| **n > round);
                places.extend(open.map(|(host, _)| (host, round)));
                if places.len() >= tasks {
                    break;
                }
            }
        } else {
            let slots = slots.iter().enumerate();
            places.extend(slots.flat_map(|(host, &n)| (0..n).map(move |i| (host, i))));
        }
        if places.len() < tasks {
            return Err(wrong("its hosts have too few tasks"));
        }
        places.truncate(tasks);
        let place = |(host, before): (usize, usize)| (hosts[host].clone(), before);
        Ok(Allocation {
            own,
            tasks: places.into_iter().map(place).collect(),
        })
    }
}
