//! Receives the values of a step from other tasks.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::step::{Routes, WorkerStep};
use crate::error::{Cause, ClusterError};
use crate::metrics::counters::GaugeGuard;
use crate::transport::frames::Frames;
use crate::transport::messages as wire;
use crate::transport::messages::header::Kind;
use crate::transport::peers::Peer;
use crate::transport::responses::ResponseReader;

/// Maximum number of concurrent copies from the segments of one task.
const MAX_CONCURRENT_COPIES: usize = 2;

/// Requests the values from another task.
async fn ask(peer: &Arc<Peer>, mut request: wire::Receive) -> Result<ResponseReader, ClusterError> {
    let from = peer.colocated().await?;
    request.colocated = from.as_ref().map_or(0, |f| f.incarnation);
    let request = Frames::of(Kind::Receive(request));
    ResponseReader::call(peer, "Receive", request, from).await
}

/// Delivers the values as they arrive, until all are there. Values are read in place until `incoming` is dropped.
async fn deliver(
    incoming: &mut ResponseReader,
    from: u32,
    step: &Arc<WorkerStep>,
    routes: &Arc<Routes>,
) -> Result<(), ClusterError> {
    // Lent values that are not read in place are copied while others arrive, a few at a time.
    let mut copies = JoinSet::new();
    let room = Arc::new(Semaphore::new(MAX_CONCURRENT_COPIES));
    loop {
        match incoming.next().await? {
            // No more values than the part receives: each takes a mapping of this process.
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

/// Receives the values from another task, or fails the step. Ends once all are delivered; if some are read in place,
/// it lasts until it is dropped.
pub(super) async fn receive(
    peer: Arc<Peer>,
    from: u32,
    request: wire::Receive,
    step: Arc<WorkerStep>,
    routes: Arc<Routes>,
) {
    let received = async {
        let waiting = GaugeGuard::begin(&peer.peer_stats.receives);
        let mut incoming = ask(&peer, request).await?;
        deliver(&mut incoming, from, &step, &routes).await?;
        drop(waiting);
        if incoming.count() > 0 {
            // Until the part has ended.
            std::future::pending::<()>().await;
        }
        Ok::<(), ClusterError>(())
    };
    if let Err(failure) = received.await {
        step.fail(failure);
    }
}
