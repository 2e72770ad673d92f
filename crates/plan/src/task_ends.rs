//! The ends of an edge that is cut between two tasks, or between a step and its client.

use thalweg_device::{Op, cpu_tensors};
use thalweg_graph::partition::{Ends, TASK_RECV, TASK_SEND};
use thalweg_tensor::{DType, Tensor};

/// The channel of a client that gives the feeds of a step, and takes its fetches, in pieces: below the
/// numbers of those between tasks.
pub fn client_channel(number: usize) -> i64 {
    -1 - number as i64
}

/// What stands where an edge between tasks is cut.
pub const TASK_ENDS: Ends = Ends {
    send: &SEND.def,
    recv: &RECV.def,
};

/// The end of an edge that sends.
pub static SEND: Op = Op {
    def: TASK_SEND,
    kernels: &[cpu_tensors(|cx| {
        let value = match cx.inputs() {
            // Only that it has run is told.
            0 => Tensor::zeros(DType::F32, &[0])?,
            _ => cx.tensor(0)?.clone(),
        };
        cx.environment().send(cx.attrs().int("channel"), value)?;
        Ok(Vec::new())
    })],
};

/// The end of an edge that receives.
pub static RECV: Op = Op {
    def: TASK_RECV,
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![cx.environment().receive(cx.attrs().int("channel"))?])
    })],
};
