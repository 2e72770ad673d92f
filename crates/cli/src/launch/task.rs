//! One process of a launch: its output line by line, and its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

/// The longest line that is kept whole.
const MOST_LINE: u64 = 64 << 10;

/// A line that a task has printed.
pub struct Event {
    /// The number of the task.
    pub task: usize,
    /// The line.
    pub line: String,
    /// Whether it came on standard error.
    pub error: bool,
}

/// A task that was started.
pub struct LaunchedTask {
    pub name: String,
    child: Child,
    ended: Option<i32>,
    step: Option<String>,
    speed: Option<String>,
    told: bool,
}

impl LaunchedTask {
    /// Starts a task, whose lines go to `events`.
    pub fn start(
        program: &str,
        arguments: &[String],
        name: String,
        number: usize,
        events: &Sender<Event>,
    ) -> std::io::Result<LaunchedTask> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|o| Box::new(o) as _),
            child.stderr.take().map(|o| Box::new(o) as _),
        ];
        for (error, output) in outputs.into_iter().enumerate() {
            let Some(output) = output else { continue };
            let (events, error) = (events.clone(), error == 1);
            std::thread::spawn(move || lines(output, number, error, &events));
        }
        Ok(LaunchedTask {
            name,
            child,
            ended: None,
            step: None,
            speed: None,
            told: false,
        })
    }

    /// Whether it has not ended yet.
    pub fn runs(&self) -> bool {
        self.ended.is_none()
    }

    /// Its exit status, once: where it has ended since this was asked last. 128 and the signal's number
    /// for one that was ended by a signal.
    pub fn ended(&mut self) -> Option<i32> {
        if self.ended.is_some() {
            return None;
        }
        let code = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => code(status),
            Err(_) => 1,
        };
        self.ended = Some(code);
        Some(code)
    }

    /// Takes from a line what it tells of the task.
    pub fn note(&mut self, line: &str) {
        if let Some(step) = after(line, "step ") {
            self.step = Some(step);
        }
        for unit in [" images/s", " images/sec"] {
            if let Some(speed) = before(line, unit) {
                self.speed = Some(speed);
            }
        }
    }

    /// What it does, in a few words.
    pub fn described(&self) -> String {
        let state = match self.ended {
            None => "running".to_owned(),
            Some(0) => "done".to_owned(),
            Some(code) => format!("ended with {}", status(code)),
        };
        let step = self.step.as_ref().map(|s| format!("step {s}"));
        let speed = self.speed.as_ref().map(|s| format!("{s} images/s"));
        let all = [Some(state), step, speed];
        all.into_iter().flatten().collect::<Vec<_>>().join("  ")
    }

    /// Asks it to end.
    pub fn terminate(&mut self) {
        if self.runs() && !std::mem::replace(&mut self.told, true) {
            signal(&self.child, "TERM");
        }
    }

    /// Whether it was asked to end.
    pub fn was_told(&self) -> bool {
        self.told
    }

    /// Ends it.
    pub fn kill(&mut self) {
        if self.runs() {
            // An error is one that has ended by itself.
            let _ = self.child.kill();
        }
    }
}

impl Drop for LaunchedTask {
    fn drop(&mut self) {
        if self.runs() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// Sends a signal, by the program that every system has for it.
fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status();
    // Where there is no such program, it is killed later.
    drop(sent);
}

#[cfg(unix)]
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(not(unix))]
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}

/// An exit status in words.
pub fn status(code: i32) -> String {
    match code {
        129..=159 => format!("signal {}", code - 128),
        _ => format!("status {code}"),
    }
}

fn lines(output: impl Read, task: usize, error: bool, events: &Sender<Event>) {
    let mut reader = BufReader::new(output);
    loop {
        let mut bytes = Vec::new();
        match reader
            .by_ref()
            .take(MOST_LINE)
            .read_until(b'\n', &mut bytes)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches(['\n', '\r']).to_owned();
        if events.send(Event { task, line, error }).is_err() {
            return;
        }
    }
}

/// The number behind `mark`.
fn after(line: &str, mark: &str) -> Option<String> {
    let rest = line.split_once(mark)?.1.trim_start();
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!number.is_empty()).then_some(number)
}

/// The number in front of `unit`.
fn before(line: &str, unit: &str) -> Option<String> {
    let word = line.split_once(unit)?.0.rsplit(' ').next()?;
    word.parse::<f64>().ok().map(|_| word.to_owned())
}
