//! CollectiveBcastSendV2, CollectiveBcastRecvV2: one rank of a group sends, the others receive.
//!
//! The receiving ranks do not know the sender. So all of them gather, and only the sender has a row.

use thalweg_device::{Collective, KernelError, Op, TensorCx, cpu_tensors, on_host};
use thalweg_graph::op::{AttrDef, arg, type_attr, type_attr_or};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, Dims, Shape, Tensor};

use super::group::{COMMUNICATION_HINT, GROUP_KEY, GROUP_SIZE, INSTANCE_KEY, TIMEOUT, group};
use super::run::{COLLECTIVE_OP, run_as};

const T: AttrDef = type_attr("T", DType::COMPUTED);

/// Name of the broadcast on all of its ranks: their nodes have different names.
pub(super) fn broadcast_name(group: i64, instance: i64) -> String {
    format!("broadcast {instance} of group {group}")
}

/// Tensor of the rank that has a row. `at` is the index of the input with the size of the group.
fn broadcast(
    cx: &TensorCx<'_>,
    at: usize,
    dims: &[usize],
    row: &Tensor,
) -> Result<Tensor, KernelError> {
    let (set, _) = group(cx, at)?;
    let name = broadcast_name(cx.int(at + 1)?, cx.int(at + 2)?);
    let results = run_as(cx, &name, set, || Ok((Collective::Gather, row.clone())))?;
    let rows = results.first().ok_or(KernelError::Argument("a result"))?;
    match rows.dims().first() {
        Some(1) => Ok(rows.reshaped(dims)?),
        count => Err(KernelError::Invalid(format!(
            "{} ranks send in the {name}: one sends, and all others receive",
            count.unwrap_or(&0)
        ))),
    }
}

fn with_rows(count: usize, dims: &[usize]) -> Dims {
    std::iter::once(count).chain(dims.iter().copied()).collect()
}

/// Sends a tensor to all other ranks of a group.
pub(super) static SEND: Op = Op {
    def: OpDef {
        name: "CollectiveBcastSendV2",
        summary: "Sends a tensor to all other ranks of a group, which receive it; and returns it.",
        inputs: &[arg("input", "T"), GROUP_SIZE, GROUP_KEY, INSTANCE_KEY],
        outputs: &[arg("data", "T")],
        attrs: &[T, COMMUNICATION_HINT, TIMEOUT],
        shape: |cx| {
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        ..COLLECTIVE_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let input = cx.tensor(0)?;
            let row = input.reshaped(&with_rows(1, input.dims()))?;
            Ok(vec![broadcast(cx, 1, input.dims(), &row)?])
        }),
        on_host(),
    ],
};

/// Receives the tensor that one rank of a group sends.
pub(super) static RECEIVE: Op = Op {
    def: OpDef {
        name: "CollectiveBcastRecvV2",
        summary: "The tensor that a rank of the group sends.",
        inputs: &[
            GROUP_SIZE,
            GROUP_KEY,
            INSTANCE_KEY,
            arg("shape", "Tshape").host(),
        ],
        outputs: &[arg("data", "T")],
        attrs: &[
            T,
            type_attr_or("Tshape", DType::INDICES, DType::I32),
            COMMUNICATION_HINT,
            TIMEOUT,
        ],
        shape: |cx| {
            let rank = cx.ranked(3, 1)?.dim(0);
            let shape = match cx.ints(3) {
                Some(dims) => {
                    let dims: Option<Dims> =
                        dims.iter().map(|&d| usize::try_from(d).ok()).collect();
                    Shape::known(&dims.ok_or_else(|| InferError::Value {
                        input: 3,
                        reason: "a dimension is below 0".to_owned(),
                    })?)
                }
                None => rank.map_or(Shape::unknown(), Shape::of_rank),
            };
            cx.set(0, shape);
            Ok(())
        },
        ..COLLECTIVE_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let dims = cx.ints(3)?;
            let dims: Option<Dims> = dims.iter().map(|&d| usize::try_from(d).ok()).collect();
            let dims = dims.ok_or(KernelError::Argument("a shape"))?;
            let dtype = cx.attrs().dtype("T").unwrap_or(DType::F32);
            let row = cx.zeros(dtype, &with_rows(0, &dims))?;
            Ok(vec![broadcast(cx, 0, &dims, &row)?])
        }),
        on_host(),
    ],
};
