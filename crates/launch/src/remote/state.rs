//! State of a connection to an agent.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::protocol::Answer;
use crate::task_exit::ProcessExit;

/// Number of lines that are kept for an error.
pub(super) const KEPT_LINES: usize = 5;
/// Exit code of tasks that are lost with their host: that of ssh.
const LOST: i32 = 255;

/// State of a connection, which its threads change.
pub(super) struct LinkState {
    /// Time of the last message; `None` before the first.
    pub(super) heard_at: Option<Instant>,
    /// Answers that were not asked for yet.
    pub(super) answers: VecDeque<Answer>,
    pub(super) tasks: BTreeMap<usize, TaskState>,
    /// Number of the next task.
    next: usize,
    /// Reason why the connection is lost.
    pub(super) lost: Option<String>,
    /// Last lines of the access program's standard error, and of what came before the first message.
    pub(super) errors: VecDeque<String>,
}

pub(super) struct TaskState {
    /// Number of the task on the screen.
    pub(super) number: usize,
    pub(super) exit: Option<ProcessExit>,
}

impl LinkState {
    /// State of a connection that begins now.
    pub(super) fn new() -> LinkState {
        LinkState {
            heard_at: None,
            answers: VecDeque::new(),
            tasks: BTreeMap::new(),
            next: 0,
            lost: None,
            errors: VecDeque::new(),
        }
    }

    /// Keeps one of the last lines, for an error.
    pub(super) fn keep_error(&mut self, line: &str) {
        if self.errors.len() == KEPT_LINES {
            self.errors.pop_front();
        }
        self.errors.push_back(line.to_owned());
    }

    /// Adds a task, whose lines are shown as those of `number`. Returns its number for the agent.
    pub(super) fn add_task(&mut self, number: usize) -> usize {
        let exit = self.lost.clone().map(lost_exit);
        let task = self.next;
        self.next += 1;
        self.tasks.insert(task, TaskState { number, exit });
        task
    }

    pub(super) fn has_run_tasks(&self) -> bool {
        self.next > 0
    }

    /// Notes the end of a task.
    pub(super) fn end(&mut self, task: usize, code: i32) {
        if let Some(TaskState { exit, .. }) = self.tasks.get_mut(&task) {
            exit.get_or_insert(ProcessExit {
                code,
                at: Instant::now(),
                lost: None,
            });
        }
    }

    /// Loses the connection, for the first reason.
    pub(super) fn lose(&mut self, reason: String) {
        if self.lost.is_some() {
            return;
        }
        for task in self.tasks.values_mut() {
            task.exit.get_or_insert_with(|| lost_exit(reason.clone()));
        }
        self.lost = Some(reason);
    }
}

/// Exit of a task that is lost with its host.
fn lost_exit(reason: String) -> ProcessExit {
    ProcessExit {
        code: LOST,
        at: Instant::now(),
        lost: Some(reason),
    }
}
