//! CTCBeamSearchDecoder.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, bool_attr, count_attr, type_attr_or};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::beam_search::BeamSearch;
use super::scores::{
    FLOATS, INPUTS, LENGTHS, Scores, batch, log_softmax, set_sparse, sparse_labels,
};

/// The likeliest label sequences.
pub(crate) static BEAM_SEARCH_DECODER: Op = Op {
    def: OpDef {
        name: "CTCBeamSearchDecoder",
        summary: "The likeliest label sequences of each sequence of scores, by a beam search, and the logarithms of their probabilities; the last class is the blank.",
        inputs: &[INPUTS, LENGTHS],
        outputs: &[
            arg_of("decoded_indices", DType::I64).list("top_paths"),
            arg_of("decoded_values", DType::I64).list("top_paths"),
            arg_of("decoded_shape", DType::I64).list("top_paths"),
            arg("log_probability", "T"),
        ],
        attrs: &[
            count_attr("beam_width"),
            count_attr("top_paths"),
            bool_attr("merge_repeated", true),
            type_attr_or("T", FLOATS, DType::F32),
        ],
        shape: |cx| {
            let batch = batch(cx, 1)?;
            let paths = usize::try_from(cx.attrs().int("top_paths")).unwrap_or(1);
            set_sparse(cx, paths);
            cx.set(3 * paths, Shape::partial([batch, Some(paths)]));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, [F32 F64], T => decode::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};

fn decode<T: Number>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let scores = Scores::<T>::of(cx, 1)?;
    let number = |name| usize::try_from(cx.attrs().int(name)).unwrap_or(1);
    let (width, paths) = (number("beam_width"), number("top_paths"));
    let merge = cx.attrs().bool("merge_repeated");
    if paths > width {
        return Err(KernelError::Invalid(format!(
            "requested more paths than the beam width: {paths} of {width}"
        )));
    }
    let mut stop = cx.stop_check();
    let (mut rows, mut totals) = (vec![Vec::new(); paths], Vec::new());
    let mut log_y = Vec::new();
    for b in 0..scores.batch() {
        let mut search = BeamSearch::new(width, scores.classes - 1, cx.memory());
        for of_time in scores.sequence(b) {
            stop.tick()?;
            log_softmax(of_time.iter().map(|x| x.to_f64()), &mut log_y);
            search.step(&log_y)?;
        }
        let best = search.best(paths, merge);
        if best.len() < paths {
            return Err(KernelError::Invalid(format!(
                "Less leaves in the beam search than requested: sequence {b} has {} label sequences, {paths} are asked for",
                best.len()
            )));
        }
        for (rows, (labels, total)) in rows.iter_mut().zip(best) {
            rows.push(labels);
            totals.push(T::from_f64(total));
        }
    }
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    for rows in &rows {
        let made = sparse_labels(cx, rows)?;
        parts
            .iter_mut()
            .zip(made)
            .for_each(|(all, part)| all.push(part));
    }
    let mut all: Vec<Tensor> = parts.into_iter().flatten().collect();
    all.push(cx.tensor_of(&[scores.batch(), paths], &totals)?);
    Ok(all)
}
