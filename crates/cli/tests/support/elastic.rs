//! Elastic launches of a test: their workers are the test program, and count steps together.

#![allow(dead_code, reason = "each of the tests uses a part")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use thalweg_collective::elastic::Worker;
use thalweg_collective::{ALL_RANKS, CollectiveError, Ranks, ReduceOp, Reduction};
use thalweg_tensor::DType;

use crate::support::Folder;

/// Variable with the number of steps, which turns the test `worker` of a test program into a worker.
pub const STEPS: &str = "ELASTIC_TEST_STEPS";

/// Number of steps of a job that its test ends. It ends by itself after some minutes, where a test waits for a line that
/// never comes.
pub const LONG: u32 = 5000;

/// Worker process that the launcher starts as the test `worker`. It does nothing in a run of the tests.
pub fn run_worker() {
    let Ok(steps) = std::env::var(STEPS) else {
        return;
    };
    let steps: u32 = steps.parse().unwrap();
    let worker = Worker::from_env().unwrap().expect("an elastic launcher");
    let host = std::env::var("HOROVOD_HOSTNAME").unwrap_or_default();
    println!("worker {} is on host {host}", std::process::id());
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

/// Command of a worker: this test program.
pub fn worker_command() -> [String; 4] {
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap().to_owned();
    [own, "--exact".into(), "worker".into(), "--nocapture".into()]
}

/// Running launch.
pub struct RunningLaunch {
    pub child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl RunningLaunch {
    pub fn start(options: &[&str], steps: u32) -> RunningLaunch {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        launcher.args(["launch", "hvd"]).args(options);
        let command = worker_command();
        launcher.arg("--").args(&command);
        RunningLaunch::of(&mut launcher, steps)
    }

    /// Runs a launcher whose program is [`worker_command`].
    pub fn of(launcher: &mut Command, steps: u32) -> RunningLaunch {
        let mut child = launcher
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
    pub fn until(&mut self, parts: &[&str]) -> String {
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
    pub fn process(&self, rank: usize) -> String {
        let is = format!("is rank {rank}");
        let line = self.seen.iter().rfind(|l| l.ends_with(&is)).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().rposition(|w| *w == "worker").unwrap();
        words[at + 1].to_owned()
    }

    /// Waits for the end of a launcher that was killed.
    pub fn end_killed(mut self) {
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), None, "{:#?}", self.seen);
    }

    /// Waits for the end; returns the exit code and all lines.
    pub fn end(mut self) -> (i32, Vec<String>) {
        let status = self.child.wait().unwrap();
        self.seen.extend(self.lines.iter());
        (status.code().unwrap(), self.seen)
    }
}

/// Sends a signal to a process.
pub fn signal(process: &str, name: &str) {
    let sent = Command::new("kill").args(["-s", name, process]).status();
    assert!(sent.unwrap().success(), "kill -s {name} {process}");
}

/// Discovery script that prints a file.
pub fn script(folder: &Folder) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("hosts.sh");
    let text = "#!/bin/sh\ncat \"$(dirname \"$0\")/hosts\"\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Changes what the script prints.
pub fn hosts(folder: &Folder, text: &str) {
    let new = folder.join("hosts.new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, folder.join("hosts")).unwrap();
}
