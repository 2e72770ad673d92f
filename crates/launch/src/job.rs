//! Supervision of a job whose tasks all start at once: until all have ended, and with which exit code.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use crate::console::Console;
use crate::error::Result;
use crate::job_exit::JobExit;
use crate::screen::{ScreenEvent, show};
use crate::signals;
use crate::task::{LaunchedTask, TaskSpec, ended_by_signal, status_text};

/// Interval at which tasks and signals are polled.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time in which the task that has caused a failure ends too. Tasks that lose a peer may end before it.
const CAUSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Options of the supervision of a job.
#[derive(Clone, Debug)]
pub(crate) struct Supervision {
    /// Time that a task may take to end by itself, and again after SIGTERM.
    pub(crate) grace: Duration,
    /// Number of times that each task is started again after a failure.
    pub(crate) restarts: u32,
    /// Folder for a file with the output of each task.
    pub(crate) output_dir: Option<PathBuf>,
}

/// End of the tasks of a job.
#[derive(Debug)]
pub(crate) enum TasksEnd {
    /// All have succeeded.
    Done,
    /// The launcher got this signal.
    Signal(i32),
    /// A task has failed, or was lost.
    Failed {
        /// Exit code of the task.
        code: i32,
        /// Its name, and how it has ended.
        text: String,
    },
}

impl TasksEnd {
    /// End of a job, after the last lines of its console.
    pub(crate) fn exit(self, console: Console) -> JobExit {
        let lost = console.end();
        match self {
            TasksEnd::Done => JobExit::success(lost),
            TasksEnd::Signal(signal) => {
                JobExit::new(128 + signal, format!("ended by {}", signals::name(signal)))
            }
            TasksEnd::Failed { code, text } => JobExit::new(code, format!("error: {text}")),
        }
    }
}

/// Starts tasks, and returns when all have ended. Lines from `notes` are shown as the launcher's own. `first_failed` gives the
/// number of the task whose failure the others have noticed first, if they tell.
///
/// # Errors
/// A task cannot be started; a file of its output cannot be written.
pub(crate) fn run_tasks(
    specs: Vec<TaskSpec>,
    console: &mut Console,
    options: &Supervision,
    notes: &Receiver<String>,
    first_failed: &dyn Fn() -> Option<usize>,
) -> Result<TasksEnd> {
    let names = specs.iter().map(|t| t.name.clone()).collect();
    console.open(names, options.output_dir.as_deref())?;
    let mut job = RunningTasks {
        tasks: Vec::new(),
        options,
        first_failed,
    };
    for (number, spec) in specs.into_iter().enumerate() {
        let task = LaunchedTask::start(spec, number, &console.sender)?;
        job.tasks.push(task);
    }
    Ok(job.supervise(console, notes))
}

/// Tasks that were started; those that still run are killed when this is dropped.
struct RunningTasks<'a> {
    tasks: Vec<LaunchedTask>,
    options: &'a Supervision,
    first_failed: &'a dyn Fn() -> Option<usize>,
}

/// Text of the number of restarts, after that of a failure.
pub(crate) fn restarts_text(restarts: u32) -> String {
    match restarts {
        0 => String::new(),
        1 => ", after 1 restart".to_owned(),
        n => format!(", after {n} restarts"),
    }
}

/// Failure of a task.
#[derive(Debug)]
struct Failure {
    /// Number of the task.
    task: usize,
    code: i32,
    /// Time of its end.
    at: Instant,
    /// `true` if it was lost with its host.
    lost: bool,
}

impl Failure {
    /// `true` if this failure does not follow from that of another task: a signal has ended the task, its host is lost, or the
    /// others have noticed its failure first.
    fn is_cause(&self, named: Option<usize>) -> bool {
        self.is_forced() || named == Some(self.task)
    }

    /// `true` for a task that a signal has ended, or that was lost with its host.
    fn is_forced(&self) -> bool {
        ended_by_signal(self.code) || self.lost
    }
}

/// Returns the failure from which the others follow: that of a task that a signal has ended, or whose host is lost, or else of the one that the
/// others name, or else the earliest.
fn root_cause(failures: &[Failure], named: Option<usize>) -> Option<&Failure> {
    let rank = |f: &&Failure| (!f.is_forced(), named != Some(f.task), f.at);
    failures.iter().min_by_key(rank)
}

/// Reason why the tasks are to end.
#[derive(Default)]
struct Shutdown {
    since: Option<Instant>,
    /// Tasks that failed by themselves, until one of them is known to be the cause.
    failures: Vec<Failure>,
    /// First signal that the launcher got.
    signal: Option<i32>,
}

