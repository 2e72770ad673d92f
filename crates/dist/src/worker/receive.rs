//! What comes from other tasks in a step.

use std::sync::Arc;
use std::task::{Context, Poll};

use thalweg_tensor::Buffer;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::step::{Routes, Step};
use crate::error::{Cause, ClusterError};
use crate::peers::{Answer, Peer};
use crate::wire::frames::{Frames, Source, Stream};
use crate::wire::messages as wire;
use crate::wire::messages::header::Kind;

/// How many values of one task are copied from its memory at a time.
const COPIES: usize = 2;

/// The request for what another task sends, and, behind it, what was taken of what it lends.
struct Asking {
    request: Option<wire::Receive>,
    taken: mpsc::UnboundedReceiver<u64>,
}

impl Asking {
    fn new(request: wire::Receive, taken: mpsc::UnboundedReceiver<u64>) -> Asking {
        let mut taken = taken;
        if request.near == 0 {
            // Nothing will be lent: the request ends here.
            taken.close();
        }
        Asking {
            request: Some(request),
            taken,
        }
    }
}

impl Source for Asking {
    fn poll(&mut self, frames: &mut Frames, cx: &mut Context<'_>) -> Poll<bool> {
        if let Some(request) = self.request.take() {
            frames.push(Kind::Receive(request));
            return Poll::Ready(true);
        }
        self.taken.poll_recv(cx).map(|token| {
            let token = token.map(|token| frames.push(Kind::Taken(wire::Taken { token })));
            token.is_some()
        })
    }
}

/// What comes from another task in a step, and what of it is read in that task's memory: for as long as
/// this is there.
struct Incoming {
    peer: Arc<Peer>,
    answer: Option<Answer>,
    /// What is read no more goes here.
    tell: mpsc::UnboundedSender<u64>,
    /// By what it is known there: where values lie that are read in place.
    mapped: Vec<(u64, Arc<Buffer>)>,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if self.mapped.is_empty() {
            return;
        }
        // Several may lie in one buffer: it is given up once.
        let mut buffers: Vec<(Arc<Buffer>, Vec<u64>)> = Vec::new();
        for (token, buffer) in self.mapped.drain(..) {
            match buffers.iter_mut().find(|(b, _)| Arc::ptr_eq(b, &buffer)) {
                Some((_, tokens)) => tokens.push(token),
                None => buffers.push((buffer, vec![token])),
            }
        }
        for (buffer, tokens) in buffers {
            // Of what somebody still has nothing is said: its bytes then stay as they are.
            if self.peer.gives(buffer) {
                for token in tokens {
                    // An error is an answer that is over.
                    let _ = self.tell.send(token);
                }
            }
        }
        // Dropped now, the call would end before that was sent: it ends when the other task ends it.
        if let Some(mut answer) = self.answer.take() {
            let limit = self.peer.patience().silence;
            let ends = async move { while let Ok(Some(_)) = answer.next().await {} };
            let ends = async move { tokio::time::timeout(limit, ends).await };
            self.peer.platform.runtime().spawn(ends);
        }
    }
}

impl Incoming {
    /// Asks for it.
    async fn new(peer: Arc<Peer>, mut request: wire::Receive) -> Result<Incoming, ClusterError> {
        let near = peer.near().await?;
        request.near = near.map_or(0, |n| n.incarnation);
        let (tell, taken) = mpsc::unbounded_channel();
        let request = Stream::new(Asking::new(request, taken), false);
        let answer = peer.call("Receive", request).await?;
        Ok(Incoming {
            peer,
            answer: Some(answer.near(near)),
            tell,
            mapped: Vec::new(),
        })
    }

    /// Delivers the values as they come, until all are there. What is read in place is so until this is
    /// dropped.
    async fn deliver(
        &mut self,
        from: u32,
        step: &Arc<Step>,
        routes: &Arc<Routes>,
    ) -> Result<(), ClusterError> {
        let Some(answer) = &mut self.answer else {
            return Ok(());
        };
        let peer = &self.peer;
        // What is lent and can not be mapped is copied while more comes, a few values at a time.
        let mut copies = JoinSet::new();
        let room = Arc::new(Semaphore::new(COPIES));
        loop {
            match peer.next(answer).await? {
                Kind::Value(header) if header.loan.is_some() => {
                    let token = header.loan.map_or(0, |l| l.token);
                    // No more than the part takes: each takes room among the mappings of this process.
                    let fits = self.mapped.len() < routes.receives.len();
                    let mapped = fits.then(|| peer.mapped(answer, &header)).transpose()?;
                    if let Some((value, buffer)) = mapped.flatten() {
                        self.mapped.push((token, buffer));
                        step.deliver(routes, from, header.number, value);
                        continue;
                    }
                    let copy = answer.borrowed(&header).map_err(|e| peer.wrong(e))?;
                    let (peer, step, routes) = (peer.clone(), step.clone(), routes.clone());
                    let tell = self.tell.clone();
                    let room = room.clone().acquire_owned().await;
                    copies.spawn(async move {
                        let copied = peer.copied(copy).await;
                        drop(room);
                        match copied {
                            Ok(value) => {
                                // An error is an answer that is over.
                                let _ = tell.send(token);
                                step.deliver(&routes, from, header.number, value);
                            }
                            Err(error) => step.fail(error),
                        }
                    });
                }
                Kind::Value(header) => {
                    let value = peer.tensor(answer, &header).await?;
                    step.deliver(routes, from, header.number, value);
                }
                Kind::End(_) => {
                    while let Some(copied) = copies.join_next().await {
                        copied.map_err(|e| ClusterError::defect(&e))?;
                    }
                    return Ok(());
                }
                _ => {
                    let text = format!("{} has sent what is no value", peer.described());
                    return Err(ClusterError::new(Cause::Protocol, text).at(&peer.task));
                }
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
    step: Arc<Step>,
    routes: Arc<Routes>,
) {
    let received = async {
        let mut incoming = Incoming::new(peer, request).await?;
        incoming.deliver(from, &step, &routes).await?;
        if !incoming.mapped.is_empty() {
            // Until the part has come to its end.
            std::future::pending::<()>().await;
        }
        Ok::<(), ClusterError>(())
    };
    if let Err(failure) = received.await {
        step.fail(failure);
    }
}
