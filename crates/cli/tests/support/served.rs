//! A server as a process of its own.

#![allow(dead_code, reason = "each of the tests uses a part")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Within which a server that is to end must have ended.
const LATE: Duration = Duration::from_secs(20);

/// A server of a test's own; it ends with this.
pub struct Served {
    process: Child,
    /// What clients connect to: `grpc://host:port`.
    pub target: String,
}

impl Served {
    /// One with these flags, whose log [`Served::ended`] gives.
    pub fn start(flags: &[&str]) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["server", "--threads", "1"]).args(flags);
        Served::of(command.stderr(Stdio::piped()))
    }

    /// One that `ulimit` limits.
    pub fn limited(limit: &str) -> Served {
        let script = format!("ulimit {limit} && exec \"$0\" server --threads 1");
        let mut command = Command::new("sh");
        Served::of(command.args(["-c", &script, env!("CARGO_BIN_EXE_thalweg")]))
    }

    fn of(command: &mut Command) -> Served {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let target = line.trim().to_owned();
        assert!(target.starts_with("grpc://"), "{line}");
        Served { process, target }
    }

    /// Where it listens: `host:port`.
    pub fn address(&self) -> &str {
        &self.target["grpc://".len()..]
    }

    /// What clients of HTTP connect to.
    pub fn http(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The number of its process.
    pub fn number(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, name: &str) {
        let number = self.number().to_string();
        let done = Command::new("kill").args(["-s", name, &number]).status();
        assert!(done.unwrap().success());
    }

    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    /// How it ends, and what it has said on standard error.
    pub fn ended(&mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.has_ended() {
                break status;
            }
            assert!(began.elapsed() < LATE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut said = String::new();
        let errors = self.process.stderr.as_mut().unwrap();
        errors.read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended is no error.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
