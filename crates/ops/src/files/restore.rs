//! RestoreV2.

use thalweg_checkpoint::{BundleReader, CheckpointError, SliceSpec};
use thalweg_device::{KernelError, Op, cpu_tensors};
use thalweg_graph::op::{Effect, Gradient, arg_of, args_of, types_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::checkpoint_inputs::{disk, entries, kernel_error, prefix};
use super::checkpoint_v1;
use super::iterator_position::restored;

/// Shape rule: a slice gives its shape; the shape of a whole tensor is that in the file.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let slices = cx.value(2).and_then(|v| v.as_strings().ok());
    let dims = |i: usize| {
        let text = std::str::from_utf8(slices?.get(i)?).ok()?;
        Some(SliceSpec::parse(text).ok()?.dims())
    };
    let shapes: Vec<Shape> = (0..cx.outputs())
        .map(|i| dims(i).map_or(Shape::unknown(), |dims| Shape::from(&dims[..])))
        .collect();
    for (i, shape) in shapes.into_iter().enumerate() {
        cx.set(i, shape);
    }
    Ok(())
}

/// Reads tensors from a checkpoint.
pub(crate) static RESTORE_V2: Op = Op {
    def: OpDef {
        name: "RestoreV2",
        summary: "Reads tensors, or slices of them, from files that begin with a prefix.",
        inputs: &[
            arg_of("prefix", DType::String),
            arg_of("tensor_names", DType::String),
            arg_of("shape_and_slices", DType::String),
        ],
        outputs: &[args_of("tensors", "dtypes")],
        attrs: &[types_attr("dtypes")],
        shape,
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtypes = cx.node().outputs.iter().map(|fact| fact.dtype);
        let entries = entries(cx, dtypes.len())?;
        let disk = disk(cx.environment().files());
        let reader = match BundleReader::open_on(&*disk, &prefix(cx, 0)?) {
            Ok(reader) => reader,
            // Where there is no index, the prefix may be a file of the first format, or a pattern of such files.
            Err(
                error @ (CheckpointError::Missing { .. } | CheckpointError::Unsupported { .. }),
            ) => {
                let first = cx
                    .strings(0)?
                    .first()
                    .map(|pattern| checkpoint_v1::open(cx, pattern));
                let reader = first.transpose()?.flatten();
                let reader = reader.ok_or_else(|| kernel_error(error))?;
                return checkpoint_v1::read(&reader, &entries, dtypes);
            }
            Err(error) => return Err(kernel_error(error)),
        };
        let mut tensors = Vec::with_capacity(entries.len());
        for ((name, slice), dtype) in entries.iter().zip(dtypes) {
            let held = match dtype {
                DType::Variant => DType::I64,
                _ => dtype,
            };
            if let Some(info) = reader.info(name)
                && info.dtype.known().is_some_and(|found| found != held)
            {
                let found = info.dtype.to_string();
                return Err(KernelError::Invalid(format!(
                    "'{name}' is of {found} in the checkpoint, and {dtype} is asked for: restore it as what it was saved as"
                )));
            }
            let tensor = reader.part(name, slice.as_ref()).map_err(kernel_error)?;
            tensors.push(match dtype {
                DType::Variant => restored(name, &tensor)?,
                _ => tensor,
            });
        }
        Ok(tensors)
    })],
};
