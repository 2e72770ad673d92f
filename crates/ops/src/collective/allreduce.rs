//! HorovodAllreduce, HorovodReducescatter.

use smallvec::smallvec;
use thalweg_device::{Collective, Op, ReduceOp, cpu_tensors, on_host};
use thalweg_graph::op::{AttrDef, Gradient, arg, attr, type_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::DType;

use super::build::{all_gather_in, size_in};
use super::on_gpus::KERNEL;
use super::run::{
    COLLECTIVE_OP, IGNORE_SCOPE, POSTSCALE, PRESCALE, PROCESS_SET, check_reduction, process_set,
    reduction_of_attrs, run, unknown_row_count,
};
use crate::array::ArrayOps;

const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::NUMBERS),
    attr("reduce_op", AttrKind::Int),
    PRESCALE,
    POSTSCALE,
    IGNORE_SCOPE,
    PROCESS_SET,
];

/// Reduces the values of all ranks; every rank gets the result.
pub(super) static ALL_REDUCE: Op = Op {
    def: OpDef {
        name: "HorovodAllreduce",
        summary: "The reduced tensors of all ranks, on every rank.",
        inputs: &[arg("tensor", "T")],
        outputs: &[arg("sum", "T")],
        attrs: ATTRS,
        shape: |cx| {
            check_reduction(cx)?;
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let mut node = g.graph().op("HorovodAllreduce").input(g.grad());
            for name in [
                "reduce_op",
                "prescale_factor",
                "postscale_factor",
                "ignore_name_scope",
                "process_set_id",
            ] {
                if let Some(value) = g.attrs().get(name) {
                    node = node.attr(name, value.clone());
                }
            }
            smallvec![Some(node.output())]
        }),
        ..COLLECTIVE_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            run(cx, process_set(cx.attrs())?, || {
                let kind = Collective::Reduce(reduction_of_attrs(cx.attrs())?);
                Ok((kind, cx.tensor(0)?.clone()))
            })
        }),
        KERNEL,
        on_host(),
    ],
};

/// Reduces the values of all ranks; every rank gets some rows of the result.
pub(super) static REDUCE_SCATTER: Op = Op {
    def: OpDef {
        name: "HorovodReducescatter",
        summary: "This rank's rows of the reduced tensors of all ranks; if the rows cannot be divided evenly, the \
                  first ranks have one more.",
        inputs: &[arg("tensor", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            check_reduction(cx)?;
            unknown_row_count(cx)
        },
        gradient: Gradient::Rule(|g| {
            let set = g.attrs().int("process_set_id");
            let sums = g.attrs().int("reduce_op") == ReduceOp::Sum.number();
            let grad = match sums {
                true => g.grad() * size_in(g.graph(), set).cast(g.grad().dtype()),
                false => g.grad(),
            };
            smallvec![Some(all_gather_in(grad, set))]
        }),
        ..COLLECTIVE_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            run(cx, process_set(cx.attrs())?, || {
                let kind = Collective::Scatter(reduction_of_attrs(cx.attrs())?);
                Ok((kind, cx.tensor(0)?.clone()))
            })
        }),
        on_host(),
    ],
};
