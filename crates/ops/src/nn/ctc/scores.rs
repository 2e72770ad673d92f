//! Scores and lengths of a batch of sequences, sums of logarithms, and label sequences as a sparse matrix.

use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::op::{Arg, arg, arg_of};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::{DType, Element, Shape, Tensor};

pub(super) const INPUTS: Arg = arg("inputs", "T");
pub(super) const LENGTHS: Arg = arg_of("sequence_length", DType::I32);
pub(super) const FLOATS: &[DType] = &[DType::F32, DType::F64];

/// The batch, from the scores `[time, batch, classes]` and the lengths `[batch]` of inputs 0 and `lengths`.
pub(super) fn batch(cx: &Infer<'_>, lengths: usize) -> Result<Option<usize>, InferError> {
    let (inputs, lengths_shape) = (cx.ranked(0, 3)?, cx.ranked(lengths, 1)?);
    let (batch, found) = (inputs.dim(1), lengths_shape.dim(0));
    match (batch, found) {
        (Some(a), Some(b)) if a != b => Err(InferError::Mismatch {
            what: "sequence_length must have a length for each sequence of the batch".to_owned(),
            left: inputs,
            right: lengths_shape,
        }),
        _ => Ok(batch.or(found)),
    }
}

/// Sets the shapes of the first outputs: of the indices of so many sparse matrices, of their values and of their shapes.
pub(super) fn set_sparse(cx: &mut Infer<'_>, matrices: usize) {
    for i in 0..matrices {
        cx.set(i, Shape::partial([None, Some(2)]));
        cx.set(matrices + i, Shape::of_rank(1));
        cx.set(2 * matrices + i, Shape::known(&[2]));
    }
}

/// Scores of a batch of sequences, `[time, batch, classes]`, and the lengths of these.
pub(super) struct Scores<'a, T> {
    all: &'a [T],
    lengths: &'a [i32],
    pub time: usize,
    pub classes: usize,
}

impl<'a, T: Element> Scores<'a, T> {
    /// Reads inputs 0 and `lengths`.
    pub(super) fn of(cx: &TensorCx<'a>, lengths: usize) -> Result<Scores<'a, T>, KernelError> {
        let (tensor, lengths_of) = (cx.tensor(0)?, cx.slice::<i32>(lengths)?);
        let &[time, batch, classes] = tensor.dims() else {
            return Err(KernelError::Argument("scores of three dimensions"));
        };
        if lengths_of.len() != batch || classes == 0 {
            return Err(KernelError::Invalid(format!(
                "there are {} lengths for a batch of {batch}, and {classes} classes: give a length for each sequence and a class",
                lengths_of.len()
            )));
        }
        for (element, &length) in lengths_of.iter().enumerate() {
            if usize::try_from(length).is_ok_and(|length| length <= time) {
                continue;
            }
            return Err(KernelError::Element {
                input: lengths,
                element,
                reason: format!(
                    "sequence_length({element}) <= {time}: it is {length}; give the number of its times, 0 to {time}"
                ),
            });
        }
        Ok(Scores {
            all: cx.slice(0)?,
            lengths: lengths_of,
            time,
            classes,
        })
    }

    pub(super) fn batch(&self) -> usize {
        self.lengths.len()
    }

    /// The scores of the classes of a sequence at each of its times.
    pub(super) fn sequence(&self, b: usize) -> impl Iterator<Item = &'a [T]> {
        let (classes, batch) = (self.classes, self.batch());
        let length = self.lengths[b] as usize;
        let all = self.all;
        (0..length).map(move |t| &all[(t * batch + b) * classes..][..classes])
    }
}

/// Logarithm of the sum of two numbers whose logarithms are given.
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = match a < b {
        true => (a, b),
        false => (b, a),
    };
    match low == f64::NEG_INFINITY {
        true => high,
        false => high + (low - high).exp().ln_1p(),
    }
}

/// Logarithms of the softmax of scores.
pub(super) fn log_softmax(scores: impl Iterator<Item = f64> + Clone, to: &mut Vec<f64>) {
    let largest = scores.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.clone().map(|x| (x - largest).exp()).sum();
    let offset = largest + sum.ln();
    to.clear();
    to.extend(scores.map(|x| x - offset));
}

/// Label sequences of a batch, as a sparse matrix: its indices, values and shape.
pub(super) fn sparse_labels(
    cx: &TensorCx<'_>,
    rows: &[Vec<usize>],
) -> Result<[Tensor; 3], KernelError> {
    let count = rows.iter().map(Vec::len).sum();
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut indices = cx.zeros(DType::I64, &[count, 2])?;
    let mut values = cx.zeros(DType::I64, &[count])?;
    let places = indices.as_mut_slice::<i64>()?.chunks_exact_mut(2);
    let mut places = places.zip(values.as_mut_slice::<i64>()?);
    for (row, labels) in rows.iter().enumerate() {
        for (column, label) in labels.iter().enumerate() {
            if let Some((place, value)) = places.next() {
                place.copy_from_slice(&[row as i64, column as i64]);
                *value = *label as i64;
            }
        }
    }
    let shape = Tensor::vector(&[rows.len() as i64, longest as i64]);
    Ok([indices, values, shape])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_logarithms_take_zeros() {
        assert_eq!(
            log_add(f64::NEG_INFINITY, f64::NEG_INFINITY),
            f64::NEG_INFINITY
        );
        assert_eq!(log_add(f64::NEG_INFINITY, -2.0), -2.0);
        assert!((log_add(0.25f64.ln(), 0.5f64.ln()) - 0.75f64.ln()).abs() < 1e-15);
    }
}
