//! A peer: another program that runs the same cases. Requests and times are lines of JSON over its pipes.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A running peer.
pub struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a command: a program and its arguments, separated by spaces.
    pub fn start(command: &str) -> Result<Peer> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("--peer needs a command")?;
        let mut program = Command::new(program);
        Peer::run(program.args(words)).map_err(|e| format!("--peer '{command}': {e}").into())
    }

    /// Starts a program.
    pub fn run(program: &mut Command) -> Result<Peer> {
        let program = program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = program.spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let pipes = input.zip(output).ok_or("a peer has pipes")?;
        Ok(Peer {
            process,
            input: pipes.0,
            output: BufReader::new(pipes.1),
        })
    }

    /// Measures a case for about `seconds`; returns the seconds of a step, or `None` where the peer does not have this
    /// case.
    pub fn measure(&mut self, case: &Value, seconds: f64) -> Result<Option<f64>> {
        let request = json!({"case": case, "seconds": seconds});
        writeln!(self.input, "{request}")?;
        self.input.flush()?;
        let mut answer = String::new();
        if self.output.read_line(&mut answer)? == 0 {
            return Err(format!("the peer has ended at {case}").into());
        }
        let answer: Value = serde_json::from_str(&answer)?;
        Ok(answer["seconds"].as_f64())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
