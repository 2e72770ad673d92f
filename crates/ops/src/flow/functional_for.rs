//! For, MapDefun: functions that are called for each number of a range, and for each row.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg_of, args_of, attr, int_attr, list_attr, types_attr,
};
use thalweg_graph::{AttrKind, Func, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor};

use super::rows::{rows, stacked};
use crate::support::shapes::expect_scalar;

/// The function that an attribute names.
fn function<'a>(cx: &TensorCx<'a>, attr: &'static str) -> Result<&'a Func, KernelError> {
    cx.attrs()
        .func(attr)
        .ok_or(KernelError::Argument("a function"))
}

fn run_for(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (start, limit, delta) = (cx.int(0)?, cx.int(1)?, cx.int(2)?);
    let ends = match delta {
        0 => start == limit,
        up if up > 0 => start <= limit,
        _ => start >= limit,
    };
    if !ends {
        return Err(KernelError::Invalid(format!(
            "Invalid start/limit/delta: {start} {limit} {delta}"
        )));
    }
    let (body, mut stop) = (function(cx, "body")?, cx.stop_check());
    let values: Result<Vec<Tensor>, _> = (3..cx.inputs()).map(|i| cx.value(i)).collect();
    let (mut values, mut i) = (values?, start);
    let count = values.len();
    while if delta > 0 { i < limit } else { i > limit } {
        stop.tick()?;
        let mut arguments = vec![Tensor::scalar(i as i32)];
        arguments.append(&mut values);
        values = cx.environment().call(body, arguments, None)?;
        if values.len() != count {
            return Err(KernelError::Invalid(format!(
                "the body of a loop over {} gives {}",
                counted(count, "value"),
                values.len()
            )));
        }
        i += delta;
    }
    Ok(values)
}

/// Calls a function for each number of a range.
pub(crate) static FOR: Op = Op {
    def: OpDef {
        name: "For",
        summary: "Values that a function makes of each number of a range and the values before.",
        inputs: &[
            arg_of("start", DType::I32),
            arg_of("limit", DType::I32),
            arg_of("delta", DType::I32),
            args_of("input", "T"),
        ],
        outputs: &[args_of("output", "T")],
        attrs: &[
            list_attr("T", AttrKind::Types),
            attr("body", AttrKind::Func),
        ],
        shape: |cx| (0..3).try_for_each(|i| expect_scalar(cx, i)),
        gradient: Gradient::Missing,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(run_for)],
};

const SHAPES: AttrDef = list_attr("output_shapes", AttrKind::Shapes);

fn map(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (attrs, mut stop) = (cx.attrs(), cx.stop_check());
    let arguments = attrs.types("Targuments").len();
    let mut columns = Vec::with_capacity(arguments);
    for i in 0..arguments {
        columns.push(rows(cx.memory(), &cx.held(i)?)?.into_iter());
    }
    let count = columns.first().map_or(0, ExactSizeIterator::len);
    if let Some(other) = columns.iter().find(|column| column.len() != count) {
        return Err(KernelError::Invalid(format!(
            "All inputs must have the same dimension 0: one has {count}, and another {}",
            other.len()
        )));
    }
    let captured: Result<Vec<Tensor>, _> = (arguments..cx.inputs()).map(|i| cx.value(i)).collect();
    let (captured, f) = (captured?, function(cx, "f")?);
    let dtypes = attrs.types("output_types");
    let mut results: Vec<Vec<Tensor>> = vec![Vec::with_capacity(count); dtypes.len()];
    for _ in 0..count {
        stop.tick()?;
        let mut row: Vec<Tensor> = columns.iter_mut().filter_map(Iterator::next).collect();
        row.extend(captured.iter().cloned());
        let made = cx.environment().call(f, row, None)?;
        let fits = made.iter().map(Tensor::dtype).eq(dtypes.iter().copied());
        if !fits {
            return Err(KernelError::Invalid(
                "the function must return a value for each of output_types".to_owned(),
            ));
        }
        results
            .iter_mut()
            .zip(made)
            .for_each(|(all, one)| all.push(one));
    }
    let shapes = attrs.shapes("output_shapes");
    let stack = |(i, all): (usize, &Vec<Tensor>)| {
        let shape = shapes.get(i).cloned().unwrap_or_default();
        stacked(cx.memory(), dtypes[i], all, &shape)
    };
    results.iter().enumerate().map(stack).collect()
}

/// Calls a function for each row of its arguments.
pub(crate) static MAP_DEFUN: Op = Op {
    def: OpDef {
        name: "MapDefun",
        summary: "What a function makes of the rows of its arguments, one after the other, as rows.",
        inputs: &[
            args_of("arguments", "Targuments"),
            args_of("captured_inputs", "Tcaptured"),
        ],
        outputs: &[args_of("output", "output_types")],
        attrs: &[
            types_attr("Targuments"),
            list_attr("Tcaptured", AttrKind::Types),
            types_attr("output_types"),
            SHAPES,
            attr("f", AttrKind::Func),
            int_attr("max_intra_op_parallelism", 1),
        ],
        shape: |cx| {
            let arguments = cx.attrs().types("Targuments").len();
            let first = |i: usize| cx.shape(i).dims()?.first().copied().flatten();
            let count = (0..arguments).find_map(first);
            let shapes = cx.attrs().shapes("output_shapes").to_vec();
            for (i, shape) in shapes.iter().enumerate().take(cx.outputs()) {
                if let Some(dims) = shape.dims() {
                    let all = std::iter::once(count).chain(dims.iter().copied());
                    cx.set(i, Shape::partial(all));
                }
            }
            Ok(())
        },
        gradient: Gradient::Missing,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(map)],
};
