//! EditDistance.

use std::cmp::Ordering;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{SparseInput, infer_sparse, invalid, position, strides};
use crate::support::shape_inputs::invalid_value;
use crate::support::tensors::AccountedVec;

/// Levenshtein distance of sequences in the rows of two sparse tensors.
pub(crate) static EDIT_DISTANCE: Op = Op {
    def: OpDef {
        name: "EditDistance",
        summary: "For each row of two sparse tensors the Levenshtein distance of the sequences in its last dimension.",
        inputs: &[
            arg_of("hypothesis_indices", DType::I64),
            arg("hypothesis_values", "T"),
            arg_of("hypothesis_shape", DType::I64),
            arg_of("truth_indices", DType::I64),
            arg("truth_values", "T"),
            arg_of("truth_shape", DType::I64),
        ],
        outputs: &[arg_of("output", DType::F32)],
        attrs: &[
            bool_attr("normalize", true),
            type_attr("T", DType::ELEMENTS),
        ],
        shape: |cx| {
            let rank = infer_sparse(cx, 0)?.or(infer_sparse(cx, 3)?);
            if let Some(rank @ 0..2) = rank {
                return Err(invalid_value(
                    2,
                    too_few("Hypothesis", "hypothesis_shape", rank),
                ));
            }
            cx.set(
                0,
                rank.map_or(Shape::unknown(), |rank| Shape::of_rank(rank - 1)),
            );
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let values = [cx.tensor(1)?, cx.tensor(4)?];
        let dtype = values[0].dtype();
        if dtype == DType::String {
            let [a, b] = [values[0].as_strings()?, values[1].as_strings()?];
            return distances(cx, |i, j| a[i] == b[j]);
        }
        dispatch!(dtype, PLAIN, T => {
            let [a, b] = [values[0].as_slice::<T>()?, values[1].as_slice::<T>()?];
            distances(cx, |i, j| a[i] == b[j])
        }, else Err(KernelError::DType(dtype)))
    })],
};

fn too_few(kind: &str, name: &str, rank: usize) -> String {
    format!("Input {kind} SparseTensors must have rank at least 2, but {name} rank is: {rank}")
}

/// The entries from `start` on that are in its row.
fn run(sparse: &SparseInput<'_>, start: usize) -> std::ops::Range<usize> {
    let row = |entry: usize| &sparse.index(entry)[..sparse.rank() - 1];
    let same = (start + 1..sparse.len()).take_while(|&entry| row(entry) == row(start));
    start..start + 1 + same.count()
}

fn distances(
    cx: &TensorCx<'_>,
    equal: impl Fn(usize, usize) -> bool,
) -> Result<Vec<Tensor>, KernelError> {
    let (hypothesis, truth) = (SparseInput::of(cx, 0)?, SparseInput::of(cx, 3)?);
    for (sparse, kind, name) in [
        (&hypothesis, "Hypothesis", "hypothesis_shape"),
        (&truth, "Truth", "truth_shape"),
    ] {
        if sparse.rank() < 2 {
            return Err(invalid(too_few(kind, name, sparse.rank())));
        }
        sparse.check_inside(cx)?;
        if !sparse.is_sorted() {
            return Err(invalid(format!(
                "the indices of {name} are out of order: use tf.sparse.reorder"
            )));
        }
    }
    if hypothesis.rank() != truth.rank() {
        return Err(invalid(format!(
            "Expected hypothesis_shape.NumElements == truth_shape.NumElements: {} and {}",
            hypothesis.rank(),
            truth.rank()
        )));
    }
    let rows = hypothesis.rank() - 1;
    let sides = hypothesis.shape.iter().zip(truth.shape.iter()).take(rows);
    let shape: Vec<i64> = sides.map(|(&a, &b)| a.max(b)).collect();
    super::sparse_input::check_shape(&shape)?;
    let dims: Vec<usize> = shape.iter().map(|&d| d as usize).collect();
    let (mut out, strides) = (cx.zeros(DType::F32, &dims)?, strides(&shape));
    let to = out.as_mut_slice::<f32>()?;
    let normalize = cx.attrs().bool("normalize");
    let (mut i, mut j) = (0, 0);
    while i < hypothesis.len() || j < truth.len() {
        let order = match (i < hypothesis.len(), j < truth.len()) {
            (true, true) => hypothesis.index(i)[..rows].cmp(&truth.index(j)[..rows]),
            (true, false) => Ordering::Less,
            (false, _) => Ordering::Greater,
        };
        let (mut guess, mut wanted) = (i..i, j..j);
        let mut row: &[i64] = &[];
        if order.is_ge() {
            (wanted, row) = (run(&truth, j), truth.index(j));
        }
        if order.is_le() {
            (guess, row) = (run(&hypothesis, i), hypothesis.index(i));
        }
        (i, j) = (guess.end, wanted.end);
        let distance = levenshtein(cx, guess, wanted.clone(), &equal)? as f32;
        let divisor = if normalize { wanted.len() as f32 } else { 1.0 };
        to[position(&row[..rows], &strides)] = distance / divisor;
    }
    Ok(vec![out])
}

/// Number of insertions, deletions and substitutions between two sequences.
fn levenshtein(
    cx: &TensorCx<'_>,
    a: std::ops::Range<usize>,
    b: std::ops::Range<usize>,
    equal: &impl Fn(usize, usize) -> bool,
) -> Result<usize, KernelError> {
    let mut costs = AccountedVec::filled(b.len() + 1, 0usize, cx.memory())?;
    costs.iter_mut().enumerate().for_each(|(i, cost)| *cost = i);
    let mut stop = cx.stop_check();
    for (done, i) in a.enumerate() {
        let mut diagonal = std::mem::replace(&mut costs[0], done + 1);
        for (k, j) in b.clone().enumerate() {
            stop.tick()?;
            let substituted = diagonal + usize::from(!equal(i, j));
            diagonal = costs[k + 1];
            costs[k + 1] = substituted.min(diagonal + 1).min(costs[k] + 1);
        }
    }
    Ok(costs[b.len()])
}
