//! NthElement.

use smallvec::smallvec;
use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_tensor::{DType, Shape, dispatch};

use crate::support::gradient_nodes::int_scalar;
use crate::support::shape_inputs::{invalid_value, scalar_int};
use crate::support::trivial_kernels::nothing;
use crate::support::widened::widened;

fn nth<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let columns = p.dims(0).last().copied().unwrap_or(0);
    let n = p.ints(1)?.first().copied();
    let n = n
        .and_then(|n| usize::try_from(n).ok())
        .filter(|&n| n < columns);
    let n = n.ok_or(KernelError::Argument("a place within the rows"))?;
    if p.outputs[0].elements() == 0 {
        return Ok(nothing());
    }
    let place = match p.node.attrs.bool("reverse") {
        true => columns - 1 - n,
        false => n,
    };
    let prepared = Prepared::new(p.inputs[0].elements() * 8, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        let row = cx.scratch::<T>(columns)?;
        for (out, x) in out.iter_mut().zip(x.chunks_exact(columns)) {
            row.copy_from_slice(x);
            // NaN sorts last.
            #[allow(clippy::eq_op, reason = "only a NaN differs from itself")]
            let nan = |x: &T| x != x;
            let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or(nan(a).cmp(&nan(b)));
            *out = *row.select_nth_unstable_by(place, order).1;
        }
        Ok(())
    });
    Ok(prepared.with_scratch(columns * size_of::<T>()))
}

/// The n-th element of each row in sorted order.
pub(crate) static NTH_ELEMENT: Op = Op {
    def: OpDef {
        name: "NthElement",
        summary: "The element at place n, from 0, of each row if it were sorted; from its end with reverse.",
        inputs: &[arg("input", "T"), arg_of("n", DType::I32).host()],
        outputs: &[arg("values", "T")],
        attrs: &[bool_attr("reverse", false), type_attr("T", DType::NUMBERS)],
        shape: |cx| {
            let n = scalar_int(cx, 1)?;
            let Some(dims) = cx.shape(0).dims() else {
                return Ok(());
            };
            let Some((last, rows)) = dims.split_last() else {
                let reason = "Input must be at least rank 1 but is rank 0".to_owned();
                return Err(invalid_value(0, reason));
            };
            if let Some(n) = n {
                let Ok(place) = usize::try_from(n) else {
                    let reason = format!("n must be non-negative but is {n}");
                    return Err(invalid_value(1, reason));
                };
                if last.is_some_and(|d| place >= d) {
                    let reason = format!(
                        "Input must have last dimension > n = {n}, and has shape {}",
                        cx.shape(0)
                    );
                    return Err(invalid_value(1, reason));
                }
            }
            let shape = Shape::partial(rows.iter().copied());
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            // Equal elements share the gradient.
            let (graph, x) = (g.graph(), g.input(0));
            let last = int_scalar(graph, DType::I32, -1);
            let column = |of| graph.op("ExpandDims").input(of).input(last).output();
            let chosen = graph.op("Equal").input(column(g.output(0))).input(x);
            let chosen = graph.op("Cast").input(chosen.output());
            let chosen = chosen.attr("DstT", x.dtype()).output();
            let count = graph.op("Sum").input(chosen).input(last);
            let count = count.attr("keep_dims", true).output();
            smallvec![Some(chosen / count * column(g.grad()))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        widened(
            p,
            &[0],
            &[0],
            &|p| dispatch!(p.dtype(0), [F32 F64 I64 U64], T => nth::<T>(p), else Err(KernelError::DType(p.dtype(0)))),
        )
    })],
};
