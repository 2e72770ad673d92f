//! OptionalFromValue, OptionalNone, OptionalHasValue, OptionalGetValue: values that may be absent.
//! A branch that was not taken gives an absent value to its gradient.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Effect, Gradient, arg_of, args_of, list_attr, types_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Nesting, Tensor};

/// A list of tensors, or nothing.
pub(crate) struct Optional(pub(crate) Option<Vec<Tensor>>);

impl Optional {
    /// The tensor that holds it.
    ///
    /// # Errors
    /// Values are nested too deep, or are too many.
    pub(crate) fn value(self) -> Result<Tensor, KernelError> {
        let mut nesting = Nesting::default();
        let values = self.0.iter().flatten();
        values.into_iter().try_for_each(|v| nesting.add(v))?;
        Ok(Tensor::variant(Arc::new(self), nesting)?)
    }
}

const OPTIONAL_OP: OpDef = OpDef {
    gradient: Gradient::Missing,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

fn optional(cx: &TensorCx<'_>) -> Result<Arc<Optional>, KernelError> {
    cx.object::<Optional>(0)
}

/// Wraps values.
pub(crate) static FROM_VALUE: Op = Op {
    def: OpDef {
        name: "OptionalFromValue",
        summary: "An optional that has these values.",
        inputs: &[args_of("components", "Toutput_types")],
        outputs: &[arg_of("optional", DType::Variant)],
        attrs: &[types_attr("Toutput_types")],
        shape: crate::support::shapes::scalar,
        ..OPTIONAL_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let values = (0..cx.inputs()).map(|i| cx.held(i));
        Ok(vec![
            Optional(Some(values.collect::<Result<_, _>>()?)).value()?,
        ])
    })],
};

/// The absent value.
pub(crate) static NONE: Op = Op {
    def: OpDef {
        name: "OptionalNone",
        summary: "An optional that has no values.",
        outputs: &[arg_of("optional", DType::Variant)],
        shape: crate::support::shapes::scalar,
        ..OPTIONAL_OP
    },
    kernels: &[cpu_tensors(|_| Ok(vec![Optional(None).value()?]))],
};

/// `true` if there are values.
pub(crate) static HAS_VALUE: Op = Op {
    def: OpDef {
        name: "OptionalHasValue",
        summary: "True if an optional has values.",
        inputs: &[arg_of("optional", DType::Variant)],
        outputs: &[arg_of("has_value", DType::Bool)],
        shape: crate::support::shapes::scalar,
        ..OPTIONAL_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(optional(cx)?.0.is_some())])
    })],
};

/// The values; an error if they are absent.
pub(crate) static GET_VALUE: Op = Op {
    def: OpDef {
        name: "OptionalGetValue",
        summary: "The values of an optional; an error if it has none.",
        inputs: &[arg_of("optional", DType::Variant)],
        outputs: &[args_of("components", "output_types")],
        attrs: &[
            types_attr("output_types"),
            list_attr("output_shapes", AttrKind::Shapes),
        ],
        ..OPTIONAL_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let missing = || KernelError::Invalid("the optional has no values".to_owned());
        let values = optional(cx)?.0.clone().ok_or_else(missing)?;
        let shapes = cx.attrs().shapes("output_shapes").iter();
        for (i, (value, shape)) in values.iter().zip(shapes).enumerate() {
            if !shape.admits(value.dims()) {
                return Err(KernelError::Invalid(format!(
                    "value {i} of the optional has shape {}, not {shape} as output_shapes says",
                    value.shape()
                )));
            }
        }
        Ok(values)
    })],
};
