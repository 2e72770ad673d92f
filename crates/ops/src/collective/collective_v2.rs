//! CollectiveReduceV2, CollectiveReduceScatterV2, CollectiveGatherV2, CollectiveAllToAllV2.

use thalweg_device::{Collective, KernelError, Op, ReduceOp, Reduction, cpu_tensors, on_host};
use thalweg_graph::op::{AttrDef, Default, int_attr, str_attr, type_attr};
use thalweg_graph::{Attrs, OpDef};
use thalweg_tensor::DType;

use super::group::{COMMUNICATION_HINT, GROUP_OP, STATELESS, TIMEOUT, TOKENS, group};
use super::run::{even_share, first, run, unknown_row_count};

const MERGE_OP: AttrDef = AttrDef {
    default: Default::Required,
    ..str_attr("merge_op", "", &["Min", "Max", "Mul", "Add"])
};
const FINAL_OP: AttrDef = AttrDef {
    default: Default::Required,
    ..str_attr("final_op", "", &["Id", "Div"])
};
const REDUCE_ATTRS: &[AttrDef] = &[
    type_attr("T", DType::NUMBERS),
    MERGE_OP,
    FINAL_OP,
    COMMUNICATION_HINT,
    TIMEOUT,
    STATELESS,
    TOKENS,
    int_attr("max_subdivs_per_device", -1),
];
const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::NUMBERS),
    COMMUNICATION_HINT,
    TIMEOUT,
    STATELESS,
    TOKENS,
];

/// Reduction given by attributes.
fn reduction_of_attrs(attrs: &Attrs, size: usize) -> Reduction {
    let divided = attrs.str("final_op") == "Div";
    let op = match attrs.str("merge_op") {
        "Min" => ReduceOp::Min,
        "Max" => ReduceOp::Max,
        "Mul" => ReduceOp::Product,
        _ if divided => return ReduceOp::Average.into(),
        _ => ReduceOp::Sum,
    };
    let scale = if divided { 1.0 / size as f64 } else { 1.0 };
    Reduction::of(op).scaled(1.0, scale)
}

/// Reduces the values of all ranks; every rank gets the result.
pub(super) static REDUCE: Op = Op {
    def: OpDef {
        name: "CollectiveReduceV2",
        summary: "The reduced tensors of a group of ranks, on each of them.",
        attrs: REDUCE_ATTRS,
        shape: |cx| {
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        ..GROUP_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (set, of) = group(cx, 1)?;
            run(cx, set, || {
                let kind = Collective::Reduce(reduction_of_attrs(cx.attrs(), of.size));
                Ok((kind, cx.tensor(0)?.clone()))
            })
        }),
        on_host(),
    ],
};

/// Reduces the values of all ranks; every rank gets the same number of rows of the result.
pub(super) static REDUCE_SCATTER: Op = Op {
    def: OpDef {
        name: "CollectiveReduceScatterV2",
        summary: "This rank's rows of the reduced tensors of a group of ranks; each has the same number.",
        attrs: REDUCE_ATTRS,
        shape: unknown_row_count,
        ..GROUP_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (set, of) = group(cx, 1)?;
            run(cx, set, || {
                let input = cx.tensor(0)?;
                even_share(input.dims().first().copied().unwrap_or(0), of.size)?;
                let kind = Collective::Scatter(reduction_of_attrs(cx.attrs(), of.size));
                Ok((kind, input.clone()))
            })
        }),
        on_host(),
    ],
};

/// Concatenates the rows of all ranks; every rank gets all of them.
pub(super) static GATHER: Op = Op {
    def: OpDef {
        name: "CollectiveGatherV2",
        summary: "The rows of the tensors of a group of ranks, in the order of ranks, on each of them.",
        attrs: ATTRS,
        shape: unknown_row_count,
        ..GROUP_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (set, _) = group(cx, 1)?;
            run(cx, set, || Ok((Collective::Gather, cx.tensor(0)?.clone())))
        }),
        on_host(),
    ],
};

/// Sends the same number of rows to each rank, and receives rows from each.
pub(super) static ALL_TO_ALL: Op = Op {
    def: OpDef {
        name: "CollectiveAllToAllV2",
        summary: "The rows that a group of ranks sends to this one, the same number from each, in the order of ranks.",
        attrs: ATTRS,
        shape: |cx| {
            super::run::rows(cx)?;
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        ..GROUP_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (set, of) = group(cx, 1)?;
            let results = run(cx, set, || {
                let input = cx.tensor(0)?;
                let rows = input.dims().first();
                let rows = *rows.ok_or(KernelError::Argument("rows"))?;
                let kind = Collective::Exchange {
                    splits: vec![even_share(rows, of.size)?; of.size],
                };
                Ok((kind, input.clone()))
            })?;
            first(results)
        }),
        on_host(),
    ],
};
