//! What hands its inputs on: checked, several at once, or as other elements of the same bytes.

use smallvec::SmallVec;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg, arg_of, args_of, attr, bool_attr, str_attr, type_attr,
    type_attr_or, types_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::support::shape_inputs::{countable, ints_or, invalid, known, per_dim, wrong};
use crate::support::view::VIEW;

const ANY: AttrDef = type_attr("T", &DType::ALL);

/// Input 0 with all that is known of it.
fn same(cx: &mut Infer<'_>) -> Result<(), InferError> {
    if let Some(fact) = cx.fact(0) {
        cx.set_fact(0, fact);
    }
    Ok(())
}

const ONE: OpDef = OpDef {
    inputs: &[arg("input", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[ANY],
    shape: same,
    gradient: Gradient::Rule(|g| smallvec::smallvec![Some(g.grad())]),
    ..OpDef::EMPTY
};

/// A value with a shape that it must have.
pub(crate) static ENSURE_SHAPE: Op = Op {
    def: OpDef {
        name: "EnsureShape",
        summary: "The input, which must have a shape.",
        attrs: &[attr("shape", AttrKind::Shape), ANY],
        shape: |cx| {
            let wanted = cx.attrs().shape("shape");
            let shape = wanted.merge(cx.shape(0));
            let shape = shape.ok_or_else(|| InferError::Mismatch {
                what: "the input must have the shape that the node says".to_owned(),
                left: cx.shape(0).clone(),
                right: wanted,
            })?;
            same(cx)?;
            cx.set(0, shape);
            Ok(())
        },
        ..ONE
    },
    kernels: &[VIEW],
};

/// The input as it is now.
pub(crate) static SNAPSHOT: Op = Op {
    def: OpDef {
        name: "Snapshot",
        summary: "The input, unchanged.",
        ..ONE
    },
    kernels: &[VIEW],
};

/// The input in memory of its own; no value here shares what can be written to.
pub(crate) static DEEP_COPY: Op = Op {
    def: OpDef {
        name: "DeepCopy",
        summary: "The input as it is now.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..ONE
    },
    kernels: &[VIEW],
};

/// A value through which no gradient goes: asking for one is an error.
pub(crate) static PREVENT_GRADIENT: Op = Op {
    def: OpDef {
        name: "PreventGradient",
        summary: "The input, unchanged; asking for a gradient through it is an error.",
        attrs: &[ANY, str_attr("message", "", &[])],
        gradient: Gradient::Missing,
        ..ONE
    },
    kernels: &[VIEW],
};

/// Several inputs.
pub(crate) static IDENTITY_N: Op = Op {
    def: OpDef {
        name: "IdentityN",
        summary: "The inputs, unchanged.",
        inputs: &[args_of("input", "T")],
        outputs: &[args_of("output", "T")],
        attrs: &[types_attr("T")],
        shape: |cx| {
            for i in 0..cx.inputs() {
                if let Some(fact) = cx.fact(i) {
                    cx.set_fact(i, fact);
                }
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| (0..g.inputs()).map(|i| g.dy(i)).collect()),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        (0..cx.inputs()).map(|i| cx.value(i)).collect()
    })],
};

/// The same bytes as other elements.
pub(crate) static BITCAST: Op = Op {
    def: OpDef {
        name: "Bitcast",
        summary: "The same bytes as elements of another dtype: of a smaller one, with a last dimension more, of a larger one, with one less.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "type")],
        attrs: &[
            type_attr("T", DType::NUMBERS),
            type_attr("type", DType::NUMBERS),
        ],
        shape: |cx| {
            let to = cx.attrs().dtype("type").unwrap_or(DType::F32);
            let (from, to) = (cx.dtype(0).size(), to.size());
            let Some(dims) = cx.shape(0).dims() else {
                return Ok(());
            };
            let mut dims = dims.to_vec();
            if from > to {
                dims.push(Some(from / to.max(1)));
            } else if from < to {
                let parts = to / from.max(1);
                match dims.pop() {
                    Some(None) => {}
                    Some(Some(d)) if d == parts => {}
                    _ => {
                        let reason =
                            format!("the last dimension of {} must be {parts}", cx.shape(0));
                        return Err(wrong(0, reason));
                    }
                }
            }
            let shape = countable(0, Shape::partial(dims))?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        Ok(Prepared::new(p.outputs[0].elements(), |cx| {
            let (from, to) = (cx.input_bytes(0)?, cx.output_bytes(0)?);
            to.copy_from_slice(from);
            Ok(())
        }))
    })],
};

