//! Fingerprint.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::farm_hash;

/// Bytes of a fingerprint.
const BYTES: usize = 8;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let dims = cx.shape(0).dims();
    if dims.is_some_and(<[_]>::is_empty) {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: cx.shape(0).clone(),
        });
    }
    cx.ranked(1, 0)?;
    let rows = dims.and_then(|dims| dims.first().copied().flatten());
    cx.set(0, Shape::partial([rows, Some(BYTES)]));
    Ok(())
}

fn fingerprints(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let data = cx.tensor(0)?;
    let method = cx.strings(1)?;
    if method.only() != Some(b"farmhash64") {
        return Err(KernelError::Invalid(format!(
            "Unsupported fingerprint method: '{}'. Only 'farmhash64' is supported",
            method.first().unwrap_or_default().escape_ascii()
        )));
    }
    let rows = data.dims().first().copied().unwrap_or(0);
    let mut all = cx.zeros(DType::U8, &[rows, BYTES])?;
    let mut stop = cx.stop_check();
    if rows == 0 {
        return Ok(vec![all]);
    }
    let out = all.as_mut_slice::<u8>()?.as_chunks_mut::<BYTES>().0;
    let of = |bytes: &[u8]| farm_hash::fingerprint(bytes).to_le_bytes();
    if data.dtype() != DType::String {
        let bytes = data.bytes();
        // Rows without bytes have a fingerprint too.
        let size = bytes.len() / rows;
        for (i, to) in out.iter_mut().enumerate() {
            stop.tick()?;
            *to = of(&bytes[i * size..][..size]);
        }
        return Ok(vec![all]);
    }
    let strings = cx.strings(0)?;
    let size = strings.len() / rows;
    for (i, to) in out.iter_mut().enumerate() {
        let mut row = Vec::with_capacity(size * BYTES);
        for string in strings.range(i * size..(i + 1) * size) {
            stop.tick()?;
            row.extend_from_slice(&of(string));
        }
        // The fingerprint of several strings is that of theirs.
        *to = match size {
            1 => row.try_into().unwrap_or_default(),
            _ => of(&row),
        };
    }
    Ok(vec![all])
}

/// Fingerprints of rows.
pub(crate) static FINGERPRINT: Op = Op {
    def: OpDef {
        name: "Fingerprint",
        summary: "A fingerprint of each row, as eight bytes.",
        inputs: &[arg("data", "T"), arg_of("method", DType::String)],
        outputs: &[arg_of("fingerprint", DType::U8)],
        attrs: &[type_attr("T", DType::ELEMENTS)],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(fingerprints)],
};
