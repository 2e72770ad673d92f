//! Answers of other tasks, as they are read.

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};

use thalweg_tensor::Tensor;
use tokio::runtime::Runtime;
use tonic::body::Body;

use super::changed;
use super::tasks::{Pieces, bytes_of};
use crate::near::{LEAST, Near, Nonce, Shown};
use crate::peers::{Patience, Peer, Peers, Reach};
use crate::platform::system;
use crate::wire::frames::{Frames, Reader};
use crate::wire::messages as wire;
use crate::wire::messages::header::Kind;

/// The most bytes of a value that is taken.
const LIMIT: u64 = 1 << 20;

/// Who reads: a task that knows another one, whose memory it reads too.
struct Reading {
    runtime: Runtime,
    peers: Peers,
    peer: Arc<Peer>,
    near: Option<Near>,
}

impl Reading {
    fn new() -> Reading {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime without threads is made");
        let platform = system(runtime.handle().clone());
        let reach = Reach {
            patience: Patience::default(),
            near: true,
            protection: None,
            limit: LIMIT,
            flight: 4 * LIMIT,
        };
        let peers = Peers::new(platform, reach);
        let peer = peers
            .get(&("ps".to_owned(), 0), "127.0.0.1:1")
            .expect("the address is one");
        Reading {
            runtime,
            peers,
            peer,
            near: own(),
        }
    }
}

/// This process, as another one knows it; none where the system does not let it.
fn own() -> Option<Near> {
    let socket = TcpListener::bind("127.0.0.1:0").ok()?;
    let nonce = Nonce::new();
    let shown = Shown::new(nonce.message()).ok()?;
    nonce.find(&shown.message(7), socket.local_addr().ok()?.port())
}

/// An answer as it should be, with its values lent or not; they are lent for as long as the frames are
/// there, from a tensor that may be read over and over.
fn answer(lent: bool) -> (Vec<u8>, Frames) {
    static LARGE: OnceLock<Tensor> = OnceLock::new();
    let large = LARGE.get_or_init(|| vec![0.5f32; LEAST / 4].into());
    let strings = Tensor::strings(&[3], &["one", "", "three"]).expect("three elements");
    let mut frames = Frames::to(lent);
    frames.push(Kind::Opened(wire::Opened {
        devices: vec!["/job:ps/replica:0/task:0/device:CPU:0".to_owned()],
        incarnation: 7,
        ..wire::Opened::default()
    }));
    let small: Tensor = vec![1.0f32, 2.0, 3.0].into();
    let mut values = vec![&small, &strings];
    values.extend(lent.then_some(large));
    for value in values {
        frames.push_value(1, value).expect("these can be sent");
    }
    frames.push_end(None);
    (bytes_of(&mut frames), frames)
}

/// What the first message of an answer is taken for.
#[cfg(test)]
pub(super) fn first(bytes: Vec<u8>) -> Result<Kind, crate::ClusterError> {
    let reading = Reading::new();
    let body = Body::new(Pieces::of(bytes));
    let mut answer = Reader::new(body, LIMIT, reading.peers.spare.clone());
    let next = reading.peer.next(&mut answer);
    reading.runtime.block_on(next)
}

/// Reads an answer as a master, and what receives values, do: whatever it is, to its end or to what is
/// wrong with it. The first byte says whether the rest is the answer, or changes one that is as it
/// should be; gives how many messages and values were taken.
pub fn read(input: &[u8]) -> usize {
    static READING: OnceLock<Reading> = OnceLock::new();
    let reading = READING.get_or_init(Reading::new);
    let Some((kind, rest)) = input.split_first() else {
        return 0;
    };
    let (bytes, _lent) = match kind % 4 {
        0 => (rest.to_vec(), Frames::default()),
        kind => {
            let (good, frames) = answer(kind == 2);
            (changed(good, rest), frames)
        }
    };
    let near = (kind % 4 != 1).then_some(reading.near).flatten();
    let body = Body::new(Pieces::of(bytes));
    let mut answer = Reader::new(body, LIMIT, reading.peers.spare.clone()).near(near);
    reading.runtime.block_on(async {
        let mut taken = 0;
        while let Ok(kind) = reading.peer.next(&mut answer).await {
            if let Kind::Value(header) = kind
                && reading.peer.tensor(&mut answer, &header).await.is_err()
            {
                break;
            }
            taken += 1;
        }
        taken
    })
}
