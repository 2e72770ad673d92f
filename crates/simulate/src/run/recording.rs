//! Messages of the collectives' own algorithms: each rank runs the algorithm over links that record and send nothing.

use thalweg_collective::links::{Incoming, Links, Outgoing};
use thalweg_collective::{Algorithm, Channel, ReduceOp, Reducer, Result, all_reduce};
use thalweg_tensor::DType;

/// Exchange of a rank: it sends to one rank and receives from another at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Exchange {
    /// Receiver and bytes of what it sends.
    pub(super) sends: Option<(usize, f64)>,
    /// Sender of what it receives, its bytes, and `true` if it is reduced.
    pub(super) receives: Option<(usize, f64, bool)>,
}

/// Links that record.
struct RecordingLinks {
    rank: usize,
    size: usize,
    exchanges: Vec<Exchange>,
}

impl Links for RecordingLinks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(
        &mut self,
        send: Option<Outgoing<'_>>,
        receive: Option<Incoming<'_>>,
    ) -> Result<()> {
        self.exchanges.push(Exchange {
            sends: send.map(|m| (m.to, m.bytes.len() as f64)),
            receives: receive.map(|m| {
                let reduces = m.sink.element() > 1;
                (m.from, m.sink.len() as f64, reduces)
            }),
        });
        Ok(())
    }
}

/// Exchanges of each rank in an all-reduce of so many f32 elements.
pub(super) fn exchanges(algorithm: Algorithm, ranks: usize, elements: usize) -> Vec<Vec<Exchange>> {
    let members: Vec<usize> = (0..ranks).collect();
    let mut data = vec![0u8; 4 * elements];
    let record = |rank: usize| {
        let mut links = RecordingLinks {
            rank,
            size: ranks,
            exchanges: Vec::new(),
        };
        // The links fail never, and a sum of f32 has a reducer.
        if let (Ok(reducer), Ok(mut channel)) = (
            Reducer::new(ReduceOp::Sum, DType::F32, ranks, 1.0),
            Channel::new(&mut links, &members, 0),
        ) {
            let _ = all_reduce(&mut channel, algorithm, &mut data, reducer);
        }
        links.exchanges
    };
    (0..ranks).map(record).collect()
}
