//! Reader of arbitrary responses of a peer.

use std::sync::Arc;

use thalweg_tensor::{Buffer, DType, Memory, Tensor};
use tokio::runtime::Runtime;
use tonic::body::Body;

use super::tasks::{Chunks, bytes_of};
use crate::limits::timeouts::Timeouts;
use crate::runtime::platform::system;
use crate::transport::frames::{FrameReader, Frames};
use crate::transport::messages as wire;
use crate::transport::messages::header::Kind;
use crate::transport::network::Tcp;
use crate::transport::peers::{Peer, PeerOptions, Peers};
use crate::transport::responses::ResponseReader;
use crate::transport::shared_memory::lender::{Lender, Loans};
use crate::transport::shared_memory::loan_table::MIN_LENT_BYTES;
use crate::transport::shared_memory::segments::ColocatedTask;

/// Maximum size of an accepted value, in bytes.
const LIMIT: u64 = 1 << 20;

/// Reader: a task with a peer, whose segments it maps too.
pub struct Answers {
    runtime: Runtime,
    peers: Peers,
    peer: Arc<Peer>,
    lender: Arc<Lender>,
    /// `None` if the system does not permit it.
    colocated: Option<Arc<ColocatedTask>>,
    /// A value that is large enough to be lent.
    large: Tensor,
}

impl Default for Answers {
    fn default() -> Answers {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime without threads is made");
        let platform = system(runtime.handle().clone());
        let peer_options = PeerOptions {
            own: None,
            network: Arc::new(Tcp),
            timeouts: Timeouts::default(),
            shared_memory: true,
            protection: None,
            limit: LIMIT,
            flight: Arc::new(Memory::new(Some(4 * LIMIT as usize))),
        };
        let peers = Peers::new(platform, peer_options, Arc::default());
        let peer = peers
            .get(&("ps".to_owned(), 0), "127.0.0.1:1")
            .expect("the address is one");
        let lender = Arc::default();
        Answers {
            peers,
            peer,
            colocated: found(&runtime, &lender),
            runtime,
            lender,
            large: large(),
        }
    }
}

/// Connects to the lender, as another process does.
fn found(runtime: &Runtime, lender: &Arc<Lender>) -> Option<Arc<ColocatedTask>> {
    let timeout = Timeouts::default().heartbeat;
    let said = lender.socket(runtime.handle(), 1, timeout)?;
    runtime.block_on(ColocatedTask::find(said, runtime.handle(), timeout))
}

/// Returns a value in shared memory.
fn large() -> Tensor {
    let memory = Arc::new(Memory::new(None).sharing(0));
    let buffer = Buffer::try_copied(&[1; MIN_LENT_BYTES], Some(&memory)).expect("there is memory");
    Tensor::from_buffer(DType::F32, &[MIN_LENT_BYTES / 4], Arc::new(buffer)).expect("it is as long")
}

