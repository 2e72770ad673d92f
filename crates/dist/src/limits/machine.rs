//! Resources of the machine for this process.

use std::path::Path;

/// Resources that this process may use. A number that the system does not report is the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of memory: the minimum of those of the machine, of the process's cgroup (version 1 or 2, and its
    /// parents) and of `ulimit -v`.
    pub memory: u64,
    /// Number of threads and processes: the minimum of the cgroup (`pids.max`) and of `ulimit -u`.
    pub threads: u64,
    /// Number of open files and connections: `ulimit -n`.
    pub descriptors: u64,
    /// Bytes of the largest file that may be written, and of a value in shared memory: `ulimit -f`.
    pub file: u64,
}

impl Machine {
    /// Resources of a system that reports none.
    pub(crate) const UNLIMITED: Machine = Machine {
        memory: u64::MAX,
        threads: u64::MAX,
        descriptors: u64::MAX,
        file: u64::MAX,
    };

    /// Reads the resources of this machine.
    ///
    /// ```
    /// let machine = thalweg_dist::limits::Machine::here();
    /// assert!(machine.memory > 0 && machine.threads > 0);
    /// ```
    pub fn here() -> Machine {
        let files = Machine::from_files(Path::new("/"));
        let limits = limits_of_process();
        Machine {
            memory: files.memory.min(limits.memory),
            threads: files.threads.min(limits.threads),
            descriptors: limits.descriptors,
            file: limits.file,
        }
    }

    /// Bytes of the address space that `ulimit -v` leaves to this process; `None` without such a limit.
    pub fn free_address_space() -> Option<u64> {
        let limit = limits_of_process().memory;
        let used = address_space_of_process()?;
        (limit < u64::MAX).then(|| limit.saturating_sub(used))
    }

    /// Reads the system's files below this folder.
    fn from_files(root: &Path) -> Machine {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let total = read("proc/meminfo");
        let total = total.lines().find_map(|l| l.strip_prefix("MemTotal:"));
        let total = total.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        let mut machine = Machine {
            memory: total.map_or(u64::MAX, |kib| kib.saturating_mul(1024)),
            ..Machine::UNLIMITED
        };
        // `max` is no number, and no limit. A limit of version 1 that was never set is near the largest number.
        let limit = |path: String| read(&path).trim().parse::<u64>().unwrap_or(u64::MAX);
        for line in read("proc/self/cgroup").lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(kinds), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            for group in groups(path) {
                let mut memory = |file: String| machine.memory = machine.memory.min(limit(file));
                let mut threads = |file: String| machine.threads = machine.threads.min(limit(file));
                match kinds {
                    "" => {
                        memory(format!("sys/fs/cgroup{group}/memory.max"));
                        threads(format!("sys/fs/cgroup{group}/pids.max"));
                    }
                    _ if kinds.split(',').any(|k| k == "memory") => {
                        memory(format!(
                            "sys/fs/cgroup/{kinds}{group}/memory.limit_in_bytes"
                        ));
                    }
                    _ if kinds.split(',').any(|k| k == "pids") => {
                        threads(format!("sys/fs/cgroup/{kinds}{group}/pids.max"));
                    }
                    _ => {}
                }
            }
        }
        machine
    }
}

/// Iterates over a cgroup and its parents: the limits of all apply to a process. A container may see its own cgroup
/// as the root.
fn groups(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    let ends = path.match_indices('/').map(|(at, _)| at);
    ends.map(move |at| &path[..at])
        .chain([path])
        .filter(|p| !p.contains(".."))
}

#[cfg(target_os = "linux")]
fn limits_of_process() -> Machine {
    use rustix::process::{Resource, getrlimit};
    let of = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
    Machine {
        memory: of(Resource::As),
        threads: of(Resource::Nproc),
        descriptors: of(Resource::Nofile),
        file: of(Resource::Fsize),
    }
}

/// Bytes of the address space that this process has mapped.
fn address_space_of_process() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let size = status.lines().find_map(|l| l.strip_prefix("VmSize:"))?;
    let kib: u64 = size.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(not(target_os = "linux"))]
fn limits_of_process() -> Machine {
    Machine::UNLIMITED
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a folder with these files.
    fn told(name: &str, files: &[(&str, &str)]) -> Machine {
        let name = format!("thalweg-machine-{name}-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        for (file, text) in files {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let machine = Machine::from_files(&root);
        std::fs::remove_dir_all(&root).unwrap();
        machine
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       16000000 kB\nMemFree: 1 kB\n",
    );

    #[test]
    fn memory_defaults_to_that_of_the_machine() {
        let machine = told("none", &[MEMINFO]);
        assert_eq!(machine.memory, 16_000_000 * 1024);
        assert_eq!(machine.threads, u64::MAX);
        assert_eq!(told("nothing", &[("proc/none", "")]).memory, u64::MAX);
    }

    #[test]
    fn the_least_limit_of_the_cgroups_around_a_process_counts() {
        let machine = told(
            "v2",
            &[
                MEMINFO,
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/memory.max", "1000000\n"),
                ("sys/fs/cgroup/pids.max", "50\n"),
                ("sys/fs/cgroup/a/pids.max", "70\n"),
            ],
        );
        assert_eq!((machine.memory, machine.threads), (1_000_000, 50));
        let machine = told(
            "v1",
            &[
                MEMINFO,
                (
                    "proc/self/cgroup",
                    "9:pids:/x\n4:memory:/x/y\n1:cpu,cpuacct:/\n0::/\n",
                ),
                (
                    "sys/fs/cgroup/memory/x/y/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
                ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "2000000\n"),
                ("sys/fs/cgroup/pids/x/pids.max", "9\n"),
            ],
        );
        assert_eq!((machine.memory, machine.threads), (2_000_000, 9));
    }

    #[test]
    fn a_cgroup_is_limited_by_itself_and_its_parents() {
        for (path, expected) in [
            ("/", &[""][..]),
            ("/a/b", &["", "/a", "/a/b"]),
            ("/a/", &["", "/a"]),
            // A path out of the container's view.
            ("/../x", &[""]),
        ] {
            let found: Vec<&str> = groups(path).collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn unreadable_limits_are_no_limits() {
        let machine = told(
            "unreadable",
            &[
                ("proc/meminfo", "MemTotal: many kB\n"),
                ("proc/self/cgroup", "0::/a\nnonsense\n"),
                ("sys/fs/cgroup/a/memory.max", "-1\n"),
                ("sys/fs/cgroup/a/pids.max", ""),
            ],
        );
        assert_eq!(machine, Machine::UNLIMITED);
    }
}
