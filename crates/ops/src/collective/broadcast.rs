//! HorovodBroadcast.

use smallvec::smallvec;
use thalweg_device::{Collective, KernelError, Op, ReduceOp, TensorCx, cpu_tensors, on_host};
use thalweg_graph::op::{Gradient, arg, attr, type_attr};
use thalweg_graph::{AttrKind, GradCx, InferError, OpDef, Output};
use thalweg_tensor::DType;

use super::build::{all_reduce_of, rank_in};
use super::on_gpus;
use super::run::{COLLECTIVE_OP, IGNORE_SCOPE, PROCESS_SET, collectives, process_set, run};
use crate::array::{ArrayOps, SourceOps};
use crate::math::MathOps;

/// Sends the value of one rank to every rank.
pub(super) static BROADCAST: Op = Op {
    def: OpDef {
        name: on_gpus::BROADCAST,
        summary: "The tensor of one rank, on every rank.",
        inputs: &[arg("tensor", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", DType::COMPUTED),
            attr("root_rank", AttrKind::Int),
            IGNORE_SCOPE,
            PROCESS_SET,
        ],
        shape: |cx| {
            if cx.attrs().int("root_rank") < 0 {
                return Err(InferError::Attr {
                    attr: "root_rank",
                    reason: "ranks are counted from 0".to_owned(),
                });
            }
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![Some(root_gradient(g))]),
        ..COLLECTIVE_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let root = root(cx)?;
            run(cx, process_set(cx.attrs())?, || {
                Ok((Collective::Broadcast { root }, cx.tensor(0)?.clone()))
            })
        }),
        on_gpus::KERNEL,
        on_host(),
    ],
};

fn root(cx: &TensorCx<'_>) -> Result<usize, KernelError> {
    let (root, size) = (cx.attrs().int("root_rank"), collectives(cx)?.ranks(0)?.size);
    let valid = usize::try_from(root).ok().filter(|&r| r < size);
    valid.ok_or_else(|| {
        KernelError::Invalid(format!(
            "root_rank is {root}, and there are {size} ranks: give it one from 0 to {}",
            size.saturating_sub(1)
        ))
    })
}

/// Mean of the gradients of all ranks, as in Horovod; zero on a rank whose value is not sent.
fn root_gradient<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let graph = g.graph();
    let set = g.attrs().int("process_set_id");
    let mean = all_reduce_of(g.grad(), ReduceOp::Average.into(), set);
    let root = graph.constant(g.attrs().int("root_rank") as i32);
    let is_root = rank_in(graph, 0).equal(root);
    // Not a product with zero, which would keep infinities and NaNs.
    is_root
        .broadcast_to(mean.shape_tensor())
        .select(mean, mean.zeros_like())
}
