//! HorovodAlltoall.

use smallvec::smallvec;
use thalweg_device::{Collective, KernelError, Op, TensorCx, cpu_tensors, on_host};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, Shape};

use super::build::all_to_all_in;
use super::run::{
    COLLECTIVE_OP, IGNORE_SCOPE, PROCESS_SET, even_share, process_set, ranks, rows, run,
};

/// Sends some rows to each rank, and receives rows from each.
pub(super) static ALL_TO_ALL: Op = Op {
    def: OpDef {
        name: "HorovodAlltoall",
        summary: "The rows that all ranks send to this one, in the order of ranks, and the number of rows from each.",
        inputs: &[arg("tensor", "T"), arg_of("splits", DType::I32)],
        outputs: &[arg("output", "T"), arg_of("received_splits", DType::I32)],
        attrs: &[type_attr("T", DType::COMPUTED), IGNORE_SCOPE, PROCESS_SET],
        shape: |cx| {
            let ranks = cx.ranked(1, 1)?.dim(0);
            let given = rows(cx)?;
            cx.set(0, given);
            // Empty splits mean equal ones.
            cx.set(1, Shape::partial([ranks.filter(|&n| n > 0)]));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let Some(grad) = g.dy(0) else {
                return smallvec![];
            };
            let set = g.attrs().int("process_set_id");
            smallvec![Some(all_to_all_in(grad, g.output(1), set).0)]
        }),
        ..COLLECTIVE_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            run(cx, process_set(cx.attrs())?, || {
                let kind = Collective::Exchange {
                    splits: splits(cx)?,
                };
                Ok((kind, cx.tensor(0)?.clone()))
            })
        }),
        on_host(),
    ],
};

/// For each rank: number of rows that it is sent.
fn splits(cx: &TensorCx<'_>) -> Result<Vec<usize>, KernelError> {
    let size = ranks(cx)?.size;
    let rows = cx.tensor(0)?.dims().first().copied().unwrap_or(0);
    let given = cx.slice::<i32>(1)?;
    if given.is_empty() {
        return Ok(vec![even_share(rows, size)?; size]);
    }
    let splits: Option<Vec<usize>> = given.iter().map(|&n| usize::try_from(n).ok()).collect();
    let total = |s: &Vec<usize>| s.iter().fold(0usize, |a, &b| a.saturating_add(b));
    splits
        .filter(|s| s.len() == size && total(s) == rows)
        .ok_or_else(|| {
            KernelError::Invalid(format!(
                "splits {given:?} do not share {rows} rows among {size} ranks: give a number for each rank, none below \
                 0, whose sum is {rows}"
            ))
        })
}
