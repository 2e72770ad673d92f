//! Synchronous training whose parameter servers are stopped, or cannot start threads: it goes on, or reports the error.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use thalweg::dist::Timeouts;
use thalweg_tests::processes::{self, TaskLine};
use thalweg_tests::servers::free_addresses;
use thalweg_tests::synchronous_training;

/// Timeout of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

fn timeouts() -> Timeouts {
    Timeouts::new()
        .heartbeat(Duration::from_secs(1))
        .connect(WAIT_TIMEOUT)
}

#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_task() {
    let server = processes::server(timeouts());
    match (&*server.task().0, server.task().1) {
        ("ps", 0) => synchronous_training::coordinate(&server, timeouts(), i64::MAX),
        ("ps", _) => server.join().unwrap(),
        _ => synchronous_training::train(&server, timeouts(), true),
    }
}

struct StepCluster {
    tasks: Vec<Child>,
    servers: usize,
    lines: Receiver<TaskLine>,
}

impl Drop for StepCluster {
    fn drop(&mut self) {
        for task in &mut self.tasks {
            // One that has ended is no error.
            let _ = task.kill();
            let _ = task.wait();
        }
    }
}

impl StepCluster {
    /// `limited` transforms the command of each server.
    fn new(servers: usize, workers: usize, limited: impl Fn(Command) -> Command) -> StepCluster {
        let all = free_addresses(servers + workers);
        let hosts = [all[..servers].join(","), all[servers..].join(",")];
        let (sender, lines) = channel();
        let jobs = (0..servers).map(|i| ("ps", i));
        let jobs = jobs.chain((0..workers).map(|i| ("worker", i)));
        let start = |(number, (job, index))| {
            let command = processes::task("synchronous::a_task", job, index, &hosts);
            let mut command = match job {
                "ps" => limited(command),
                _ => command,
            };
            let mut child = command.spawn().unwrap();
            processes::forward_lines(&mut child, number, 0, &sender);
            child
        };
        StepCluster {
            tasks: jobs.enumerate().map(start).collect(),
            servers,
            lines,
        }
    }

    /// Waits until each worker has printed a line of one of these kinds from now on; panics with the lines so far.
    #[track_caller]
    fn wait_for_lines(&mut self, kinds: &[&str]) -> Vec<String> {
        let mut found = vec![None; self.tasks.len() - self.servers];
        // Drops earlier lines.
        while self.lines.try_recv().is_ok() {}
        let began = Instant::now();
        let mut others = Vec::new();
        while let Some(rest) = WAIT_TIMEOUT.checked_sub(began.elapsed()) {
            let Ok(said) = self.lines.recv_timeout(rest) else {
                break;
            };
            let right = kinds.iter().any(|k| said.line.starts_with(k));
            match said.from.checked_sub(self.servers).filter(|_| right) {
                Some(worker) => found[worker] = Some(said.line),
                None => others.push((said.from, said.line)),
            }
            if found.iter().all(Option::is_some) {
                return found.into_iter().flatten().collect();
            }
        }
        others.truncate(20);
        panic!("the workers do not say {kinds:?}; heard: {others:?}");
    }
}

#[test]
fn a_server_stopped_for_five_seconds_does_not_end_the_training() {
    let mut cluster = StepCluster::new(2, 2, |c| c);
    cluster.wait_for_lines(&["step"]);
    let second = cluster.tasks[1].id();
    let signal = |name: &str| {
        let sent = Command::new("kill")
            .args(["-s", name, &second.to_string()])
            .status();
        assert!(sent.unwrap().success());
    };
    signal("STOP");
    std::thread::sleep(Duration::from_secs(5));
    signal("CONT");
    cluster.wait_for_lines(&["step"]);
    let mut steps = cluster.wait_for_lines(&["step"]);
    steps.sort();
    let ended = cluster.tasks[0].try_wait().unwrap();
    assert!(ended.is_none(), "the coordinator has ended: {ended:?}");
}

/// A cgroup that limits the number of threads. Prints a message and is `None` where no such group can be made; with
/// `REQUIRE_CGROUPS=1`, panics.
struct ThreadLimitGroup(PathBuf);

impl ThreadLimitGroup {
    fn new(threads: usize) -> Option<ThreadLimitGroup> {
        let roots = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
        let made = roots.iter().find_map(|root| {
            let path = Path::new(root).join(format!("thalweg-test-{}", std::process::id()));
            Path::new(root)
                .join("cgroup.procs")
                .exists()
                .then_some(())?;
            std::fs::create_dir(&path).ok()?;
            let group = ThreadLimitGroup(path);
            std::fs::write(group.0.join("pids.max"), threads.to_string()).ok()?;
            Some(group)
        });
        if made.is_none() {
            let required = std::env::var("REQUIRE_CGROUPS").is_ok_and(|v| v == "1");
            assert!(!required, "REQUIRE_CGROUPS=1: no cgroup with pids.max");
            eprintln!(
                "SKIPPED: no cgroup with pids.max; it takes root and a writable /sys/fs/cgroup"
            );
        }
        made
    }

    /// The same command in the group.
    fn command_in_group(&self, command: &Command) -> Command {
        let mut held = Command::new("sh");
        held.args(["-c", r#"echo $$ > "$GROUP" && exec "$0" "$@""#])
            .arg(command.get_program())
            .args(command.get_args())
            .env("GROUP", self.0.join("cgroup.procs"))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                held.env(name, value);
            }
        }
        held
    }
}

impl Drop for ThreadLimitGroup {
    fn drop(&mut self) {
        // A killed process stays in it for a moment.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_server_limited_to_nine_threads_trains_six_workers_or_reports_the_limit() {
    let Some(group) = ThreadLimitGroup::new(9) else {
        return;
    };
    let mut cluster = StepCluster::new(1, 6, |c| group.command_in_group(&c));
    let kinds = ["step", "error Exhausted"];
    let said = cluster.wait_for_lines(&kinds);
    let lacks = |line: &String| line.contains("threads");
    if !said.iter().any(lacks) {
        let later = cluster.wait_for_lines(&kinds);
        let goes_on = later.iter().all(|line| line != "step 0");
        assert!(goes_on || later.iter().any(lacks), "{later:?}");
    }
    drop(cluster);
}
