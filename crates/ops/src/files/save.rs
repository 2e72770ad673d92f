//! SaveV2.

use std::time::Instant;

use thalweg_checkpoint::BundleWriter;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg_of, args_of, types_attr};
use thalweg_tensor::DType;

use super::checkpoint_inputs::{disk, entries, kernel_error, prefix};
use super::iterator_position::saved;

/// Writes tensors to a checkpoint.
pub(crate) static SAVE_V2: Op = Op {
    def: OpDef {
        name: "SaveV2",
        summary: "Writes tensors, or slices of them, to files that begin with a prefix.",
        inputs: &[
            arg_of("prefix", DType::String),
            arg_of("tensor_names", DType::String),
            arg_of("shape_and_slices", DType::String),
            args_of("tensors", "dtypes"),
        ],
        attrs: &[types_attr("dtypes")],
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let began = Instant::now();
        let done = save(cx);
        let files = cx.environment().files();
        files.saved(began.elapsed(), done.is_ok());
        done.map(|()| Vec::new())
    })],
};

fn save(cx: &TensorCx<'_>) -> Result<(), KernelError> {
    let entries = entries(cx, cx.inputs().saturating_sub(3))?;
    let disk = disk(cx.environment().files());
    let mut writer = BundleWriter::create_on(&disk, &prefix(cx, 0)?).map_err(kernel_error)?;
    for (i, (name, slice)) in entries.iter().enumerate() {
        let tensor = saved(cx.tensor(3 + i)?);
        let added = writer.add_part(name, slice.as_ref(), &tensor);
        added.map_err(kernel_error)?;
    }
    writer.finish().map_err(kernel_error)
}
