//! `thalweg launch hvd` with elastic jobs. The workers are this test program: they count steps together.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use support::Folder;
use thalweg_collective::elastic::Worker;
use thalweg_collective::{ALL_RANKS, CollectiveError, Ranks, ReduceOp, Reduction};
use thalweg_tensor::DType;

/// Variable with the number of steps, which turns the test `worker` into a worker.
const STEPS: &str = "ELASTIC_TEST_STEPS";

/// Number of steps of a job that its test ends. It ends by itself after some minutes, where a test waits for a line that
/// never comes.
const LONG: u32 = 5000;

/// Worker process that the launcher starts, and no test by itself.
#[test]
fn worker() {
    let Ok(steps) = std::env::var(STEPS) else {
        return;
    };
    let steps: u32 = steps.parse().unwrap();
    let worker = Worker::from_env().unwrap().expect("an elastic launcher");
    let mut done = 0;
    while done < steps {
        let place = worker.ready(done.into()).unwrap();
        println!(
            "worker {} is rank {}",
            std::process::id(),
            place.join.rank()
        );
        let result =
            Ranks::join(&place.join).and_then(|mut r| round(&worker, &mut r, &mut done, steps));
        if let Err(error) = result {
            println!("the round ends: {error}");
        }
    }
    worker.report_done();
}

/// Counts steps until the round ends.
fn round(
    worker: &Worker,
    ranks: &mut Ranks,
    done: &mut u32,
    steps: u32,
) -> Result<(), CollectiveError> {
    let most = Reduction::of(ReduceOp::Max);
    // All ranks continue from the one with most steps, which is rank 0.
    let mut at = [*done as f32];
    ranks.broadcast(ALL_RANKS, "at", 0, bytemuck::cast_slice_mut(&mut at))?;
    *done = at[0] as u32;
    while *done < steps {
        std::thread::sleep(Duration::from_millis(20));
        let mut told = [f32::from(u8::from(worker.others_wait()))];
        ranks.all_reduce(
            ALL_RANKS,
            "told",
            bytemuck::cast_slice_mut(&mut told),
            DType::F32,
            most,
        )?;
        *done += 1;
        if ranks.rank() == 0 {
            println!("step {done} of {} ranks", ranks.size());
        }
        if told[0] > 0.0 && *done < steps {
            return Ok(());
        }
    }
    Ok(())
}

/// Running launch.
struct RunningLaunch {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl RunningLaunch {
    fn start(options: &[&str], steps: u32) -> RunningLaunch {
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(["launch", "hvd"])
            .args(options)
            .args(["--", own, "--exact", "worker", "--nocapture"])
            .env(STEPS, steps.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let outputs: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        RunningLaunch {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits for a line with all of these parts.
    #[track_caller]
    fn until(&mut self, parts: &[&str]) -> String {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60));
            let line = line.unwrap_or_else(|_| panic!("no {parts:?} in {:#?}", self.seen));
            self.seen.push(line.clone());
            if parts.iter().all(|p| line.contains(p)) {
                return line;
            }
        }
    }

    /// Latest process of a rank.
    #[track_caller]
    fn process(&self, rank: usize) -> String {
        let is = format!("is rank {rank}");
        let line = self.seen.iter().rfind(|l| l.ends_with(&is)).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().rposition(|w| *w == "worker").unwrap();
        words[at + 1].to_owned()
    }

