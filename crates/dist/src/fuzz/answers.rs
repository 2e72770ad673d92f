//! Answers of other tasks, as they are read.

use std::sync::{Arc, OnceLock};

use thalweg_tensor::{Buffer, DType, Memory, Tensor};
use tokio::runtime::Runtime;
use tonic::body::Body;

use super::changed;
use super::tasks::{Pieces, bytes_of};
use crate::colocated::{Colocated, LEAST, Lender, Lending, Loans};
use crate::peers::{Patience, Peer, Peers, Reach};
use crate::platform::system;
use crate::wire::frames::{Frames, Reader};
use crate::wire::messages as wire;
use crate::wire::messages::header::Kind;

/// The most bytes of a value that is taken.
const LIMIT: u64 = 1 << 20;

/// Who reads: a task that knows another one, whose segments it maps too.
struct Reading {
    runtime: Runtime,
    peers: Peers,
    peer: Arc<Peer>,
    lender: Arc<Lender>,
    /// None where the system does not let it.
    colocated: Option<Arc<Colocated>>,
    /// What is lent.
    large: Tensor,
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
            shared_memory: true,
            protection: None,
            limit: LIMIT,
            flight: 4 * LIMIT,
        };
        let peers = Peers::new(platform, reach);
        let peer = peers
            .get(&("ps".to_owned(), 0), "127.0.0.1:1")
            .expect("the address is one");
        let lender = Arc::default();
        Reading {
            peers,
            peer,
            colocated: found(&runtime, &lender),
            runtime,
            lender,
            large: large(),
        }
    }
}

/// The lender, as another process finds it.
fn found(runtime: &Runtime, lender: &Arc<Lender>) -> Option<Arc<Colocated>> {
    let patience = Patience::default().silence;
    let said = lender.socket(runtime.handle(), 1, patience)?;
    runtime.block_on(Colocated::find(said, runtime.handle(), patience))
}

/// A value in shared memory.
fn large() -> Tensor {
    let memory = Arc::new(Memory::new(None).sharing(0));
    let buffer = Buffer::try_copied(&[1; LEAST], Some(&memory)).expect("there is memory");
    Tensor::from_buffer(DType::F32, &[LEAST / 4], Arc::new(buffer)).expect("it is as long")
}

/// An answer as it should be, with its values lent or not; they are lent for as long as the frames are
/// there, from a tensor that may be read over and over.
fn answer(reading: &Reading, lent: bool) -> (Vec<u8>, Frames) {
    let strings = Tensor::strings(&[3], &["one", "", "three"]).expect("three elements");
    let loans = lent.then(|| Loans::new(reading.lender.clone()));
    let mut frames = Frames::lending(loans);
    frames.push(Kind::Opened(wire::Opened {
        devices: vec!["/job:ps/replica:0/task:0/device:CPU:0".to_owned()],
        incarnation: 7,
        ..wire::Opened::default()
    }));
    let small: Tensor = vec![1.0f32, 2.0, 3.0].into();
    let mut values = vec![&small, &strings];
    values.extend(lent.then_some(&reading.large));
    for value in values {
        frames.push_value(1, value).expect("these can be sent");
    }
    frames.push_end(None);
    (bytes_of(&mut frames), frames)
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
            let (good, frames) = answer(reading, kind == 2);
            (changed(good, rest), frames)
        }
    };
    let from = reading.colocated.clone().filter(|_| kind % 4 != 1);
    let body = Body::new(Pieces::of(bytes));
    let answer = Reader::new(body, LIMIT, reading.peers.spare.clone());
    let mut answer = Lending::of(&reading.peer, answer, from);
    reading.runtime.block_on(async {
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
