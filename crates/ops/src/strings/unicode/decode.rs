//! UnicodeDecode, UnicodeDecodeWithOffsets.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, attr, type_attr_or};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::encoding::Encoding;
use super::malformed::{ERRORS, Malformed, REPLACE_CONTROL, REPLACEMENT, check_encoding};
use crate::support::tensors::{AccountedVec, integers};

const ATTRS: &[AttrDef] = &[
    attr("input_encoding", AttrKind::Str),
    ERRORS,
    REPLACEMENT,
    REPLACE_CONTROL,
    type_attr_or("Tsplits", DType::INDICES, DType::I64),
];
const SPLITS: Arg = arg("row_splits", "Tsplits");
const VALUES: Arg = arg_of("char_values", DType::I32);
const STARTS: Arg = arg_of("char_to_byte_starts", DType::I64);

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    check_encoding(cx)?;
    let rows = cx.shape(0).elements();
    let splits = rows.and_then(|rows| rows.checked_add(1));
    cx.set(0, Shape::partial([splits]));
    for i in 1..cx.outputs() {
        cx.set(i, Shape::of_rank(1));
    }
    Ok(())
}

const DEF: OpDef = OpDef {
    name: "UnicodeDecode",
    summary: "The code points of each string, as a ragged matrix with a row for each.",
    inputs: &[arg_of("input", DType::String)],
    outputs: &[SPLITS, VALUES],
    attrs: ATTRS,
    shape,
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

/// Code points of strings.
pub(crate) static DECODE: Op = Op {
    def: DEF,
    kernels: &[cpu_tensors(|cx| decode(cx, false))],
};

/// Code points of strings, and the places of their bytes.
pub(crate) static DECODE_WITH_OFFSETS: Op = Op {
    def: OpDef {
        name: "UnicodeDecodeWithOffsets",
        summary: "The code points of each string and the places of their first bytes, as ragged matrices with a row for each.",
        outputs: &[SPLITS, VALUES, STARTS],
        ..DEF
    },
    kernels: &[cpu_tensors(|cx| decode(cx, true))],
};

fn decode(cx: &TensorCx<'_>, with_offsets: bool) -> Result<Vec<Tensor>, KernelError> {
    let encoding = Encoding::of(cx.attrs().str("input_encoding"));
    let encoding = encoding.ok_or(KernelError::Argument("an encoding"))?;
    let malformed = Malformed::of(cx.attrs());
    let rows = cx.strings(0)?;
    // Code points are counted before memory for them is allocated.
    let mut splits = AccountedVec::filled(rows.len() + 1, 0i64, cx.memory())?;
    let mut count = 0;
    let mut stop = cx.stop_check();
    for (element, (row, end)) in rows.iter().zip(&mut splits[1..]).enumerate() {
        stop.tick()?;
        let read = encoding.read(row, &mut |read, _| {
            count += i64::from(malformed.code_point(read)?.is_some());
            Ok(())
        });
        read.map_err(|reason: String| KernelError::Element {
            input: 0,
            element,
            reason,
        })?;
        *end = count;
    }
    let mut values = cx.zeros(DType::I32, &[count as usize])?;
    let mut starts = cx.zeros(DType::I64, &[count as usize])?;
    let mut places = (values.as_mut_slice::<i32>()?.iter_mut()).zip(starts.as_mut_slice::<i64>()?);
    for row in rows {
        stop.tick()?;
        let mut at = 0;
        let read = encoding.read(row, &mut |read, bytes| {
            if let Some(point) = malformed.code_point(read)?
                && let Some((value, start)) = places.next()
            {
                (*value, *start) = (point as i32, at);
            }
            at += bytes as i64;
            Ok(())
        });
        read.map_err(KernelError::Invalid)?;
    }
    let splits = integers(cx, "Tsplits", splits.iter().copied())?;
    let mut all = vec![splits, values];
    if with_offsets {
        all.push(starts);
    }
    Ok(all)
}
