//! Training in step, over a cluster: see [`thalweg_train::SyncReplicas`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use thalweg_session::{Feed, Feeding, Fetched, Fetches, RunOptions, SessionError};
use thalweg_train::Synchronized;
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::server::Server;
use crate::session::Session;
use crate::status::Status;
use crate::worker::Worker;

/// How long gradients are waited for before the coordinator looks who is there.
const LOOK: Duration = Duration::from_millis(200);

/// After how many looks without gradients turns are given anew. One too many does no harm: gradients
/// that come late are dropped.
const SILENT: u32 = 10;

/// Waits for this worker's turn; then computes its gradients and gives them, and gives what else is
/// fetched, and the global step that they began from. None where the training is over.
///
/// # Errors
/// As [`Session::run`].
pub fn give<'g>(
    session: &Session<'g>,
    sync: &Synchronized<'g>,
    worker: u32,
    fetches: impl Fetches<'g> + Sync,
    feeds: impl IntoIterator<Item = Feed<'g>>,
) -> Result<Option<(Fetched, i64)>, Status> {
    let feeds: Vec<Feed<'g>> = feeds.into_iter().collect();
    session.waited(give_async(session, sync, worker, &fetches, feeds))
}

/// As [`give`], for who runs on the threads of the network.
pub(crate) async fn give_async<'g>(
    session: &Session<'g>,
    sync: &Synchronized<'g>,
    worker: u32,
    fetches: &(impl Fetches<'g> + Sync),
    mut feeds: Vec<Feed<'g>>,
) -> Result<Option<(Fetched, i64)>, Status> {
    let options = RunOptions::default();
    let (turn, give) = (
        sync.turn.get(worker as usize),
        sync.give.get(worker as usize),
    );
    let (Some(turn), Some(give)) = (turn, give) else {
        return Err(Status::invalid(format!("there is no worker {worker}")));
    };
    let step = match session.run_async(turn, &[], &options).await {
        Ok(step) => step.scalar::<i64>(0).map_err(wrong)?,
        // The turns were closed.
        Err(e) if e.code == Code::OutOfRange => return Ok(None),
        Err(e) => return Err(e),
    };
    feeds.push(sync.local_step.feed(step));
    // What is only run has no value.
    let all = (fetches, *give);
    let fetched = session.run_async(&all, &feeds, &options).await?;
    Ok(Some((fetched, step)))
}

/// Gives the workers of `job` their turns and updates the variables, until the global step is `last` or
/// all workers are done. To be called on one task that outlives the others: the first parameter server.
///
/// A worker that dies takes no turn with it: those that are left get the turns that an update still
/// needs. One that comes back gets turns again.
///
/// # Errors
/// As [`Session::run`], where the variables or the turns are not reached.
pub fn coordinate<'g>(
    server: &Server,
    session: &Session<'g>,
    sync: &Synchronized<'g>,
    job: &str,
    last: i64,
) -> Result<(), Status> {
    session.waited(coordinate_async(server.worker(), session, sync, job, last))
}

/// As [`coordinate`], for who runs on the threads of the network.
pub(crate) async fn coordinate_async<'g>(
    task: &Arc<Worker>,
    session: &Session<'g>,
    sync: &Synchronized<'g>,
    job: &str,
    last: i64,
) -> Result<(), Status> {
    match turns(task, session, sync, job, last).await {
        // The other servers may have ended, as the workers have.
        Err(_) if task.finished(job).len() >= sync.grant.len() => Ok(()),
        result => result,
    }
}

async fn turns<'g>(
    task: &Arc<Worker>,
    session: &Session<'g>,
    sync: &Synchronized<'g>,
    job: &str,
    last: i64,
) -> Result<(), Status> {
    let workers = sync.grant.len();
    let done = || task.finished(job).len() >= workers;
    // At first all of them are waited for: one that is alone would give the gradients of all.
    let began = Instant::now();
    while task.present(job).len() < workers && began.elapsed() < session.patience().start {
        if done() {
            return Ok(());
        }
        sleep(LOOK / 20).await;
    }
    // Somebody else makes the variables.
    while !run(session, &sync.ready)
        .await?
        .scalar::<bool>(0)
        .map_err(wrong)?
    {
        if done() {
            return Ok(());
        }
        sleep(LOOK / 20).await;
    }
    run(session, &sync.begin).await?;
    let mut present = BTreeSet::new();
    let mut silent = 0;
    let look = RunOptions::timeout(LOOK);
    while !done() && step(session, sync).await? < last {
        // Who has come or gone changes who has to give how much.
        let now = task.present(job);
        if now != present {
            present = now;
            let missing = sync.aggregate.saturating_sub(least(session, sync).await?);
            grant(session, sync, &present, missing).await?;
        }
        match session.run_async(&sync.given, &[], &look).await {
            Err(e) if e.code != Code::DeadlineExceeded => return Err(e),
            // None has come, or one that was taken too late to be told.
            Err(_) => silent += 1,
            Ok(_) => silent = 0,
        }
        let found = least(session, sync).await?;
        if found >= sync.aggregate {
            run(session, &sync.update).await?;
            grant(session, sync, &present, sync.aggregate).await?;
        } else if silent >= SILENT {
            // A turn may have been taken in vain: by who failed, or came back before it was missed.
            silent = 0;
            grant(session, sync, &present, sync.aggregate - found).await?;
        }
    }
    run(session, &sync.close).await.map(|_| ())
}

async fn run<'g>(session: &Session<'g>, fetches: &impl Fetches<'g>) -> Result<Fetched, Status> {
    session
        .run_async(fetches, &[], &RunOptions::default())
        .await
}

fn wrong(error: SessionError) -> Status {
    Status::from(&error)
}

async fn step(session: &Session<'_>, sync: &Synchronized<'_>) -> Result<i64, Status> {
    let step = run(session, &sync.global_step).await?;
    step.scalar(0).map_err(wrong)
}

/// How many gradients there are of the variable that has the fewest.
async fn least(session: &Session<'_>, sync: &Synchronized<'_>) -> Result<u32, Status> {
    let counts = run(session, &sync.counts).await?;
    let mut least = u32::MAX;
    for i in 0..sync.counts.len() {
        let count = counts.scalar::<i32>(i).map_err(wrong)?;
        least = least.min(u32::try_from(count).unwrap_or(0));
    }
    Ok(least)
}

/// Lets those that are there give so many gradients between them: each has then as many turns as all
/// others, and those that it has not taken count.
async fn grant(
    session: &Session<'_>,
    sync: &Synchronized<'_>,
    present: &BTreeSet<u32>,
    missing: u32,
) -> Result<(), Status> {
    let there = present.iter().map(|&w| w as usize);
    let there: Vec<usize> = there.filter(|&w| w < sync.grant.len()).collect();
    if there.is_empty() {
        return Ok(());
    }
    let share = missing.div_ceil(there.len() as u32).max(1);
    let left: Vec<_> = there.iter().map(|&w| sync.turns[w]).collect();
    let left = run(session, &left).await?;
    for round in 0..share {
        let mut grants = Vec::new();
        for (i, &worker) in there.iter().enumerate() {
            let left = left.scalar::<i32>(i).map_err(wrong)?;
            if i64::from(left) <= i64::from(round) {
                grants.push(sync.grant[worker]);
            }
        }
        if !grants.is_empty() {
            run(session, &grants).await?;
        }
    }
    Ok(())
}
