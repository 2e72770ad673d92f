//! CTCGreedyDecoder: the best class at each time.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, bool_attr, int_attr, type_attr_or};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::scores::{FLOATS, INPUTS, LENGTHS, Scores, batch, set_sparse, sparse_labels};

/// Labels of the best class at each time, without blanks.
pub(crate) static GREEDY_DECODER: Op = Op {
    def: OpDef {
        name: "CTCGreedyDecoder",
        summary: "The classes of the highest scores at each time of sequences, without blanks, and the negative sum of these scores.",
        inputs: &[INPUTS, LENGTHS],
        outputs: &[
            arg_of("decoded_indices", DType::I64),
            arg_of("decoded_values", DType::I64),
            arg_of("decoded_shape", DType::I64),
            arg("log_probability", "T"),
        ],
        attrs: &[
            bool_attr("merge_repeated", false),
            int_attr("blank_index", -1),
            type_attr_or("T", FLOATS, DType::F32),
        ],
        shape: |cx| {
            let batch = batch(cx, 1)?;
            set_sparse(cx, 1);
            cx.set(3, Shape::partial([batch, Some(1)]));
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
    let merge = cx.attrs().bool("merge_repeated");
    let blank = cx.attrs().int("blank_index");
    let classes = scores.classes as i64;
    let from_end = if blank < 0 { classes } else { 0 };
    let blank = usize::try_from(blank.saturating_add(from_end)).ok();
    let blank = blank.filter(|b| *b < scores.classes).ok_or_else(|| {
        KernelError::Invalid(format!(
            "blank_index is to be one of {classes} classes, or counted from their end"
        ))
    })?;
    let mut stop = cx.stop_check();
    let mut sums = Vec::new();
    let mut rows = Vec::new();
    for b in 0..scores.batch() {
        let (mut sum, mut before, mut labels) = (T::ZERO, None, Vec::new());
        for of_time in scores.sequence(b) {
            stop.tick()?;
            let best = (1..of_time.len()).fold(0, |best, i| match of_time[i] > of_time[best] {
                true => i,
                false => best,
            });
            sum = sum.sub(of_time[best]);
            if best != blank && !(merge && before == Some(best)) {
                labels.push(best);
            }
            before = Some(best);
        }
        sums.push(sum);
        rows.push(labels);
    }
    let [indices, values, shape] = sparse_labels(cx, &rows)?;
    let sums = cx.tensor_of(&[rows.len(), 1], &sums)?;
    Ok(vec![indices, values, shape, sums])
}