impl Answers {
    /// Reads a response as a master and a receiver of values do, to its end or to its first error. The response is a
    /// valid one, with its values lent if `lent`, after `change`; if `colocated`, the reader is connected to the
    /// lender. Returns the numbers of accepted messages and values.
    pub fn read(
        &self,
        lent: bool,
        colocated: bool,
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> usize {
        let (good, _lent) = self.answer(lent);
        let body = Body::new(Chunks::of(change(good)));
        let from = self.colocated.clone().filter(|_| colocated);
        let answer = FrameReader::new(body, LIMIT, self.peers.pool.clone());
        let mut answer = ResponseReader::of(&self.peer, answer, from);
        self.runtime.block_on(async {
            let mut taken = 0;
            while let Ok(kind) = answer.next().await {
                if let Kind::Value(header) = kind
                    && answer.tensor(&header).await.is_err()
                {
                    break;
                }
                taken += 1;
            }
            taken
        })
    }

    /// Returns the interpretation of the first message of a response.
    #[cfg(test)]
    fn first(&self, bytes: Vec<u8>) -> Result<Kind, crate::error::ClusterError> {
        let body = Body::new(Chunks::of(bytes));
        let mut answer = FrameReader::new(body, LIMIT, self.peers.pool.clone());
        self.runtime.block_on(self.peer.next(&mut answer))
    }

    /// Returns a valid response, with its values lent if `lent`, for the lifetime of the frames, from a tensor that
    /// may be read repeatedly.
    fn answer(&self, lent: bool) -> (Vec<u8>, Frames) {
        let strings = Tensor::strings(&[3], &["one", "", "three"]).expect("three elements");
        let loans = lent.then(|| Loans::new(self.lender.clone()));
        let mut frames = Frames::lending(loans);
        frames.push(Kind::Opened(wire::Opened {
            devices: vec!["/job:ps/replica:0/task:0/device:CPU:0".to_owned()],
            incarnation: 7,
            ..wire::Opened::default()
        }));
        let small: Tensor = vec![1.0f32, 2.0, 3.0].into();
        let mut values = vec![&small, &strings];
        values.extend(lent.then_some(&self.large));
        for value in values {
            frames.push_value(1, value).expect("these can be sent");
        }
        frames.push_end(None);
        (bytes_of(&mut frames), frames)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::{Cause, ClusterError};

    /// Returns a response with this error, with one text replaced by another of the same length.
    fn error(error: wire::Error, text: &[u8], by: &[u8]) -> Result<Kind, ClusterError> {
        let end = wire::End { error: Some(error) };
        let mut bytes = bytes_of(&mut Frames::of(Kind::End(end)));
        for at in 0..bytes.len() + 1 - text.len() {
            if bytes[at..].starts_with(text) {
                bytes[at..at + by.len()].copy_from_slice(by);
            }
        }
        Answers::default().first(bytes)
    }

    #[test]
    fn an_error_of_a_hostile_peer_is_bounded_and_names_the_peer() {
        let sender = Some(("ps".to_owned(), 0));
        let told = |fields: wire::Error| error(fields, b"\x07\x07", b"\x07\x07").unwrap_err();
        // No text of it is UTF-8.
        for field in 0..5 {
            let mut fields = wire::Error::default();
            let task = fields.task.get_or_insert_default();
            let texts = [
                &mut fields.message,
                &mut fields.node,
                &mut fields.op,
                &mut fields.origin,
                &mut task.job,
            ];
            *texts.into_iter().nth(field).unwrap() = "\x07\x07\x07\x07".to_owned();
            assert_ne!(told(fields.clone()).cause, Cause::Protocol);
            let wrong = error(fields, b"\x07\x07\x07\x07", b"\xff\xfe\xc3\x28").unwrap_err();
            assert_eq!(wrong.cause, Cause::Protocol, "{wrong:?}");
            assert_eq!(wrong.task, sender);
            assert!(wrong.message.contains("cannot be read"), "{wrong}");
        }
        // Its texts are longer than the limits, and its cause is unknown.
        let long = wire::Error {
            cause: i32::MAX,
            message: "x".repeat(1 << 20),
            ..wire::Error::default()
        };
        let long = told(long);
        assert_eq!((long.cause, long.task), (Cause::Internal, sender));
        assert!(long.message.len() < 1 << 15, "{}", long.message.len());
        let start = "/job:ps/task:0 at 127.0.0.1:1: xxx";
        assert!(long.message.starts_with(start));
    }

    #[test]
    fn the_unmodified_responses_are_valid() {
        let answers = Answers::default();
        // Opened, two values or three, and an end that is itself a message.
        let taken = [false, true].map(|lent| answers.read(lent, lent, |good| good));
        assert_eq!(taken, [4, 5]);
    }

    #[test]
    fn arbitrary_responses_never_panic() {
        let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
        let made = proptest::option::weighted(0.3, proptest::collection::vec(any::<u8>(), 0..200));
        let input = (any::<(bool, bool)>(), changes, any::<u8>(), made);
        let answers = Answers::default();
        let mut runner = proptest::test_runner::TestRunner::default();
        let ran = runner.run(&input, |((lent, colocated), changes, cut, made)| {
            answers.read(lent, colocated, |mut good| {
                for (at, byte) in &changes {
                    let at = at.index(good.len());
                    good[at] = *byte;
                }
                good.truncate(good.len().saturating_sub(cut.into()));
                made.unwrap_or(good)
            });
            Ok(())
        });
        ran.unwrap();
    }
}