/// A tensor without values of its own.
pub(crate) static EMPTY: Op = Op {
    def: OpDef {
        name: "Empty",
        summary: "A tensor of a shape, whose elements mean nothing; here they are zeros.",
        inputs: &[arg_of("shape", DType::I32).host()],
        outputs: &[arg("output", "dtype")],
        attrs: &[type_attr("dtype", DType::PLAIN), bool_attr("init", false)],
        shape: |cx| {
            let shape = match per_dim(cx, 0)? {
                Some(dims) => {
                    if let Some(bad) = dims.iter().find(|&&d| d < 0) {
                        return Err(wrong(0, format!("{bad} is no length of a dimension")));
                    }
                    countable(0, Shape::from(dims))?
                }
                None => cx.shape(0).dim(0).map_or(Shape::unknown(), Shape::of_rank),
            };
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let (n, dtype) = (p.outputs[0].elements(), p.outputs[0].dtype);
        Ok(Prepared::new(n, move |cx| {
            // Taking bools zeroes them.
            match dtype {
                DType::Bool => drop(cx.output::<bool>(0)?),
                _ => cx.output_bytes(0)?.fill(0),
            }
            Ok(())
        }))
    })],
};

/// The shape that two shapes broadcast to.
pub(crate) static BROADCAST_ARGS: Op = Op {
    def: OpDef {
        name: "BroadcastArgs",
        summary: "The shape of two tensors of the given shapes, broadcast together.",
        inputs: &[arg("s0", "T").host(), arg("s1", "T").host()],
        outputs: &[arg("r0", "T")],
        attrs: &[type_attr_or("T", DType::INDICES, DType::I32)],
        shape: |cx| {
            let (a, b) = (per_dim(cx, 0)?, per_dim(cx, 1)?);
            cx.set(0, Shape::of_rank(1));
            if let (Some(a), Some(b)) = (a, b) {
                let value = broadcast(cx.dtype(0), a, b)?;
                cx.set_value(0, value);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: BROADCAST_ARGS_KERNELS,
};

const BROADCAST_ARGS_KERNELS: &[Kernel] = &[
    cpu(|p| {
        let value = broadcast(p.dtype(0), p.ints(0)?, p.ints(1)?).map_err(invalid)?;
        known(p.dtype(0), vec![value])
    }),
    thalweg_device::on_host(),
];

fn broadcast(dtype: DType, a: Vec<i64>, b: Vec<i64>) -> Result<Tensor, InferError> {
    let (left, right) = (Shape::from(a), Shape::from(b));
    let both = left.broadcast(&right).and_then(|s| s.to_dims());
    let dims = both.ok_or(InferError::Broadcast { left, right })?;
    let dims: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
    ints_or("T", dtype, &[dims.len()], &dims)
}

/// The dimensions of several tensors.
pub(crate) static SHAPE_N: Op = Op {
    def: OpDef {
        name: "ShapeN",
        summary: "The dimensions of each of several tensors.",
        inputs: &[arg("input", "T").list("N")],
        outputs: &[arg("output", "out_type").list("N")],
        attrs: &[
            thalweg_graph::op::count_attr("N"),
            ANY,
            type_attr_or("out_type", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let dtype = cx.attrs().dtype("out_type").unwrap_or(DType::I32);
            for i in 0..cx.inputs() {
                match cx.shape(i).to_dims() {
                    Some(dims) => {
                        let value = dims_of(dtype, &dims)?;
                        cx.set_value(i, value);
                    }
                    None => cx.set(i, Shape::partial([cx.shape(i).rank()])),
                }
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(shapes), thalweg_device::on_host()],
};

fn dims_of(dtype: DType, dims: &[usize]) -> Result<Tensor, InferError> {
    let dims: SmallVec<[i64; 6]> = dims.iter().map(|&d| d as i64).collect();
    ints_or("out_type", dtype, &[dims.len()], &dims)
}

fn shapes(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let dtype = p.outputs.first().map_or(DType::I32, |o| o.dtype);
    let all: Result<Vec<Tensor>, _> = p.inputs.iter().map(|o| dims_of(dtype, &o.dims)).collect();
    known(dtype, all.map_err(invalid)?)
}
