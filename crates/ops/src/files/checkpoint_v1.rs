//! Save, SaveSlices, Restore, RestoreSlice: TensorFlow's first checkpoint format. It is read. Graphs that write it can be
//! imported, but there are no kernels.

use std::path::PathBuf;

use thalweg_checkpoint::{BundleReader, FirstReader, SliceSpec};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, args_of, int_attr, type_attr, types_attr,
};
use thalweg_tensor::{DType, Tensor};

use super::checkpoint_inputs::{disk, kernel_error, prefix};
use super::patterns::matches;

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

/// The checkpoint of the first format in the files that a pattern matches; `None` if there are none.
pub(super) fn open(cx: &TensorCx<'_>, pattern: &[u8]) -> Result<Option<FirstReader>, KernelError> {
    let files = cx.environment().files();
    let paths = matches(cx, pattern)?;
    let paths = paths.iter().map(|name| files.resolve(name));
    let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>()?;
    if paths.is_empty() {
        return Ok(None);
    }
    let reader = FirstReader::open_on(&*disk(files), &paths);
    reader.map(Some).map_err(kernel_error)
}

/// Tensors of these dtypes, in whole or slices.
pub(super) fn read(
    reader: &FirstReader,
    entries: &[(String, Option<SliceSpec>)],
    dtypes: impl Iterator<Item = DType>,
) -> Result<Vec<Tensor>, KernelError> {
    for ((name, _), dtype) in entries.iter().zip(dtypes) {
        if let Some(found) = reader.dtype(name).filter(|d| d.known() != Some(dtype)) {
            return Err(KernelError::Invalid(format!(
                "'{name}' is of {found} in the checkpoint, and {dtype} is asked for: restore it as what it was saved as"
            )));
        }
    }
    reader.parts(entries).map_err(kernel_error)
}

/// The text at input `i`.
fn text(cx: &TensorCx<'_>, i: usize) -> Result<String, KernelError> {
    let Some(text) = cx.strings(i)?.only() else {
        return Err(KernelError::Invalid(format!(
            "input {i} must be one string"
        )));
    };
    String::from_utf8(text.to_vec())
        .map_err(|_| KernelError::Invalid(format!("input {i} is not in UTF-8")))
}

/// Reads a tensor, in whole or the slice at an input.
fn restore(cx: &TensorCx<'_>, slice: Option<usize>) -> Result<Vec<Tensor>, KernelError> {
    let slice = match slice {
        Some(i) => SliceSpec::parse_or_whole(&text(cx, i)?).map_err(kernel_error)?,
        None => None,
    };
    let (pattern, entry) = (text(cx, 0)?, (text(cx, 1)?, slice));
    let dtypes = cx.node().outputs.iter().map(|fact| fact.dtype);
    if let Some(reader) = open(cx, pattern.as_bytes())? {
        return read(&reader, &[entry], dtypes);
    }
    // TensorFlow reads its newer format by these ops, too.
    let reader = BundleReader::open_on(&*disk(cx.environment().files()), &prefix(cx, 0)?);
    let tensor = reader.and_then(|reader| reader.part(&entry.0, entry.1.as_ref()));
    let tensor = tensor.map_err(kernel_error)?;
    match dtypes.into_iter().next() {
        Some(dtype) if dtype != tensor.dtype() => Err(KernelError::Invalid(format!(
            "'{}' is of {} in the checkpoint, and {dtype} is asked for: restore it as what it was saved as",
            entry.0,
            tensor.dtype()
        ))),
        _ => Ok(vec![tensor]),
    }
}

const RESTORE_DEF: OpDef = OpDef {
    name: "Restore",
    summary: "Reads a tensor from files.",
    inputs: &[
        arg_of("file_pattern", DType::String),
        arg_of("tensor_name", DType::String),
    ],
    outputs: &[arg("tensor", "dt")],
    attrs: RESTORE_ATTRS,
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Reads a tensor.
pub(crate) static RESTORE: Op = Op {
    def: RESTORE_DEF,
    kernels: &[cpu_tensors(|cx| restore(cx, None))],
};

/// Reads a slice.
pub(crate) static RESTORE_SLICE: Op = Op {
    def: OpDef {
        name: "RestoreSlice",
        summary: "Reads a slice of a tensor from files.",
        inputs: &[
            arg_of("file_pattern", DType::String),
            arg_of("tensor_name", DType::String),
            arg_of("shape_and_slice", DType::String),
        ],
        ..RESTORE_DEF
    },
    kernels: &[cpu_tensors(|cx| restore(cx, Some(2)))],
};
