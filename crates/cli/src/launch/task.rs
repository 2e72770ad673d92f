//! One process of a launch: its output line by line, and its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::screen::Event;
use super::{Started, process, signals};
use crate::Failure;

/// The longest line that is kept whole.
const MOST_LINE: u64 = 64 << 10;

/// A task that was started.
pub struct LaunchedTask {
    pub name: String,
    /// Whether the training ends when all like it have.
    pub worker: bool,
    child: Child,
    ended: Option<i32>,
    told: Option<Instant>,
    killed: bool,
}

impl LaunchedTask {
    /// Starts a task, whose lines go to `events` as those of `number`. It lives no longer than the thread that calls this.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start(
        started: Started,
        number: usize,
        events: &SyncSender<Event>,
    ) -> Result<LaunchedTask, Failure> {
        let program = started.command.get_program().to_string_lossy().into_owned();
        LaunchedTask::spawn(started, number, events)
            .map_err(|e| format!("'{program}' cannot be started: {e}").into())
    }

    fn spawn(
        started: Started,
        number: usize,
        events: &SyncSender<Event>,
    ) -> std::io::Result<LaunchedTask> {
        let Started {
            name,
            worker,
            mut command,
            input,
        } = started;
        command
            .stdin(match input {
                Some(_) => Stdio::piped(),
                None => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        process::prepare(&mut command);
        let child = command.spawn()?;
        let mut task = LaunchedTask {
            name,
            worker,
            child,
            ended: None,
            told: None,
            killed: false,
        };
        if let (Some(mut stdin), Some(input)) = (task.child.stdin.take(), input) {
            // It is short. One that does not read it has ended, which shows.
            let _ = stdin.write_all(input.as_bytes());
        }
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            task.child.stdout.take().map(|o| Box::new(o) as _),
            task.child.stderr.take().map(|o| Box::new(o) as _),
        ];
        for (error, output) in outputs.into_iter().enumerate() {
            let Some(output) = output else { continue };
            let (events, error) = (events.clone(), error == 1);
            let read = move || lines(output, number, error, &events);
            std::thread::Builder::new().spawn(read)?;
        }
        Ok(task)
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
        let code = match process::ended(&mut self.child) {
            Ok(None) => return None,
            Ok(Some(status)) => process::code(status),
            Err(_) => 1,
        };
        self.ended = Some(code);
        Some(code)
    }

    /// Asks it to end.
    pub fn terminate(&mut self) {
        if self.runs() && self.told.is_none() {
            self.told = Some(Instant::now());
            process::terminate(&self.child);
        }
    }

    /// Whether it was asked to end.
    pub fn was_told(&self) -> bool {
        self.told.is_some()
    }

    /// Whether it has been told to end for longer than this.
    pub fn is_late(&self, grace: Duration) -> bool {
        self.told.is_some_and(|at| at.elapsed() > grace)
    }

    /// Ends it. Gives its name where it ran until now.
    pub fn kill(&mut self) -> Option<&str> {
        let runs = self.runs() && !std::mem::replace(&mut self.killed, true);
        runs.then(|| {
            process::kill(&mut self.child);
            &*self.name
        })
    }
}

impl Drop for LaunchedTask {
    fn drop(&mut self) {
        if self.runs() {
            process::kill(&mut self.child);
            let _ = self.child.wait();
        }
    }
}

/// How a task has ended, in words.
pub fn status(code: i32) -> String {
    match code {
        0 => "done".to_owned(),
        129..=192 => format!("ended by {}", signals::name(code - 128)),
        _ => format!("ended with status {code}"),
    }
}

fn lines(output: impl Read, task: usize, error: bool, events: &SyncSender<Event>) {
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
        if events.send(Event::Line { task, line, error }).is_err() {
            return;
        }
    }
}
