//! BroadcastGradientArgs, and helpers for the gradients of broadcast inputs: the gradient of an input that was repeated
//! is summed over the repetitions.

use smallvec::SmallVec;
use thalweg_device::{KernelError, Op, Prepared, cpu, on_host};
use thalweg_graph::op::{Gradient, arg, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

/// Sums `grad`, whose shape is that of `x` broadcast with `other`, to the shape of `x`.
#[track_caller]
pub(crate) fn sum_to<'g>(grad: Output<'g>, x: Output<'g>, other: Output<'g>) -> Output<'g> {
    let (graph, shape) = (grad.graph(), x.shape());
    match repeated_axes(&shape, &other.shape()) {
        Some(axes) if axes.is_empty() => grad,
        Some(axes) => {
            let axes = graph
                .op("Const")
                .attr("value", Tensor::from(axes))
                .attr("dtype", DType::I32)
                .output();
            let sum = graph
                .op("Sum")
                .input(grad)
                .input(axes)
                .attr("keep_dims", false)
                .output();
            if shape.rank() == sum.shape().rank() && shape.merge(&sum.shape()).is_some() {
                return sum;
            }
            graph
                .op("Reshape")
                .input(sum)
                .input(graph.op("Shape").input(x).output())
                .output()
        }
        None => {
            let of = |o: Output<'g>| graph.op("Shape").input(o).output();
            let args = graph
                .op("BroadcastGradientArgs")
                .input(of(x))
                .input(of(other))
                .build();
            let sum = graph
                .op("Sum")
                .input(grad)
                .input(args.output(0))
                .attr("keep_dims", false)
                .output();
            graph.op("Reshape").input(sum).input(of(x)).output()
        }
    }
}

/// Axes of the broadcast shape along which `x` is repeated; `None` if they are not known
/// yet.
fn repeated_axes(x: &Shape, other: &Shape) -> Option<Vec<i32>> {
    let (x, other) = (x.dims()?, other.dims()?);
    let rank = x.len().max(other.len());
    let mut axes = Vec::new();
    for i in 0..rank {
        let at = |s: &[Option<usize>]| (i + s.len()).checked_sub(rank).map(|j| s[j]);
        let repeated = match (at(x), at(other)) {
            (None, _) => true,
            (Some(_), None | Some(Some(1))) => false,
            (Some(Some(own)), Some(_)) => own == 1,
            // An unknown dimension may be broadcast to one that is 0, above 1, or unknown.
            (Some(None), Some(_)) => return None,
        };
        if repeated {
            axes.push(i as i32);
        }
    }
    Some(axes)
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.set(0, Shape::of_rank(1));
    cx.set(1, Shape::of_rank(1));
    if let (Some(a), Some(b)) = (cx.ints(0), cx.ints(1)) {
        let (a, b) = (Shape::from(a), Shape::from(b));
        let dtype = cx.dtype(0);
        if a.broadcast(&b).is_none() {
            return Err(InferError::Broadcast { left: a, right: b });
        }
        cx.set_value(0, ints(dtype, &reduced_axes(&a, &b)));
        cx.set_value(1, ints(dtype, &reduced_axes(&b, &a)));
    }
    Ok(())
}

/// Axes that TensorFlow lists for `x`: those of size 1, unless the shapes are the same.
fn reduced_axes(x: &Shape, other: &Shape) -> Vec<i32> {
    let rank = x.rank().max(other.rank()).unwrap_or(0);
    let missing = rank - x.rank().unwrap_or(0);
    let is_one = |&i: &usize| i < missing || x.dim(i - missing) == Some(1);
    match x == other {
        true => Vec::new(),
        false => (0..rank).filter(is_one).map(|i| i as i32).collect(),
    }
}

fn ints(dtype: DType, values: &[i32]) -> Tensor {
    match dtype {
        DType::I64 => values
            .iter()
            .map(|&v| i64::from(v))
            .collect::<Vec<_>>()
            .into(),
        _ => Tensor::from(values),
    }
}

/// Axes over which the gradients of two broadcast inputs are summed.
pub(crate) static BROADCAST_GRADIENT_ARGS: Op = Op {
    def: OpDef {
        name: "BroadcastGradientArgs",
        summary: "The axes along which each of two shapes is repeated when they are broadcast together.",
        inputs: &[arg("s0", "T").host(), arg("s1", "T").host()],
        outputs: &[arg("r0", "T"), arg("r1", "T")],
        attrs: &[type_attr_or("T", DType::INDICES, DType::I32)],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    // Its host inputs are known when it is prepared, and the shape rule computes the values.
    kernels: &[
        cpu(|p| {
            let dims = |i: usize| p.ints(i).map(Shape::from);
            let (a, b) = (dims(0)?, dims(1)?);
            let both: SmallVec<[Tensor; 2]> = [reduced_axes(&a, &b), reduced_axes(&b, &a)]
                .iter()
                .map(|axes| ints(p.dtype(0), axes))
                .collect();
            dispatch!(p.dtype(0), [I32 I64], T => Ok(Prepared::new(both.len(), move |cx| {
            for (i, axes) in both.iter().enumerate() {
                cx.output::<T>(i)?.copy_from_slice(axes.as_slice()?);
            }
            Ok(())
        })), else Err(KernelError::DType(p.dtype(0))))
        }),
        on_host(),
    ],
};
