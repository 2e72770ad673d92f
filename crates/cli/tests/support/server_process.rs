//! A `thalweg server` process for tests: its address, its log and its end.

#![allow(dead_code, reason = "each of the tests uses a part")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time within which a server must end.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Server process, which is killed on drop.
pub struct ServerProcess {
    process: Child,
    /// Target for clients: `grpc://host:port`.
    pub target: String,
}

impl ServerProcess {
    /// Starts a server with these flags; [`ServerProcess::ended`] returns its log.
    pub fn start(flags: &[&str]) -> ServerProcess {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["server", "--threads", "1"]).args(flags);
        ServerProcess::of(command.stderr(Stdio::piped()))
    }

    /// Starts a server under a `ulimit`.
    pub fn limited(limit: &str) -> ServerProcess {
        let script = format!("ulimit {limit} && exec \"$0\" server --threads 1");
        let mut command = Command::new("sh");
        ServerProcess::of(command.args(["-c", &script, env!("CARGO_BIN_EXE_thalweg")]))
    }

    fn of(command: &mut Command) -> ServerProcess {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let target = line.trim().to_owned();
        assert!(target.starts_with("grpc://"), "{line}");
        ServerProcess { process, target }
    }

    /// Address of the server: `host:port`.
    pub fn address(&self) -> &str {
        &self.target["grpc://".len()..]
    }

    /// URL for HTTP clients.
    pub fn http(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, name: &str) {
        let number = self.id().to_string();
        let done = Command::new("kill").args(["-s", name, &number]).status();
        assert!(done.unwrap().success());
    }

    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    /// Waits for the end; returns the exit code and standard error.
    pub fn ended(&mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.has_ended() {
                break status;
            }
            assert!(began.elapsed() < END_TIMEOUT, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut said = String::new();
        let errors = self.process.stderr.as_mut().unwrap();
        errors.read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // An error is a process that has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
