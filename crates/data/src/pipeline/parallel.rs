//! MapParallel: calls a function on threads, and keeps the order.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Stage;
use crate::error::DataError;

/// Elements that each thread may have in work or done.
const DEPTH: usize = 2;

type Function<T, U> = Arc<dyn Fn(T) -> Result<U, DataError> + Send + Sync>;

/// An element in work.
struct Task<T, U> {
    item: T,
    /// It is gone once nobody takes the result.
    epoch: Weak<()>,
    result: SyncSender<Result<U, DataError>>,
}

/// Calls a function with each element on threads of its own. They start with the first element.
///
/// They end after the stage, as soon as the calls that run have returned; dropping the stage does not wait for these.
pub struct MapParallel<S: Stage, U> {
    before: S,
    threads: usize,
    function: Function<S::Item, U>,
    /// `None` before the first element.
    tasks: Option<Sender<Task<S::Item, U>>>,
    epoch: Arc<()>,
    /// The results to come, in order; the error that has ended the elements is the last.
    pending: VecDeque<Pending<U>>,
    /// `true` once the stage before has ended, or failed.
    ended: bool,
}

enum Pending<U> {
    Result(Receiver<Result<U, DataError>>),
    Failed(DataError),
}

impl<S, U> MapParallel<S, U>
where
    S: Stage,
    S::Item: Send + 'static,
    U: Send + 'static,
{
    pub(super) fn new(
        before: S,
        threads: usize,
        function: impl Fn(S::Item) -> Result<U, DataError> + Send + Sync + 'static,
    ) -> MapParallel<S, U> {
        MapParallel {
            before,
            threads: threads.max(1),
            function: Arc::new(function),
            tasks: None,
            epoch: Arc::new(()),
            pending: VecDeque::new(),
            ended: false,
        }
    }

    /// Hands out elements until enough are in work.
    fn fill(&mut self) -> Result<(), DataError> {
        let tasks = match &mut self.tasks {
            Some(tasks) => tasks,
            none => none.insert(start_threads(self.threads, &self.function)?),
        };
        while !self.ended && self.pending.len() < DEPTH * self.threads {
            match self.before.next() {
                Ok(Some(item)) => {
                    let (sender, result) = sync_channel(1);
                    let epoch = Arc::downgrade(&self.epoch);
                    // Threads end after the sender alone.
                    let _ = tasks.send(Task {
                        item,
                        epoch,
                        result: sender,
                    });
                    self.pending.push_back(Pending::Result(result));
                }
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    self.pending.push_back(Pending::Failed(error));
                }
            }
        }
        Ok(())
    }
}

impl<S, U> Stage for MapParallel<S, U>
where
    S: Stage,
    S::Item: Send + 'static,
    U: Send + 'static,
{
    type Item = U;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        // Calls that run go on; nobody takes their results. Elements that wait are left out.
        self.pending.clear();
        self.epoch = Arc::new(());
        self.ended = false;
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<U>, DataError> {
        self.fill()?;
        match self.pending.pop_front() {
            None => Ok(None),
            Some(Pending::Failed(error)) => Err(error),
            Some(Pending::Result(result)) => match result.recv() {
                Ok(result) => result.map(Some),
                Err(_) => Err(DataError::Panicked("a thread is gone".to_owned())),
            },
        }
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let mut passed = 0;
        while passed < count && !self.pending.is_empty() {
            match self.next()? {
                Some(_) => passed += 1,
                None => return Ok(passed),
            }
        }
        if self.ended {
            return Ok(passed);
        }
        Ok(passed + self.before.pass(count - passed)?)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        self.before.length()
    }
}

/// Starts threads that take tasks from one channel. They end after the sender.
///
/// Nobody waits for them: a function that hangs must not hang the drop of the stage.
fn start_threads<T: Send + 'static, U: Send + 'static>(
    count: usize,
    function: &Function<T, U>,
) -> Result<Sender<Task<T, U>>, DataError> {
    let (sender, tasks) = channel::<Task<T, U>>();
    let tasks = Arc::new(Mutex::new(tasks));
    for number in 0..count {
        let (tasks, function) = (tasks.clone(), function.clone());
        let work = move || {
            loop {
                // The lock is held while it waits: others wait for it in place of the channel.
                let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(task) = task else { return };
                if task.epoch.strong_count() == 0 {
                    continue;
                }
                let made = catch_unwind(AssertUnwindSafe(|| function(task.item)));
                let made = made.unwrap_or_else(|panic| Err(DataError::Panicked(text(&*panic))));
                // After a new start nobody takes it.
                let _ = task.result.send(made);
            }
        };
        let thread = std::thread::Builder::new().name(format!("map {number}"));
        thread.spawn(work).map_err(DataError::Thread)?;
    }
    Ok(sender)
}

/// The message of a panic.
pub(super) fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}
