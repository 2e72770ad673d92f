//! StringNGrams: runs of consecutive strings, joined.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, arg_of, attr, type_attr_or};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Shape, StringTensorBuilder, Strings, Tensor};

use super::ragged_rows::ragged_rows;
use crate::support::shape_inputs::invalid_value;
use crate::support::tensors::{AccountedVec, integers};

/// N-grams of each row of a ragged matrix of strings.
pub(crate) static STRING_N_GRAMS: Op = Op {
    def: OpDef {
        name: "StringNGrams",
        summary: "The runs of so many strings in each row of a ragged matrix, joined; rows may be padded at both ends.",
        inputs: &[arg_of("data", DType::String), arg("data_splits", "Tsplits")],
        outputs: &[
            arg_of("ngrams", DType::String),
            arg("ngrams_splits", "Tsplits"),
        ],
        attrs: &[
            attr("separator", AttrKind::Str),
            attr("ngram_widths", AttrKind::Ints),
            attr("left_pad", AttrKind::Str),
            attr("right_pad", AttrKind::Str),
            attr("pad_width", AttrKind::Int),
            attr("preserve_short_sequences", AttrKind::Bool),
            type_attr_or("Tsplits", DType::INDICES, DType::I64),
        ],
        shape: |cx| {
            cx.ranked(0, 1)?;
            let splits = cx.ranked(1, 1)?;
            let width = cx
                .attrs()
                .ints("ngram_widths")
                .iter()
                .copied()
                .find(|w| *w < 1);
            if let Some(width) = width {
                let reason = format!("ngram_widths must contain positive values: it has {width}");
                return Err(invalid_value(0, reason));
            }
            cx.set(0, Shape::of_rank(1));
            cx.set(1, splits);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(n_grams)],
};

/// Attributes of a node.
struct NGrams<'a> {
    separator: &'a [u8],
    left: &'a [u8],
    right: &'a [u8],
    widths: &'a [i64],
    /// Strings added at each end of a row; one less than the width of the n-grams where it is negative.
    pad_width: i64,
    preserve_short: bool,
}

impl NGrams<'_> {
    fn pad_width(&self, width: i64) -> i64 {
        match self.pad_width {
            ..0 => width - 1,
            pad => pad.min(width - 1),
        }
    }

    /// The number of n-grams of a row of `len` strings.
    fn count(&self, len: i64, width: i64) -> i64 {
        let padded = self.pad_width(width).saturating_mul(2).saturating_add(len);
        (padded - width).saturating_add(1).max(0)
    }

    /// The n-grams of a row: their width, and how many there are.
    fn of_row(&self, len: i64) -> impl Iterator<Item = (i64, i64)> {
        let all = self.widths.iter().map(move |w| (*w, self.count(len, *w)));
        let none = self.widths.iter().all(|w| self.count(len, *w) == 0);
        // A row that is too short is one n-gram with all padding.
        let whole = len.saturating_add(self.pad_width.max(0).saturating_mul(2));
        let short = none && self.preserve_short && len > 0;
        all.chain(short.then_some((whole, 1)))
    }

    /// Appends n-gram `number` of `count`.
    fn write(
        &self,
        row: Strings<'_>,
        (width, count): (i64, i64),
        number: i64,
        to: &mut StringTensorBuilder,
    ) -> Result<(), KernelError> {
        let pad = self.pad_width(width);
        let left = (pad - number).max(0);
        let right = (pad - (count - number - 1)).max(0);
        let strings = (width - left - right).max(0);
        let first = match left {
            0 => number - pad,
            _ => 0,
        };
        let own = row
            .iter()
            .skip(first.max(0) as usize)
            .take(strings as usize);
        let padding = |pad, count: i64| std::iter::repeat_n(pad, count as usize);
        let all = padding(self.left, left)
            .chain(own)
            .chain(padding(self.right, right));
        for (i, part) in all.enumerate() {
            if i > 0 {
                to.extend(self.separator)?;
            }
            to.extend(part)?;
        }
        to.end();
        Ok(())
    }
}

fn n_grams(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    let n_grams = NGrams {
        separator: attrs.str("separator").as_bytes(),
        left: attrs.str("left_pad").as_bytes(),
        right: attrs.str("right_pad").as_bytes(),
        widths: attrs.ints("ngram_widths"),
        pad_width: attrs.int("pad_width"),
        preserve_short: attrs.bool("preserve_short_sequences"),
    };
    let data = cx.strings(0)?;
    let rows = ragged_rows(1, &cx.ints(1)?, data.len())?;
    let mut splits = AccountedVec::filled(cx.tensor(1)?.len(), 0i64, cx.memory())?;
    let mut total = 0i64;
    for (row, end) in rows.iter().zip(splits.iter_mut().skip(1)) {
        let counts = n_grams.of_row(row.len() as i64).map(|(_, count)| count);
        total = counts.fold(total, i64::saturating_add);
        *end = total;
    }
    let count = usize::try_from(total).unwrap_or(usize::MAX);
    let mut strings = cx.string_tensor(&[count])?;
    let mut stop = cx.stop_check();
    for row in rows {
        let row = data.range(row);
        for (width, count) in n_grams.of_row(row.len() as i64) {
            for number in 0..count {
                stop.tick()?;
                n_grams.write(row, (width, count), number, &mut strings)?;
            }
        }
    }
    Ok(vec![
        strings.finish()?,
        integers(cx, "Tsplits", splits.iter().copied())?,
    ])
}
