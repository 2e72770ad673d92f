//! Checkpoints: names of their files. What reads and writes them has no kernel yet.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, args_of, bool_attr, int_attr, type_attr,
    types_attr,
};
use thalweg_tensor::{DType, Tensor};

use crate::shapes::{expect_scalar, scalar};

fn name(cx: &TensorCx<'_>, name: impl Fn(&str) -> String) -> Result<Vec<Tensor>, KernelError> {
    let [base] = cx.strings(0)? else {
        return Err(KernelError::Argument("one name"));
    };
    let name = name(&String::from_utf8_lossy(base));
    Ok(vec![Tensor::strings(&[], &[name])?])
}

/// The name of one file of several.
pub(crate) static FILENAME: Op = Op {
    def: OpDef {
        name: "ShardedFilename",
        summary: "The name of one file of several: base-00003-of-00010.",
        inputs: &[
            arg_of("basename", DType::String),
            arg_of("shard", DType::I32),
            arg_of("num_shards", DType::I32),
        ],
        outputs: &[arg_of("filename", DType::String)],
        shape: |cx| {
            (0..3).try_for_each(|i| expect_scalar(cx, i))?;
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (shard, shards) = (cx.int(1)?, cx.int(2)?);
        name(cx, |base| format!("{base}-{shard:05}-of-{shards:05}"))
    })],
};

/// The pattern of the names of several files.
pub(crate) static FILESPEC: Op = Op {
    def: OpDef {
        name: "ShardedFilespec",
        summary: "The pattern of the names of several files: base-?????-of-00010.",
        inputs: &[
            arg_of("basename", DType::String),
            arg_of("num_shards", DType::I32),
        ],
        outputs: &[arg_of("filename", DType::String)],
        shape: |cx| {
            (0..2).try_for_each(|i| expect_scalar(cx, i))?;
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let shards = cx.int(1)?;
        name(cx, |base| format!("{base}-?????-of-{shards:05}"))
    })],
};

/// An op that reads or writes files, without a kernel.
const fn on_files(
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
pub(crate) static SAVE_V2: Op = on_files(
    "SaveV2",
    "Writes tensors, or slices of them, to files that begin with a prefix.",
    &[
        arg_of("prefix", DType::String),
        arg_of("tensor_names", DType::String),
        arg_of("shape_and_slices", DType::String),
        args_of("tensors", "dtypes"),
    ],
    &[],
    &[types_attr("dtypes")],
);

/// Reads tensors.
pub(crate) static RESTORE_V2: Op = on_files(
    "RestoreV2",
    "Reads tensors, or slices of them, from files that begin with a prefix.",
    &[
        arg_of("prefix", DType::String),
        arg_of("tensor_names", DType::String),
        arg_of("shape_and_slices", DType::String),
    ],
    &[args_of("tensors", "dtypes")],
    &[types_attr("dtypes")],
);

/// Puts files together.
pub(crate) static MERGE_V2: Op = on_files(
    "MergeV2Checkpoints",
    "Puts the files of several prefixes together under one.",
    &[
        arg_of("checkpoint_prefixes", DType::String),
        arg_of("destination_prefix", DType::String),
    ],
    &[],
    &[
        bool_attr("delete_old_dirs", true),
        bool_attr("allow_missing_files", false),
    ],
);

/// Writes tensors, in the first form.
pub(crate) static SAVE: Op = on_files(
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

/// Writes slices, in the first form.
pub(crate) static SAVE_SLICES: Op = on_files(
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

const RESTORED: &[AttrDef] = &[
    type_attr("dt", &DType::ALL),
    int_attr("preferred_shard", -1),
];

/// Reads a tensor, in the first form.
pub(crate) static RESTORE: Op = on_files(
    "Restore",
    "Reads a tensor from files.",
    &[
        arg_of("file_pattern", DType::String),
        arg_of("tensor_name", DType::String),
    ],
    &[arg("tensor", "dt")],
    RESTORED,
);

/// Reads a slice, in the first form.
pub(crate) static RESTORE_SLICE: Op = on_files(
    "RestoreSlice",
    "Reads a slice of a tensor from files.",
    &[
        arg_of("file_pattern", DType::String),
        arg_of("tensor_name", DType::String),
        arg_of("shape_and_slice", DType::String),
    ],
    &[arg("tensor", "dt")],
    RESTORED,
);