    /// Waits for the end; returns the exit code and all lines.
    fn end(mut self) -> (i32, Vec<String>) {
        let status = self.child.wait().unwrap();
        self.seen.extend(self.lines.iter());
        (status.code().unwrap(), self.seen)
    }
}

fn signal(process: &str, name: &str) {
    let sent = Command::new("kill").args(["-s", name, process]).status();
    assert!(sent.unwrap().success(), "kill -s {name} {process}");
}

#[test]
fn killed_and_stopped_ranks_are_replaced() {
    let options = [
        "-np",
        "3",
        "--min-np",
        "1",
        "--blacklist-cooldown-range",
        "0",
        "0",
    ];
    let mut launch = RunningLaunch::start(&options, 300);
    launch.until(&["step 5 of 3 ranks"]);
    let killed = launch.process(1);
    signal(&killed, "KILL");
    launch.until(&["round 2: 2 ranks"]);
    launch.until(&["of 3 ranks"]);
    let stopped = launch.process(0);
    signal(&stopped, "STOP");
    launch.until(&["is let go: nothing was heard of it for 3s"]);
    launch.until(&["step 300 of 3 ranks"]);
    let (status, lines) = launch.end();
    assert_eq!(status, 0, "{lines:#?}");
}

/// Discovery script that prints a file.
fn script(folder: &Folder) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("hosts.sh");
    let text = format!("#!/bin/sh\ncat '{}'\n", folder.join("hosts").display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn hosts(folder: &Folder, text: &str) {
    let new = folder.join("hosts.new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, folder.join("hosts")).unwrap();
}

#[test]
fn workers_follow_the_discovery_script() {
    let folder = Folder::new("discovery");
    hosts(&folder, "localhost:1\n");
    let script = script(&folder);
    let options = [
        "-np",
        "1",
        "--max-np",
        "4",
        "--host-discovery-script",
        &script,
    ];
    let mut launch = RunningLaunch::start(&options, LONG);
    launch.until(&["of 1 ranks"]);
    hosts(&folder, "localhost:1\n127.0.0.2:2\n");
    launch.until(&["of 3 ranks"]);
    hosts(&folder, "127.0.0.2:1\n");
    launch.until(&["is let go: its host is not there for the job any more"]);
    launch.until(&["of 1 ranks"]);
    hosts(&folder, "no:host:at:all\n");
    launch.until(&["is not host:slots: the hosts stay as they were"]);
    signal(&launch.child.id().to_string(), "TERM");
    let (status, lines) = launch.end();
    assert_eq!(status, 128 + 15, "{lines:#?}");
    assert!(
        lines.iter().any(|l| l.contains("error: ended by SIGTERM")),
        "{lines:#?}"
    );
}

#[test]
fn an_answer_without_hosts_lasts_until_the_elastic_timeout() {
    let folder = Folder::new("no_hosts");
    hosts(&folder, "localhost:2\n");
    let script = script(&folder);
    let options = [
        "-np",
        "2",
        "--elastic-timeout",
        "4",
        "--host-discovery-script",
        &script,
    ];
    let mut launch = RunningLaunch::start(&options, LONG);
    launch.until(&["step 5 of 2 ranks"]);
    hosts(&folder, "");
    launch.until(&["the host discovery script names none now: workers go on"]);
    hosts(&folder, "localhost:2\n");
    launch.until(&["hosts: localhost:2"]);
    launch.until(&["of 2 ranks"]);
    hosts(&folder, "");
    let (status, lines) = launch.end();
    assert_eq!(status, 1, "{lines:#?}");
    let why = format!("error: the host discovery script '{script}' has named no host for 4s");
    assert!(lines.iter().any(|l| l.starts_with(&why)), "{lines:#?}");
    // The same workers went on all the time.
    let rounds = lines.iter().filter(|l| l.starts_with("round ")).count();
    assert_eq!(rounds, 1, "{lines:#?}");
}

#[test]
fn the_state_outlives_an_answer_that_replaces_all_hosts() {
    let folder = Folder::new("all_hosts");
    hosts(&folder, "localhost:2\n");
    let script = script(&folder);
    for (max, steps) in [("2", 150), ("1", 150)] {
        hosts(&folder, &format!("localhost:{max}\n"));
        let options = [
            "-np",
            max,
            "--max-np",
            max,
            "--elastic-timeout",
            "30",
            "--host-discovery-script",
            &script,
        ];
        let mut launch = RunningLaunch::start(&options, steps);
        launch.until(&[&format!("step 20 of {max} ranks")]);
        hosts(&folder, &format!("127.0.0.2:{max}\n"));
        launch.until(&["is let go: its host is not there for the job any more"]);
        launch.until(&[&format!("step {steps} of {max} ranks")]);
        let (status, lines) = launch.end();
        assert_eq!(status, 0, "{lines:#?}");
        let first = lines.iter().filter(|l| l.contains("step 5 of ")).count();
        assert_eq!(first, 1, "it began anew: {lines:#?}");
    }
}

#[test]
fn a_worker_that_is_let_go_says_why() {
    let folder = Folder::new("says_why");
    hosts(&folder, "localhost:1\n127.0.0.2:1\n");
    let script = script(&folder);
    let options = ["-np", "2", "--host-discovery-script", &script];
    let mut launch = RunningLaunch::start(&options, LONG);
    launch.until(&["step 5 of 2 ranks"]);
    hosts(&folder, "localhost:1\n");
    launch.until(&["ended: its host is not there for the job any more"]);
    signal(&launch.child.id().to_string(), "TERM");
    launch.end();
}

fn fails(options: &[&str], program: &[&str]) -> (i32, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["launch", "hvd"])
        .args(options)
        .arg("--")
        .args(program)
        .output()
        .unwrap();
    (
        done.status.code().unwrap(),
        String::from_utf8(done.stderr).unwrap(),
    )
}

#[test]
fn a_program_that_fails_before_the_first_round_is_not_restarted() {
    let (status, error) = fails(&["-np", "2", "--min-np", "1"], &["sh", "-c", "exit 7"]);
    assert_eq!(status, 7, "{error}");
    assert!(error.contains("ended with status 7"), "{error}");
}

#[test]
fn a_program_that_does_nothing_succeeds_and_a_missing_script_is_an_error() {
    let folder = Folder::new("not-elastic");
    let (status, error) = fails(
        &["-np", "2", "--min-np", "1"],
        &["sh", "-c", "env | grep -E 'HOROVOD|THALWEG'; exit 0"],
    );
    // The program did nothing, successfully.
    assert_eq!(status, 0, "{error}");
    let missing = Path::new(folder.path()).join("none");
    let missing = missing.to_str().unwrap();
    let (status, error) = fails(&["-np", "2", "--host-discovery-script", missing], &["true"]);
    assert_eq!(status, 1, "{error}");
    assert!(error.contains("the host discovery script"), "{error}");
}

#[test]
fn contradicting_numbers_of_ranks_are_refused() {
    let of = |line: &str| {
        let options: Vec<&str> = line.split(' ').collect();
        fails(&options, &["true"])
    };
    for (line, why) in [
        ("-np 2 --min-np 3", "--min-np 3 is more than --np 2"),
        ("-np 2 --max-np 1", "--np 2 is more than --max-np 1"),
        (
            "-np 2 --max-np 4",
            "--max-np 4 needs --host-discovery-script",
        ),
    ] {
        let (status, error) = of(line);
        assert_eq!(status, 1, "{error}");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn each_elastic_option_makes_the_job_elastic() {
    for option in [
        "--reset-limit 3",
        "--elastic-timeout 60",
        "--blacklist-cooldown-range 1 2",
    ] {
        let options: Vec<&str> = option.split(' ').collect();
        let program = ["sh", "-c", "test $HOROVOD_ELASTIC = 1"];
        let (status, error) = fails(&[&["-np", "1"], &*options].concat(), &program);
        assert_eq!(status, 0, "{option}: {error}");
    }
}

#[test]
fn lines_that_cannot_be_written_are_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args("launch hvd -np 1 --min-np 1 -- echo line".split(' '))
        .stdout(full)
        .output()
        .unwrap();
    let error = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(74), "{error}");
    assert!(
        error.contains("could not be written: No space left"),
        "{error}"
    );
}
