//! GenerateVocabRemapping.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg_of, attr, int_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::hash_rows::HashRows;
use super::text_file::{LINE_NUMBER, TextEntries, WHOLE_LINE};
use crate::support::shapes::{expect_at_least, expect_scalar};

const NUM_NEW: AttrDef = attr("num_new_vocab", AttrKind::Int);
const OFFSET: AttrDef = attr("new_vocab_offset", AttrKind::Int);
const OLD_SIZE: AttrDef = int_attr("old_vocab_size", -1);

/// A table from one column of a vocabulary to the other.
fn vocabulary(
    cx: &TensorCx<'_>,
    input: usize,
    columns: [(i64, DType); 2],
    size: i64,
) -> Result<HashRows, KernelError> {
    let [(_, key), (_, value)] = columns;
    let mut rows = HashRows::new(key, value, 1, cx.memory())?;
    TextEntries::of_columns(cx, input, columns, size)?.read(cx, &mut rows)?;
    Ok(rows)
}

fn remapping(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (attrs, number, word) = (
        cx.attrs(),
        (LINE_NUMBER, DType::I64),
        (WHOLE_LINE, DType::String),
    );
    let new = vocabulary(cx, 0, [number, word], -1)?;
    let old = vocabulary(cx, 1, [word, number], attrs.int(OLD_SIZE.name))?;
    let (first, count) = (attrs.int(OFFSET.name), attrs.int(NUM_NEW.name));
    let (Some(end), Ok(count)) = (first.checked_add(count), usize::try_from(count)) else {
        return Err(KernelError::Argument("a number of words"));
    };
    if usize::try_from(end).is_ok_and(|end| end > new.len()) {
        return Err(KernelError::Invalid(format!(
            "lookup table size must be larger than last new vocab entry's line: the new vocabulary has {} lines, not \
             {end}",
            new.len()
        )));
    }
    let mut lines = cx.zeros(DType::I64, &[count])?;
    let places = lines.as_mut_slice::<i64>()?;
    (first..end).zip(places).for_each(|(line, to)| *to = line);
    let words = new.find(cx, &lines, &cx.strings_of(&[], [""])?, false, &[count])?;
    let remapping = old.find(cx, &words, &Tensor::scalar(-1i64), false, &[count])?;
    let present = remapping.as_slice::<i64>()?.iter();
    let present = present.filter(|line| **line != -1).count();
    Ok(vec![remapping, Tensor::scalar(present as i32)])
}

/// Lines of an old vocabulary for those of a new one.
pub(crate) static GENERATE: Op = Op {
    def: OpDef {
        name: "GenerateVocabRemapping",
        summary: "For each word of a part of a new vocabulary its line in an old one, or -1, and the number of words that the old one has.",
        inputs: &[
            arg_of("new_vocab_file", DType::String),
            arg_of("old_vocab_file", DType::String),
        ],
        outputs: &[
            arg_of("remapping", DType::I64),
            arg_of("num_present", DType::I32),
        ],
        attrs: &[OFFSET, NUM_NEW, OLD_SIZE],
        shape: |cx| {
            expect_scalar(cx, 0)?;
            expect_scalar(cx, 1)?;
            expect_at_least(cx, OFFSET.name, 0)?;
            expect_at_least(cx, NUM_NEW.name, 0)?;
            expect_at_least(cx, OLD_SIZE.name, -1)?;
            let count = usize::try_from(cx.attrs().int(NUM_NEW.name)).ok();
            cx.set(0, Shape::partial([count]));
            cx.set(1, Shape::scalar());
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(remapping)],
};
