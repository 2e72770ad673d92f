//! Timestamp.

use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_device::{Op, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg_of};
use thalweg_tensor::{DType, Tensor};

/// The time.
pub(crate) static TIMESTAMP: Op = Op {
    def: OpDef {
        name: "Timestamp",
        summary: "The time in seconds since 1970, with a fraction.",
        outputs: &[arg_of("ts", DType::F64)],
        shape: crate::support::shapes::scalar,
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|_| {
        // A clock before 1970 is at its start.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(vec![Tensor::scalar(now.unwrap_or_default().as_secs_f64())])
    })],
};
