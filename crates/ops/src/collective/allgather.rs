//! HorovodAllgather.

use smallvec::smallvec;
use thalweg_device::{Collective, Op, ReduceOp, cpu_tensors, on_host};
use thalweg_graph::op::{Gradient, arg, type_attr};
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::DType;

use super::build::{all_gather_in, all_reduce_of, rank_in};
use super::run::{COLLECTIVE_OP, IGNORE_SCOPE, PROCESS_SET, process_set, run, unknown_row_count};
use crate::array::{ArrayOps, SourceOps};
use crate::reduce::ReduceOps;

/// Concatenates the rows of all ranks; every rank gets all of them.
pub(super) static ALL_GATHER: Op = Op {
    def: OpDef {
        name: "HorovodAllgather",
        summary: "The rows of the tensors of all ranks, in the order of ranks, on every rank.",
        inputs: &[arg("tensor", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", DType::COMPUTED), IGNORE_SCOPE, PROCESS_SET],
        shape: unknown_row_count,
        gradient: Gradient::Rule(|g| smallvec![Some(own_rows(g))]),
        ..COLLECTIVE_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            run(cx, process_set(cx.attrs())?, || {
                Ok((Collective::Gather, cx.tensor(0)?.clone()))
            })
        }),
        on_host(),
    ],
};

/// Mean of the gradients of all ranks, as in Horovod, and of that this rank's rows.
fn own_rows<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let (graph, x) = (g.graph(), g.input(0));
    let set = g.attrs().int("process_set_id");
    let mean = all_reduce_of(g.grad(), ReduceOp::Average.into(), set);
    let shape = x.shape_tensor();
    let own = shape.slice([0], [1]);
    let rows = all_gather_in(own, set);
    let before = rank_in(graph, set).reshape([1]);
    let start = rows.slice([0], before).reduce_sum(&[0], false);
    let end = start + own.reshape([0i32; 0]);
    let one = graph.constant(1i32);
    let range = graph.op("Range").inputs([start, end, one]).output();
    mean.gather(range, 0).reshape(shape)
}
