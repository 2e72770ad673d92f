//! CTCLoss.

use smallvec::smallvec;
use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, bool_attr, type_attr_or};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::paths::Paths;
use super::scores::{FLOATS, INPUTS, LENGTHS, Scores, batch, log_add, log_softmax};

/// Negative logarithm of the probability of labels.
pub(crate) static CTC_LOSS: Op = Op {
    def: OpDef {
        name: "CTCLoss",
        summary: "The negative logarithm of the probability of each sequence's labels, over all times at which they may stand, and its gradient to the scores; the last class is the blank.",
        inputs: &[
            INPUTS,
            arg_of("labels_indices", DType::I64),
            arg_of("labels_values", DType::I32),
            LENGTHS,
        ],
        outputs: &[arg("loss", "T"), arg("gradient", "T")],
        attrs: &[
            bool_attr("preprocess_collapse_repeated", false),
            bool_attr("ctc_merge_repeated", true),
            bool_attr("ignore_longer_outputs_than_inputs", false),
            type_attr_or("T", FLOATS, DType::F32),
        ],
        shape: |cx| {
            let batch = batch(cx, 3)?;
            cx.ranked(1, 2)?;
            cx.ranked(2, 1)?;
            cx.set(0, Shape::partial([batch]));
            cx.set(1, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            // The loss of a sequence has the same factor at all of its times and classes.
            let axis = g.graph().op("Const").attr("value", Tensor::scalar(-1));
            let axis = axis.attr("dtype", DType::I32).output();
            let dy = g.graph().op("ExpandDims").input(g.grad()).input(axis);
            smallvec![Some(dy.output() * g.output(1)), None, None, None]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, [F32 F64], T => losses::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};

fn losses<T: Number>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let scores = Scores::<T>::of(cx, 3)?;
    let attr = |name| cx.attrs().bool(name);
    let merge = attr("ctc_merge_repeated");
    let labels = labels(cx, &scores, attr("preprocess_collapse_repeated"))?;
    let mut loss = cx.zeros(T::DTYPE, &[scores.batch()])?;
    let mut gradient = cx.zeros(T::DTYPE, &[scores.time, scores.batch(), scores.classes])?;
    let (to_loss, to_gradient) = (loss.as_mut_slice::<T>()?, gradient.as_mut_slice::<T>()?);
    let mut stop = cx.stop_check();
    for (b, labels) in labels.iter().enumerate() {
        let mut log_y = Vec::new();
        for of_time in scores.sequence(b) {
            stop.tick()?;
            let mut row = Vec::new();
            log_softmax(of_time.iter().map(|x| x.to_f64()), &mut row);
            log_y.push(row);
        }
        let needed = labels.len();
        if log_y.is_empty() && needed == 0 {
            continue;
        }
        // Labels that need blanks between them may have no way all the same: their loss is infinite.
        if needed > log_y.len() {
            if attr("ignore_longer_outputs_than_inputs") {
                continue;
            }
            return Err(KernelError::Invalid(format!(
                "Not enough time for target transition sequence (required: {needed}, available: {}), sequence {b}: set ignore_longer_outputs_than_inputs to leave it out",
                log_y.len()
            )));
        }
        let paths = Paths::new(labels, scores.classes - 1, merge);
        let (forward, backward) = (paths.forward(&log_y), paths.backward(&log_y));
        let log_p = (forward[0].iter().zip(&backward[0]))
            .fold(f64::NEG_INFINITY, |sum, (a, b)| log_add(sum, a + b));
        to_loss[b] = T::from_f64(-log_p);
        for (t, log_y) in log_y.iter().enumerate() {
            stop.tick()?;
            let mut of_class = vec![f64::NEG_INFINITY; scores.classes];
            for (u, label) in paths.labels.iter().enumerate() {
                of_class[*label] = log_add(of_class[*label], forward[t][u] + backward[t][u]);
            }
            let to = &mut to_gradient[(t * scores.batch() + b) * scores.classes..];
            for ((to, y), sum) in to.iter_mut().zip(log_y).zip(of_class) {
                let posterior = match log_p == f64::NEG_INFINITY {
                    true => 0.0,
                    false => (sum - log_p).exp(),
                };
                *to = T::from_f64(y.exp() - posterior);
            }
        }
    }
    Ok(vec![loss, gradient])
}

/// The labels of each sequence, in order.
fn labels<T: Number>(
    cx: &TensorCx<'_>,
    scores: &Scores<'_, T>,
    collapse: bool,
) -> Result<Vec<Vec<usize>>, KernelError> {
    let (indices, values) = (cx.slice::<i64>(1)?, cx.slice::<i32>(2)?);
    if indices.len() != 2 * values.len() {
        return Err(KernelError::Invalid(format!(
            "labels_indices has {} numbers for {} labels: give a row and a column for each",
            indices.len(),
            values.len()
        )));
    }
    let mut rows = vec![Vec::new(); scores.batch()];
    for (element, (place, value)) in indices.chunks_exact(2).zip(values).enumerate() {
        let wrong = |input: usize, reason: String| KernelError::Element {
            input,
            element,
            reason,
        };
        let row = usize::try_from(place[0]).ok();
        let row: &mut Vec<usize> = row.and_then(|row| rows.get_mut(row)).ok_or_else(|| {
            let batch = scores.batch();
            wrong(
                1,
                format!(
                    "label batch index {} is not within a batch of {batch}",
                    place[0]
                ),
            )
        })?;
        // The last class is the blank.
        let label = usize::try_from(*value).ok();
        let label = label.filter(|l| l + 1 < scores.classes).ok_or_else(|| {
            let classes = scores.classes - 1;
            wrong(2, format!("label {value} is not one of {classes}: Saw a non-null label (index >= num_classes - 1)"))
        })?;
        if !(collapse && row.last() == Some(&label)) {
            row.push(label);
        }
    }
    Ok(rows)
}
