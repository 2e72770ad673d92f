//! DecodeCompressed.

#[cfg(feature = "gzip")]
use std::io::Read;

use thalweg_data::Compression;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg_of, str_attr};
#[cfg(feature = "gzip")]
use thalweg_tensor::Reservation;
use thalweg_tensor::{DType, Tensor};

use crate::files::record_files::compression;

/// Step in which unpacked bytes are read and reserved.
#[cfg(feature = "gzip")]
const STEP_BYTES: u64 = 64 << 10;

/// Reads to the end. The bytes count against the memory: a few packed bytes can stand for very many.
#[cfg(feature = "gzip")]
fn read_all(
    mut from: impl Read,
    element: usize,
    cx: &TensorCx<'_>,
) -> Result<Vec<u8>, KernelError> {
    let (mut all, mut held) = (Vec::new(), Reservation::of(Some(cx.memory())));
    loop {
        if cx.environment().is_stopped() {
            return Err(KernelError::Stopped);
        }
        if !held.grow(STEP_BYTES as usize) {
            return Err(KernelError::Memory {
                bytes: all.len() + STEP_BYTES as usize,
            });
        }
        let read = (&mut from).take(STEP_BYTES).read_to_end(&mut all);
        let read = read.map_err(|e| {
            KernelError::Storage(format!("element {element} cannot be unpacked: {e}"))
        })?;
        if read == 0 {
            return Ok(all);
        }
    }
}

#[cfg(feature = "gzip")]
fn unpacked(
    packed: &[u8],
    compression: Compression,
    element: usize,
    cx: &TensorCx<'_>,
) -> Result<Vec<u8>, KernelError> {
    match compression {
        Compression::None => Ok(packed.to_vec()),
        Compression::Gzip => read_all(flate2::bufread::MultiGzDecoder::new(packed), element, cx),
        Compression::Zlib => read_all(flate2::bufread::ZlibDecoder::new(packed), element, cx),
    }
}

#[cfg(not(feature = "gzip"))]
fn unpacked(_: &[u8], _: Compression, _: usize, _: &TensorCx<'_>) -> Result<Vec<u8>, KernelError> {
    Err(KernelError::Invalid(
        "gzip and zlib are not built in: build with the feature gzip".to_owned(),
    ))
}

fn decode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let compression = compression(cx.attrs().str("compression_type").as_bytes())?;
    let packed = cx.tensor(0)?;
    if compression == Compression::None {
        return Ok(vec![packed.clone()]);
    }
    let mut all = cx.string_tensor(packed.dims())?;
    for (element, packed) in packed.as_strings()?.iter().enumerate() {
        all.push(&unpacked(packed, compression, element, cx)?)?;
    }
    Ok(vec![all.finish()?])
}

/// Unpacks compressed strings.
pub(crate) static DECODE_COMPRESSED: Op = Op {
    def: OpDef {
        name: "DecodeCompressed",
        summary: "The strings that gzip or zlib has compressed.",
        inputs: &[arg_of("bytes", DType::String)],
        outputs: &[arg_of("output", DType::String)],
        attrs: &[str_attr("compression_type", "", &[])],
        shape: crate::support::shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode)],
};
