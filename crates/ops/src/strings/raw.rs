//! DecodeRaw: bytes as numbers.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::support::dtype_names::tensorflow_name;

fn decode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (input, dtype) = (
        cx.tensor(0)?,
        cx.attrs().dtype("out_type").unwrap_or(DType::F32),
    );
    let strings = cx.strings(0)?;
    let bytes = strings.first().map_or(0, |s| s.len());
    let size = dtype.size().max(1);
    if let Some(element) = strings.iter().position(|s| s.len() != bytes) {
        return Err(KernelError::Invalid(format!(
            "DecodeRaw requires input strings to all be the same size, but element {element} has size {} != {bytes}",
            strings[element].len()
        )));
    }
    if bytes % size != 0 {
        return Err(KernelError::Invalid(format!(
            "Input to DecodeRaw has length {bytes} that is not a multiple of {size}, the size of {}",
            tensorflow_name(dtype)
        )));
    }
    let mut all = strings.bytes().to_vec();
    if cfg!(target_endian = "little") != cx.attrs().bool("little_endian") {
        let part = match dtype.is_complex() {
            true => size / 2,
            false => size,
        };
        all.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    let mut dims = input.dims().to_vec();
    dims.push(bytes / size);
    Ok(vec![Tensor::from_bytes_in(
        dtype,
        &dims,
        &all,
        Some(cx.memory()),
    )?])
}

/// Reinterprets bytes as the elements of a dtype.
pub(crate) static DECODE_RAW: Op = Op {
    def: OpDef {
        name: "DecodeRaw",
        summary: "The bytes of each string as numbers, along a new last dimension.",
        inputs: &[arg_of("bytes", DType::String)],
        outputs: &[arg("output", "out_type")],
        attrs: &[
            type_attr(
                "out_type",
                &[
                    DType::F16,
                    DType::F32,
                    DType::F64,
                    DType::I32,
                    DType::U16,
                    DType::U8,
                    DType::I16,
                    DType::I8,
                    DType::I64,
                    DType::Bool,
                    DType::BF16,
                    DType::C64,
                    DType::C128,
                ],
            ),
            bool_attr("little_endian", true),
        ],
        shape: |cx| {
            if let Some(dims) = cx.shape(0).dims() {
                let shape = Shape::partial(dims.iter().copied().chain([None]));
                cx.set(0, shape);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode)],
};
