//! Queue runners: threads that fill the queues of a TensorFlow 1 graph while steps take from them.
//!
//! A MetaGraph lists its runners in the collection `queue_runners`: `tf.train.string_input_producer` and
//! `tf.train.batch` add one each. The rules are those of `tf.train.QueueRunner` and its coordinator.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_graph::{Graph, NodeId};
use thalweg_graphdef::messages::collection_def::Kind;
use thalweg_graphdef::messages::{MetaGraphDef, QueueRunnerDef};
use thalweg_session::{Cancel, Fetch, RunOptions, Session, SessionError};
use thalweg_tensor::sync::Unpoisoned;

/// The collection that holds queue runners.
const COLLECTION: &str = "queue_runners";

/// The nodes that fill and close a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRunner {
    /// Name of the queue.
    pub queue: String,
    /// Nodes that add elements; each has a thread.
    enqueue: Vec<NodeId>,
    /// Closes the queue once nothing adds elements.
    close: NodeId,
    /// Closes the queue, and cancels what waits for room in it.
    cancel: NodeId,
}

/// The queue runners of a MetaGraph whose graph was imported into `graph`, under its own names.
///
/// # Errors
/// The message says which entry is damaged, or which of its nodes is not in the graph.
pub fn queue_runners(graph: &Graph, meta: &MetaGraphDef) -> Result<Vec<QueueRunner>, String> {
    let Some(Kind::BytesList(list)) = meta
        .collection_def
        .get(COLLECTION)
        .and_then(|c| c.kind.as_ref())
    else {
        return Ok(Vec::new());
    };
    let runner = |(i, bytes): (usize, &Vec<u8>)| {
        let def: QueueRunnerDef =
            thalweg_graphdef::file::decode(bytes, COLLECTION, "QueueRunnerDef")
                .map_err(|e| format!("entry {i} of the collection {COLLECTION}: {e}"))?;
        let node = |name: &String| {
            let found = graph.find(name).map(|node| node.id());
            found.ok_or_else(|| {
                format!(
                    "the runner of queue '{}' needs node '{name}', which the graph does not have",
                    def.queue_name
                )
            })
        };
        Ok(QueueRunner {
            enqueue: def
                .enqueue_op_name
                .iter()
                .map(node)
                .collect::<Result<_, String>>()?,
            close: node(&def.close_op_name)?,
            cancel: node(&def.cancel_op_name)?,
            queue: def.queue_name.clone(),
        })
    };
    list.value.iter().enumerate().map(runner).collect()
}

/// Calls a function while the runners fill their queues, and ends their threads after it.
///
/// A runner that fails cancels all queues, so that the function's step ends too: its error is returned in place of that
/// of the step.
///
/// # Errors
/// The first error of a runner, or that of the function.
pub fn with_queue_runners<R, E: From<SessionError>>(
    session: &Session<'_>,
    runners: &[QueueRunner],
    body: impl FnOnce() -> Result<R, E>,
) -> Result<R, E> {
    let failed: Mutex<Option<SessionError>> = Mutex::new(None);
    let cancel = Cancel::new();
    let run = |node: NodeId, options: &RunOptions| {
        session.run_ids(&[Fetch::Run(node)], &[], options).map(drop)
    };
    let cancel_queues = || {
        for runner in runners {
            // A queue that was never filled, or is closed, has nothing to cancel.
            let _ = run(runner.cancel, &RunOptions::new());
        }
    };
    let fill = |runner: &QueueRunner, node: NodeId, left: &AtomicUsize| {
        let options = RunOptions::new().cancelled_by(&cancel);
        let error = loop {
            if let Err(error) = run(node, &options) {
                break error;
            }
        };
        // Nothing comes any more, or the queue was closed: that is the end of a runner.
        if !error.is_out_of_range() && !error.is_cancelled() {
            failed.lock().unpoisoned().get_or_insert(error);
            cancel_queues();
        } else if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = run(runner.close, &RunOptions::new());
        }
    };
    let counts: Vec<AtomicUsize> = runners
        .iter()
        .map(|r| AtomicUsize::new(r.enqueue.len()))
        .collect();
    let result = std::thread::scope(|scope| {
        for (runner, left) in runners.iter().zip(&counts) {
            for &node in &runner.enqueue {
                let fill = &fill;
                scope.spawn(move || fill(runner, node, left));
            }
        }
        let result = body();
        cancel_queues();
        cancel.cancel();
        result
    });
    match (result, failed.into_inner().unpoisoned()) {
        (Err(_), Some(error)) => Err(error.into()),
        (result, _) => result,
    }
}