impl RunningTasks<'_> {
    /// Waits until all tasks have ended. The exit code is that of the task whose failure was the cause of the end.
    fn supervise(mut self, console: &mut Console, notes: &Receiver<String>) -> TasksEnd {
        let events = console.sender.clone();
        let mut shutdown = Shutdown::default();
        while self.tasks.iter().any(LaunchedTask::is_active) {
            std::thread::sleep(POLL_INTERVAL);
            for line in notes.try_iter() {
                show(ScreenEvent::Note(line), &events);
            }
            for signal in console.signals.pending() {
                if shutdown.signal.is_some() {
                    let killed = self.tasks.iter_mut().filter_map(LaunchedTask::kill);
                    let note = |name| format!("killed: {name}, after a second signal");
                    killed.for_each(|name| show(ScreenEvent::Note(note(name)), &events));
                }
                shutdown.signal.get_or_insert(signal);
            }
            self.reap(&mut shutdown, &events);
            self.restart(&mut shutdown, &events);
            self.terminate(&mut shutdown, &events);
        }
        self.end_of(&shutdown)
    }

    /// End of tasks that have all ended.
    fn end_of(&self, shutdown: &Shutdown) -> TasksEnd {
        if let Some(signal) = shutdown.signal {
            return TasksEnd::Signal(signal);
        }
        let named = (self.first_failed)();
        let Some(&Failure { task, code, .. }) = root_cause(&shutdown.failures, named) else {
            return TasksEnd::Done;
        };
        let task = &self.tasks[task];
        let status = match task.lost() {
            Some(reason) => format!("was {reason}"),
            None => status_text(code),
        };
        let text = format!(
            "{} {status}{}",
            task.spec.name,
            restarts_text(task.restarts())
        );
        TasksEnd::Failed { code, text }
    }

    /// Notes the tasks that have ended.
    fn reap(&mut self, shutdown: &mut Shutdown, events: &SyncSender<ScreenEvent>) {
        for (number, task) in self.tasks.iter_mut().enumerate() {
            let Some(code) = task.poll_exit() else {
                continue;
            };
            let state = match task.lost() {
                Some(_) => "lost with its host".to_owned(),
                None => status_text(code),
            };
            show(
                ScreenEvent::State {
                    task: number,
                    state,
                },
                events,
            );
            let failed = code != 0 && !task.was_terminated();
            // Servers that fail when the workers are done have nothing to do any more.
            let ending = shutdown.since.is_some() || !shutdown.failures.is_empty();
            if failed && !ending && task.plan_restart(self.options.restarts) {
                let (name, status) = (&task.spec.name, status_text(code));
                let (n, most) = (task.restarts(), self.options.restarts);
                let note = format!("{name} {status}: it is started again ({n} of {most})");
                show(ScreenEvent::Note(note), events);
            } else if failed {
                shutdown.failures.push(Failure {
                    task: number,
                    code,
                    at: task.ended_at(),
                    lost: task.lost().is_some(),
                });
            }
        }
    }

    /// Starts tasks again whose time has come; none once the job ends.
    fn restart(&mut self, shutdown: &mut Shutdown, events: &SyncSender<ScreenEvent>) {
        let ending =
            shutdown.since.is_some() || shutdown.signal.is_some() || !shutdown.failures.is_empty();
        for (number, task) in self.tasks.iter_mut().enumerate() {
            if ending {
                task.cancel_restart();
                continue;
            }
            match task.restart_if_due(number, events) {
                Ok(false) => {}
                Ok(true) => {
                    let state = "started again".to_owned();
                    show(
                        ScreenEvent::State {
                            task: number,
                            state,
                        },
                        events,
                    );
                }
                Err(error) => {
                    show(ScreenEvent::Note(error.to_string()), events);
                    shutdown.failures.push(Failure {
                        task: number,
                        code: 1,
                        at: Instant::now(),
                        lost: false,
                    });
                    return;
                }
            }
        }
    }

    /// `true` if the cause of the failures is known, or none that comes now can be it.
    fn is_settled(&self, failures: &[Failure]) -> bool {
        let named = (self.first_failed)();
        let first = failures.iter().map(|f| f.at).min();
        first.is_some_and(|at| at.elapsed() > CAUSE_TIMEOUT)
            || failures.iter().any(|f| f.is_cause(named))
    }

    /// Terminates tasks that should end, and kills those whose grace is over.
    fn terminate(&mut self, shutdown: &mut Shutdown, events: &SyncSender<ScreenEvent>) {
        let mut workers = self.tasks.iter().filter(|t| t.spec.worker);
        let at_once = shutdown.signal.is_some() || self.is_settled(&shutdown.failures);
        if !at_once && workers.any(LaunchedTask::is_active) {
            return;
        }
        // A task may end by itself, such as a server that learns that all workers are done.
        let since = shutdown.since.get_or_insert_with(Instant::now).elapsed();
        if at_once || since > self.options.grace {
            // Workers save values that servers hold: servers end after them.
            let workers_end = self.tasks.iter().any(|t| t.spec.worker && t.is_active());
            let ending = self.tasks.iter_mut();
            ending
                .filter(|t| t.spec.worker || !workers_end)
                .for_each(LaunchedTask::terminate);
        }
        let grace = self.options.grace;
        for task in self.tasks.iter_mut().filter(|t| t.is_overdue(grace)) {
            if let Some(name) = task.kill() {
                let grace = grace.as_secs();
                let note = format!("killed: {name} did not end within {grace} s of SIGTERM");
                show(ScreenEvent::Note(note), events);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_a_killed_or_lost_task_then_the_one_that_others_name_then_the_earliest() {
        let begin = Instant::now();
        let failures = |codes: &[i32]| -> Vec<Failure> {
            let all = codes.iter().enumerate();
            let failure = |(task, &code): (usize, &i32)| Failure {
                task,
                code,
                at: begin + Duration::from_millis(task as u64),
                lost: code == 255,
            };
            all.map(failure).rev().collect()
        };
        for (codes, named, cause) in [
            (&[1, 1, 137] as &[i32], None, 2),
            (&[1, 1, 137], Some(1), 2),
            (&[134, 1, 137], Some(2), 2),
            (&[1, 1, 3], Some(2), 2),
            (&[1, 1, 3], None, 0),
            (&[1, 255, 3], Some(2), 1),
            // It has ended well, though others wait for it.
            (&[1, 3], Some(7), 0),
        ] {
            let all = failures(codes);
            let found = root_cause(&all, named).map(|f| f.task);
            assert_eq!(found, Some(cause), "{codes:?} {named:?}");
        }
        assert!(root_cause(&[], Some(0)).is_none());
    }
}
