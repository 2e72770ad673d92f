//! DecodePaddedRaw.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::support::tensors::bytes_mut;

/// Number of elements of a dtype in `fixed_length` bytes.
fn elements(fixed_length: i64, dtype: DType) -> Result<usize, String> {
    let size = dtype.size().max(1);
    match usize::try_from(fixed_length) {
        Ok(bytes) if bytes > 0 && bytes.is_multiple_of(size) => Ok(bytes / size),
        _ => Err(format!(
            "fixed_length must be above 0 and a multiple of {size}, the size of {dtype}, and is {fixed_length}"
        )),
    }
}

fn decode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let dtype = cx.attrs().dtype("out_type").unwrap_or(DType::F32);
    let length = elements(cx.int(1)?, dtype).map_err(KernelError::Invalid)?;
    let dims = [cx.tensor(0)?.dims(), &[length]].concat();
    let mut all = cx.zeros(dtype, &dims)?;
    let size = dtype.size();
    let to = bytes_mut(&mut all, dtype)?;
    for (to, string) in to.chunks_exact_mut(length * size).zip(cx.strings(0)?) {
        let bytes = string.len().min(to.len());
        to[..bytes].copy_from_slice(&string[..bytes]);
    }
    if cfg!(target_endian = "little") != cx.attrs().bool("little_endian") {
        to.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    Ok(vec![all])
}

/// Reinterprets bytes as the elements of a dtype, in strings of different lengths.
pub(crate) static DECODE_PADDED_RAW: Op = Op {
    def: OpDef {
        name: "DecodePaddedRaw",
        summary: "The first fixed_length bytes of each string as numbers, along a new last dimension; a shorter string is followed by zeros.",
        inputs: &[
            arg_of("input_bytes", DType::String),
            arg_of("fixed_length", DType::I32),
        ],
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
                    DType::BF16,
                ],
            ),
            bool_attr("little_endian", true),
        ],
        shape: |cx| {
            cx.ranked(1, 0)?;
            let dtype = cx.attrs().dtype("out_type").unwrap_or(DType::F32);
            let length = cx
                .ints(1)
                .and_then(|length| elements(*length.first()?, dtype).ok());
            if let Some(dims) = cx.shape(0).dims() {
                let shape = Shape::partial(dims.iter().copied().chain([length]));
                cx.set(0, shape);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode)],
};
