//! Values that stand in the graph or come from outside, and nodes that pass on what they get.

use smallvec::smallvec;
use thalweg_device::{Body, Kernel, KernelError, Op, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Default, Effect, Gradient, arg, attr, type_attr};
use thalweg_graph::scalar_of;
use thalweg_graph::{AttrKind, InferError, OpDef};
use thalweg_tensor::{DType, dispatch};

use crate::support::shapes;
use crate::support::view::VIEW;
use thalweg_cpu::number::Number;

/// A constant. Its value is known from the start, so it never runs.
pub(crate) static CONST: Op = Op {
    def: OpDef {
        name: "Const",
        summary: "A constant tensor.",
        outputs: &[arg("output", "dtype")],
        attrs: &[
            attr("value", AttrKind::Tensor),
            type_attr("dtype", &DType::ALL),
        ],
        shape: |cx| {
            let Some(value) = cx.attrs().tensor("value") else {
                return Ok(());
            };
            if Some(value.dtype()) != cx.attrs().dtype("dtype") {
                return Err(InferError::Attr {
                    attr: "dtype",
                    reason: format!("the value is {}", value.dtype()),
                });
            }
            cx.set_value(0, value.clone());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[],
};

/// A value that each step feeds; one that is not fed is an error when the plan is made.
pub(crate) static PLACEHOLDER: Op = Op {
    def: OpDef {
        name: "Placeholder",
        summary: "A value that each step feeds.",
        outputs: &[arg("output", "dtype")],
        attrs: &[
            type_attr("dtype", &DType::ALL),
            AttrDef {
                default: Default::UnknownShape,
                ..attr("shape", AttrKind::Shape)
            },
        ],
        shape: |cx| {
            let shape = cx.attrs().shape("shape");
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Feed,
        ..OpDef::EMPTY
    },
    kernels: &[],
};

/// The input, under another name.
pub(crate) static IDENTITY: Op = Op {
    def: OpDef {
        name: "Identity",
        summary: "The input, unchanged.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            cx.set(0, cx.shape(0).clone());
            if cx.dtype(0) == DType::Resource
                && let Some((dtype, shape)) = cx.variable(0)
            {
                cx.set_variable(0, dtype, shape);
            }
            if let Some(value) = cx.value(0) {
                cx.set_value(0, value.clone());
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![Some(g.grad())]),
        same_as: |_| Some(0),
        ..OpDef::EMPTY
    },
    kernels: &[VIEW],
};

/// Order, and nothing else.
pub(crate) static NO_OP: Op = Op {
    def: OpDef {
        name: "NoOp",
        summary: "Does nothing: its control inputs are what it is for.",
        gradient: Gradient::None,
        effect: Effect::Control,
        ..OpDef::EMPTY
    },
    kernels: &[Kernel {
        body: Body::Nothing,
        ..VIEW
    }],
};

/// Ones in the shape of the input.
pub(crate) static ONES_LIKE: Op = Op {
    def: OpDef {
        name: "OnesLike",
        summary: "Ones in the dtype and shape of the input.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: &[type_attr("T", DType::PLAIN)],
        shape: |cx| {
            shapes::unchanged(cx)?;
            // The seed of a scalar loss's gradient: known, so that products with it fall away.
            if cx.shape(0).rank() == Some(0)
                && let Some(one) = scalar_of(cx.dtype(0), 1.0)
            {
                cx.set_value(0, one);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let n = p.outputs[0].elements();
            dispatch!(p.dtype(0), NUMBERS, T => Ok(Prepared::new(n, |cx| {
                cx.output::<T>(0)?.fill(T::ONE);
                Ok(())
            })), else match p.dtype(0) {
                DType::Bool => Ok(Prepared::new(n, |cx| {
                    cx.output::<bool>(0)?.fill(true);
                    Ok(())
                })),
                other => Err(KernelError::DType(other)),
            })
        }),
        gpu(crate::gpu::ones),
    ],
};
