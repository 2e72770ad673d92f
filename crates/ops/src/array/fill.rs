//! Tensors of one value: Fill, ZerosLike, and broadcasting to a shape.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepared, cpu, cpu_tensors, gpu};
use thalweg_graph::op::{Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use crate::flow::list_sum;
use crate::support::elementwise::copy_broadcast;
use crate::support::moved_strings::moved_strings;
use crate::support::shape_inputs::length;
use crate::support::shapes;
use crate::support::widened::moved;

/// The shape that host input `i` asks for.
pub(crate) fn asked_shape(cx: &Infer<'_>, i: usize) -> Result<Shape, InferError> {
    let rank = length(cx, i)?;
    let Some(dims) = cx.ints(i) else {
        return Ok(rank.map_or(Shape::unknown(), Shape::of_rank));
    };
    let shape = Shape::from(&dims[..]);
    if let Some(bad) = dims.iter().find(|&&d| d < 0) {
        return Err(InferError::Value {
            input: i,
            reason: format!("dimension {bad} is negative"),
        });
    }
    if shape.elements().is_none() {
        return Err(InferError::Value {
            input: i,
            reason: format!("{shape} has more elements than can be counted"),
        });
    }
    Ok(shape)
}

/// One value everywhere.
pub(crate) static FILL: Op = Op {
    def: OpDef {
        name: "Fill",
        summary: "A tensor of the given dimensions with one value everywhere.",
        inputs: &[arg("dims", "index_type").host(), arg("value", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("index_type", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            shapes::expect_scalar(cx, 1)?;
            let shape = asked_shape(cx, 0)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let flat = g.graph().op("Const").attr("dtype", DType::I32);
            let flat = flat
                .attr("value", thalweg_tensor::Tensor::from([-1i32]))
                .output();
            let flat = g.graph().op("Reshape").input(g.grad()).input(flat).output();
            let axis = g.graph().op("Const").attr("dtype", DType::I32);
            let axis = axis
                .attr("value", thalweg_tensor::Tensor::from([0i32]))
                .output();
            smallvec![
                None,
                Some(g.graph().op("Sum").input(flat).input(axis).output())
            ]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        moved_strings!(FILL, &[("T", &[DType::String])]),
        cpu(|p| {
            moved(p, &[1], &[0], &|p| {
                dispatch!(p.dtype(1), [U8 U16 U32 U64], T => Ok(Prepared::new(p.outputs[0].elements(), |cx| {
            let value = cx.input::<T>(1)?;
            let value = *value.first().ok_or(KernelError::Argument("a value"))?;
            cx.output::<T>(0)?.fill(value);
            Ok(())
        })), else Err(KernelError::DType(p.dtype(1))))
            })
        }),
        gpu(crate::gpu::fill),
    ],
};

/// What zeros can be of: lists of tensors too.
const ZEROED: &[DType] = &[
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::Bool,
    DType::Variant,
];

/// Zeros in the shape of the input.
pub(crate) static ZEROS_LIKE: Op = Op {
    def: OpDef {
        name: "ZerosLike",
        summary: "Zeros in the dtype and shape of the input.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: &[type_attr("T", ZEROED)],
        shape: shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![list_sum::zeros_like(cx, cx.tensor(0)?)?]))
            .only(&[("T", &[DType::Variant])]),
        cpu(|p| {
            moved(p, &[0], &[0], &|p| dispatch!(p.dtype(0), [U8 U16 U32 U64], T => Ok(Prepared::new(p.outputs[0].elements(), |cx| {
            cx.output::<T>(0)?.fill(T::default());
            Ok(())
        })), else Err(KernelError::DType(p.dtype(0)))))
        })
        .only(&[("T", DType::PLAIN)]),
        gpu(crate::gpu::zeros).only(&[("T", DType::PLAIN)]),
    ],
};

/// Repeated to a larger shape.
pub(crate) static BROADCAST_TO: Op = Op {
    def: OpDef {
        name: "BroadcastTo",
        summary: "The input, repeated along dimensions of 1 and new ones in front to the given shape.",
        inputs: &[arg("input", "T"), arg("shape", "Tidx").host()],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("Tidx", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let shape = asked_shape(cx, 1)?;
            let wrong = || InferError::Broadcast {
                left: cx.shape(0).clone(),
                right: shape.clone(),
            };
            let both = cx.shape(0).broadcast(&shape).ok_or_else(wrong)?;
            // A dimension of the input above 1 cannot become smaller.
            if both.merge(&shape).is_none() {
                return Err(wrong());
            }
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (x, y) = (g.input(0), g.output(0));
            smallvec![Some(crate::math::broadcast::sum_to(g.grad(), x, y)), None]
        }),
        same_as: |cx| {
            let to = Shape::from(cx.ints(1)?);
            (to.is_known() && to == *cx.shape(0)).then_some(0)
        },
        ..OpDef::EMPTY
    },
    kernels: &[
        moved_strings!(BROADCAST_TO, &[("T", &[DType::String])]),
        cpu(|p| {
            moved(
                p,
                &[0],
                &[0],
                &|p| dispatch!(p.dtype(0), [U8 U16 U32 U64], T => Ok(copy_broadcast::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
            )
        }),
        gpu(crate::gpu::repeated),
    ],
};
