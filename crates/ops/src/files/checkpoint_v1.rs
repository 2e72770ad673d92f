//! Save, SaveSlices, Restore, RestoreSlice: TensorFlow's first checkpoint format. Graphs with these ops can be imported,
//! but there are no kernels.

use thalweg_device::Op;
use thalweg_graph::OpDef;
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, args_of, int_attr, type_attr, types_attr,
};
use thalweg_tensor::DType;

/// Definition of an op on files without a kernel.
const fn file_op(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [Arg],
    outputs: &'static [Arg],
    attrs: &'static [AttrDef],
) -> Op {
    Op {
        def: OpDef {
            name,
            summary,
            inputs,
            outputs,
            attrs,
            gradient: Gradient::None,
            effect: Effect::Stateful,
            ..OpDef::EMPTY
        },
        kernels: &[],
    }
}

/// Writes tensors.
pub(crate) static SAVE: Op = file_op(
    "Save",
    "Writes tensors to a file.",
    &[
        arg_of("filename", DType::String),
        arg_of("tensor_names", DType::String),
        args_of("data", "T"),
    ],
    &[],
    &[types_attr("T")],
);

/// Writes slices.
pub(crate) static SAVE_SLICES: Op = file_op(
    "SaveSlices",
    "Writes slices of tensors to a file.",
    &[
        arg_of("filename", DType::String),
        arg_of("tensor_names", DType::String),
        arg_of("shapes_and_slices", DType::String),
        args_of("data", "T"),
    ],
    &[],
    &[types_attr("T")],
);

const RESTORE_ATTRS: &[AttrDef] = &[
    type_attr("dt", &DType::ALL),
    int_attr("preferred_shard", -1),
];

/// Reads a tensor.
pub(crate) static RESTORE: Op = file_op(
    "Restore",
    "Reads a tensor from files.",
    &[
        arg_of("file_pattern", DType::String),
        arg_of("tensor_name", DType::String),
    ],
    &[arg("tensor", "dt")],
    RESTORE_ATTRS,
);

/// Reads a slice.
pub(crate) static RESTORE_SLICE: Op = file_op(
    "RestoreSlice",
    "Reads a slice of a tensor from files.",
    &[
        arg_of("file_pattern", DType::String),
        arg_of("tensor_name", DType::String),
        arg_of("shape_and_slice", DType::String),
    ],
    &[arg("tensor", "dt")],
    RESTORE_ATTRS,
);
