//! Worker processes of an elastic job, by their numbers.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::screen::{ScreenEvent, show};
use crate::task::{LaunchedTask, TaskProgram, TaskSpec};

/// Time in which a worker ends that was told to, and writes why.
pub(super) const TOLD_TIMEOUT: Duration = Duration::from_secs(2);

/// Worker processes. The number of one is its index among all that were started, so that no number is used twice.
pub(super) struct Workers {
    all: Vec<WorkerProcess>,
    events: SyncSender<ScreenEvent>,
}

struct WorkerProcess {
    host: String,
    /// Its process, until it has ended.
    task: Option<LaunchedTask>,
    leaves: bool,
    /// Time at which it was let go. It ends by itself, so that it can say why.
    dropped_at: Option<Instant>,
}

impl WorkerProcess {
    /// `true` if it runs and is not to leave.
    fn stays(&self) -> bool {
        self.task.is_some() && !self.leaves
    }
}

/// Worker that has ended.
pub(super) struct EndedWorker {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) host: String,
    pub(super) code: i32,
    /// Reason, if it was lost with its host.
    pub(super) lost: Option<String>,
    /// `true` if it was told to end.
    pub(super) expected: bool,
}

impl Workers {
    /// No workers yet. Their lines go to `events`.
    pub(super) fn new(events: SyncSender<ScreenEvent>) -> Workers {
        Workers {
            all: Vec::new(),
            events,
        }
    }

    /// Number of the worker that is started next.
    pub(super) fn next_number(&self) -> usize {
        self.all.len()
    }

    /// Starts a worker of a host. Returns `false` if the screen does not take it now: a launcher that waits for it could not
    /// supervise the others.
    ///
    /// # Errors
    /// The program cannot be started on this host.
    pub(super) fn start(&mut self, host: &str, program: TaskProgram) -> Result<bool> {
        let number = self.next_number();
        let name = format!("worker {number}");
        let started = ScreenEvent::Started { name: name.clone() };
        // A screen that has ended takes nothing: lines of the worker are lost then, which is reported in the end.
        if let Err(TrySendError::Full(_)) = self.events.try_send(started) {
            return Ok(false);
        }
        let spec = TaskSpec {
            name,
            worker: true,
            program,
        };
        let task = LaunchedTask::start(spec, number, &self.events)?;
        self.all.push(WorkerProcess {
            host: host.to_owned(),
            task: Some(task),
            leaves: false,
            dropped_at: None,
        });
        Ok(true)
    }

    /// `true` while a worker runs.
    pub(super) fn any_runs(&self) -> bool {
        self.all.iter().any(|w| w.task.is_some())
    }

    /// `true` while a worker of the host runs.
    pub(super) fn run_on(&self, host: &str) -> bool {
        let mut all = self.all.iter();
        all.any(|w| w.task.is_some() && w.host == host)
    }

    /// Number of workers that run and are not to leave.
    pub(super) fn staying(&self) -> usize {
        self.all.iter().filter(|w| w.stays()).count()
    }

    /// Number of workers of a host that run and are not to leave.
    pub(super) fn staying_on(&self, host: &str) -> usize {
        let all = self.all.iter();
        all.filter(|w| w.stays() && w.host == host).count()
    }

    /// Returns the workers that have ended since the last call.
    pub(super) fn reap(&mut self) -> Vec<EndedWorker> {
        let mut ended = Vec::new();
        for (number, worker) in self.all.iter_mut().enumerate() {
            let Some(task) = &mut worker.task else {
                continue;
            };
            let Some(code) = task.poll_exit() else {
                continue;
            };
            ended.push(EndedWorker {
                number: number as u64,
                name: task.spec.name.clone(),
                host: worker.host.clone(),
                code,
                lost: task.lost().map(str::to_owned),
                expected: task.was_terminated() || worker.leaves,
            });
            worker.task = None;
            show(ScreenEvent::Gone { task: number }, &self.events);
        }
        ended
    }

    /// Marks workers of hosts that have fewer slots than before. Returns all that are to leave.
    pub(super) fn leaving(&mut self, slots: impl Fn(&str) -> usize) -> Vec<u64> {
        let mut used = std::collections::BTreeMap::<String, usize>::new();
        for worker in self.all.iter_mut().filter(|w| w.stays()) {
            let used = used.entry(worker.host.clone()).or_default();
            *used += 1;
            worker.leaves = *used > slots(&worker.host);
        }
        let all = self.all.iter().enumerate();
        let leaving = all.filter(|(_, w)| w.task.is_some() && w.leaves);
        leaving.map(|(number, _)| number as u64).collect()
    }

    /// Notes that a worker was let go.
    pub(super) fn let_go(&mut self, worker: u64) {
        let at = usize::try_from(worker).unwrap_or(usize::MAX);
        if let Some(dropped) = self.all.get_mut(at) {
            dropped.leaves |= dropped.task.is_some();
            dropped.dropped_at.get_or_insert_with(Instant::now);
        }
    }

    /// Kills workers that were let go and do not end by themselves, as a stopped process.
    pub(super) fn kill_late(&mut self) {
        let late = |at: Instant| at.elapsed() > TOLD_TIMEOUT;
        let late = self
            .all
            .iter_mut()
            .filter(|w| w.dropped_at.is_some_and(late));
        for task in late.filter_map(|w| w.task.as_mut()) {
            task.kill();
        }
    }

    /// Terminates all workers.
    pub(super) fn terminate(&mut self) {
        let running = self.all.iter_mut().filter_map(|w| w.task.as_mut());
        running.for_each(LaunchedTask::terminate);
    }

    /// Kills all workers.
    pub(super) fn kill(&mut self) {
        for task in self.all.iter_mut().filter_map(|w| w.task.as_mut()) {
            task.kill();
        }
    }
}
