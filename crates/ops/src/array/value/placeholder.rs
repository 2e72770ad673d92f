//! Placeholder, PlaceholderV2, PlaceholderWithDefault.

use smallvec::smallvec;
use thalweg_device::Op;
use thalweg_graph::op::{AttrDef, Default, Effect, Gradient, arg, attr, type_attr};
use thalweg_graph::{AttrKind, InferError, OpDef};
use thalweg_tensor::DType;

use crate::support::trivial_kernels::VIEW;

const DEF: OpDef = OpDef {
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
};

/// A value that must be fed at each step; if it is not fed, planning fails.
pub(crate) static PLACEHOLDER: Op = Op {
    def: DEF,
    kernels: &[],
};

/// A placeholder whose shape must be given.
pub(crate) static PLACEHOLDER_V2: Op = Op {
    def: OpDef {
        name: "PlaceholderV2",
        attrs: &[
            type_attr("dtype", &DType::ALL),
            attr("shape", AttrKind::Shape),
        ],
        ..DEF
    },
    kernels: &[],
};

/// A placeholder whose value is its input if it is not fed.
pub(crate) static PLACEHOLDER_WITH_DEFAULT: Op = Op {
    def: OpDef {
        name: "PlaceholderWithDefault",
        summary: "A value that a step may feed; the input where it does not.",
        inputs: &[arg("input", "dtype")],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            type_attr("dtype", &DType::ALL),
            thalweg_graph::op::attr("shape", thalweg_graph::AttrKind::Shape),
        ],
        shape: |cx| {
            let declared = cx.attrs().shape("shape");
            if declared.merge(cx.shape(0)).is_none() {
                return Err(InferError::Mismatch {
                    what: "the default must have the declared shape".to_owned(),
                    left: cx.shape(0).clone(),
                    right: declared,
                });
            }
            // A fed value may differ from the default in the unknown dimensions of the declared shape.
            cx.set(0, declared);
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![Some(g.grad())]),
        same_as: |_| Some(0),
        ..OpDef::EMPTY
    },
    kernels: &[VIEW],
};
