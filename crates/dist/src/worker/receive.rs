//! What comes from other tasks in a step.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::step::{Routes, WorkerStep};
use crate::error::{Cause, ClusterError};
use crate::transport::frames::Frames;
use crate::transport::messages as wire;
use crate::transport::messages::header::Kind;
use crate::transport::peers::Peer;
use crate::transport::responses::ResponseReader;

/// How many values of one task are copied from its segments at a time.
const MAX_CONCURRENT_COPIES: usize = 2;

/// Asks for what comes from another task.
async fn ask(peer: &Arc<Peer>, mut request: wire::Receive) -> Result<ResponseReader, ClusterError> {
    let from = peer.colocated().await?;
    request.colocated = from.as_ref().map_or(0, |f| f.incarnation);
    let request = Frames::of(Kind::Receive(request));
    ResponseReader::call(peer, "Receive", request, from).await
}

/// Delivers the values as they come, until all are there. What is read in place is so until `incoming` is
/// dropped.
async fn deliver(
    incoming: &mut ResponseReader,
    from: u32,
    step: &Arc<WorkerStep>,
    routes: &Arc<Routes>,
) -> Result<(), ClusterError> {
    // What is lent and not read in place is copied while more comes, a few values at a time.
    let mut copies = JoinSet::new();
    let room = Arc::new(Semaphore::new(MAX_CONCURRENT_COPIES));
    loop {
        match incoming.next().await? {
            // No more than the part takes: each takes room among the mappings of this process.
            Kind::Value(header)
                if header.loan.is_some() && incoming.count() < routes.receives.len() =>
            {
                let lent = incoming.lent(&header).await?;
                if let Some(value) = incoming.peer.in_place(&lent)? {
                    step.deliver(routes, from, header.number, value);
                    continue;
                }
                let (peer, step, routes) = (incoming.peer.clone(), step.clone(), routes.clone());
                let room = room.clone().acquire_owned().await;
                copies.spawn(async move {
                    let copied = peer.copied(lent).await;
                    drop(room);
                    match copied {
                        Ok(value) => step.deliver(&routes, from, header.number, value),
                        Err(error) => step.fail(error),
                    }
                });
            }
            Kind::Value(header) if header.loan.is_none() => {
                let value = incoming.tensor(&header).await?;
                step.deliver(routes, from, header.number, value);
            }
            Kind::End(_) => {
                while let Some(copied) = copies.join_next().await {
                    copied.map_err(|e| ClusterError::defect(&e))?;
                }
                return Ok(());
            }
            _ => {
                let text = format!(
                    "{} has sent what is no value, or more than it was asked for",
                    incoming.peer.described()
                );
                let error = ClusterError::new(Cause::Protocol, text);
                return Err(error.at(&incoming.peer.task));
            }
        }
    }
}

/// Receives what comes from another task, or fails the step; ends when it has all, or is dropped where it
/// reads some of it in place.
pub(super) async fn receive(
    peer: Arc<Peer>,
    from: u32,
    request: wire::Receive,
    step: Arc<WorkerStep>,
    routes: Arc<Routes>,
) {
    let received = async {
        let mut incoming = ask(&peer, request).await?;
        deliver(&mut incoming, from, &step, &routes).await?;
        if incoming.count() > 0 {
            // Until the part has come to its end.
            std::future::pending::<()>().await;
        }
        Ok::<(), ClusterError>(())
    };
    if let Err(failure) = received.await {
        step.fail(failure);
    }
}
