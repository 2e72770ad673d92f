//! Links of a rank over TCP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use super::message::{Inbox, ReceiveError, Receiving, Sending};
use super::peers::{Listening, POLL_INTERVAL, Peers};
use crate::control::Control;
use crate::error::{CollectiveError, Result};
use crate::links::{Incoming, Links, Outgoing};
use crate::phase_timer::{Phase, PhaseTimer};
use crate::secret::Secret;
use crate::stream::{self, Ready, Stream};

/// Links of a rank to all others.
pub(crate) struct TcpLinks {
    peers: Peers,
    /// By rank: the number of connections of a link with it.
    connections: Vec<usize>,
    /// By rank: the link, once there is one.
    links: Vec<Option<Link>>,
    timer: PhaseTimer,
}

/// Link with one rank: its connections.
struct Link {
    streams: Vec<Stream>,
    /// Inboxes by connection.
    inboxes: Vec<Inbox>,
    /// Number of messages that were sent, and received.
    sent: u64,
    received: u64,
}

impl TcpLinks {
    /// Links of a rank to others at these addresses, each with so many connections.
    pub(crate) fn new(
        rank: usize,
        (addresses, connections): (Vec<SocketAddr>, Vec<usize>),
        listening: Listening,
        control: Arc<Control>,
        secret: &Secret,
    ) -> TcpLinks {
        TcpLinks {
            links: addresses.iter().map(|_| None).collect(),
            peers: Peers {
                rank,
                addresses,
                listening,
                control,
                secret: secret.clone(),
            },
            connections,
            timer: PhaseTimer::default(),
        }
    }

    /// Timer of the phases.
    pub(crate) fn timer(&self) -> &PhaseTimer {
        &self.timer
    }

    /// Link with a rank, which is made on first use.
    fn connect(&mut self, peer: usize) -> Result<&mut Link> {
        if self.links[peer].is_none() {
            let streams = self.peers.open(peer, self.connections[peer])?;
            self.links[peer] = Some(Link {
                inboxes: streams.iter().map(|_| Inbox::new()).collect(),
                streams,
                sent: 0,
                received: 0,
            });
        }
        let none = || CollectiveError::lost(peer, "there is no connection");
        self.links[peer].as_mut().ok_or_else(none)
    }

    fn link(&self, peer: usize) -> Result<&Link> {
        let none = || CollectiveError::lost(peer, "there is no connection");
        self.links[peer].as_ref().ok_or_else(none)
    }
}

impl Links for TcpLinks {
    fn rank(&self) -> usize {
        self.peers.rank
    }

    fn size(&self) -> usize {
        self.peers.addresses.len()
    }

    fn exchange(
        &mut self,
        send: Option<Outgoing<'_>>,
        receive: Option<Incoming<'_>>,
    ) -> Result<()> {
        let mut sending = None;
        if let Some(send) = send {
            let link = self.connect(send.to)?;
            link.sent += 1;
            sending = Some(Sending::new(send, link.sent, link.streams.len()));
        }
        let mut receiving = None;
        if let Some(receive) = receive {
            let link = self.connect(receive.from)?;
            link.received += 1;
            let number = link.received;
            // Taken out while streams are borrowed.
            let inboxes = std::mem::take(&mut link.inboxes);
            receiving = Some((Receiving::new(receive, number), inboxes));
        }
        let result = self.transfer(&mut sending, &mut receiving);
        if let Some((receiving, inboxes)) = receiving
            && let Some(link) = &mut self.links[receiving.message.from]
        {
            link.inboxes = inboxes;
        }
        result
    }
}

impl TcpLinks {
    /// Sends and receives until both are done.
    fn transfer(
        &self,
        sending: &mut Option<Sending<'_>>,
        receiving: &mut Option<(Receiving<'_>, Vec<Inbox>)>,
    ) -> Result<()> {
        let mut began = Instant::now();
        loop {
            let mut progress = false;
            if let Some(s) = sending.as_mut().filter(|s| !s.is_done()) {
                let to = s.message.to;
                let sent = s.go_on(&self.link(to)?.streams, &self.timer);
                progress |= sent.map_err(|e| self.peers.lost(to, e.to_string()))?;
            }
            if let Some((r, inboxes)) = receiving.as_mut().filter(|(r, _)| !r.is_done()) {
                let from = r.message.from;
                progress |= match r.go_on(&self.link(from)?.streams, inboxes, &self.timer) {
                    Ok(progress) => progress,
                    Err(ReceiveError::Message(error)) => return Err(error),
                    Err(ReceiveError::Stream(e)) => {
                        return Err(self.peers.lost(from, e.to_string()));
                    }
                };
            }
            let send = sending.as_ref().filter(|s| !s.is_done());
            let receive = receiving.as_ref().filter(|(r, _)| !r.is_done());
            if send.is_none() && receive.is_none() {
                return Ok(());
            }
            if progress {
                began = Instant::now();
                continue;
            }
            let from = receive.map(|(r, _)| r.message.from);
            let peer = from.or(send.map(|s| s.message.to)).unwrap_or(0);
            // A peer that has left shows at the end of its stream: bytes that it has sent may still be on the way.
            self.peers
                .control
                .may_wait(peer, "a message", began.elapsed())?;
            self.timer.time(Phase::Wait, || self.wait(send, receive))?;
        }
    }

    /// Waits for a short time until a stream is ready.
    fn wait(
        &self,
        send: Option<&Sending<'_>>,
        receive: Option<&(Receiving<'_>, Vec<Inbox>)>,
    ) -> Result<()> {
        let mut waits = Vec::new();
        if let Some(send) = send {
            let streams = self.link(send.message.to)?.streams.iter().enumerate();
            let streams = streams.filter(|(connection, _)| send.waits_for(*connection));
            waits.extend(streams.map(|(_, stream)| (stream, Ready::ToWrite)));
        }
        if let Some((receive, inboxes)) = receive {
            let streams = self.link(receive.message.from)?.streams.iter();
            let streams = streams
                .zip(inboxes)
                .filter(|(_, inbox)| receive.waits_for(inbox));
            waits.extend(streams.map(|(stream, _)| (stream, Ready::ToRead)));
        }
        stream::wait(&waits, POLL_INTERVAL);
        Ok(())
    }
}
