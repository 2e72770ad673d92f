//! NonMaxSuppression, NonMaxSuppressionV2, V3, V4, V5: the best of boxes that overlap.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use half::f16;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, bool_attr, float_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::support::shape_inputs::{invalid_value, scalar_int};
use crate::support::shapes::expect_scalar;

const HALF_OR_FLOAT: &[DType] = &[DType::F16, DType::F32];
const T: AttrDef = type_attr_or("T", HALF_OR_FLOAT, DType::F32);
const THRESHOLD: AttrDef = type_attr_or("T_threshold", HALF_OR_FLOAT, DType::F32);
const PAD: AttrDef = bool_attr("pad_to_max_output_size", false);
const BOXES: Arg = arg("boxes", "T");
const SCORES: Arg = arg("scores", "T");
const MAX: Arg = arg_of("max_output_size", DType::I32);
const INDICES: Arg = arg_of("selected_indices", DType::I32);
const VALID: Arg = arg_of("valid_outputs", DType::I32);

/// A box that may be selected.
#[derive(Clone, Copy, PartialEq)]
struct Candidate {
    score: f32,
    index: usize,
    /// The selected boxes before this one have been compared with it.
    compared: usize,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    /// By score, then the first box.
    fn cmp(&self, other: &Candidate) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score.then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Area of the intersection of two boxes, divided by that of their union.
pub(super) fn overlap(a: [f32; 4], b: [f32; 4]) -> f32 {
    let low = |b: [f32; 4], axis: usize| b[axis].min(b[axis + 2]);
    let high = |b: [f32; 4], axis: usize| b[axis].max(b[axis + 2]);
    let area = |b| (high(b, 0) - low(b, 0)) * (high(b, 1) - low(b, 1));
    if area(a) <= 0.0 || area(b) <= 0.0 {
        return 0.0;
    }
    let shared =
        |axis| (high(a, axis).min(high(b, axis)) - low(a, axis).max(low(b, axis))).max(0.0);
    let both = shared(0) * shared(1);
    both / (area(a) + area(b) - both)
}

/// Numbers that decide what is selected.
pub(super) struct Rules {
    pub(super) most: usize,
    pub(super) overlap: f32,
    pub(super) score: f32,
    /// Overlapping boxes lose score, instead of being dropped, if it is more than 0.
    pub(super) sigma: f32,
}

/// Selected boxes and their scores; `overlap` is that of two boxes.
pub(super) fn select(
    overlap: &dyn Fn(usize, usize) -> f32,
    scores: &[f32],
    rules: &Rules,
) -> (Vec<i32>, Vec<f32>) {
    let soft = rules.sigma > 0.0;
    let scale = if soft { -0.5 / rules.sigma } else { 0.0 };
    let all = scores.iter().enumerate();
    let mut queue: BinaryHeap<Candidate> = all
        .filter(|(_, score)| **score > rules.score)
        .map(|(index, &score)| Candidate {
            score,
            index,
            compared: 0,
        })
        .collect();
    let mut selected: Vec<usize> = Vec::new();
    let mut kept = Vec::new();
    while selected.len() < rules.most
        && let Some(mut next) = queue.pop()
    {
        let (before, mut dropped) = (next.score, false);
        for &other in selected[next.compared..].iter().rev() {
            let similarity = overlap(next.index, other);
            if !soft && similarity > rules.overlap {
                dropped = true;
                break;
            }
            next.score *= (scale * similarity * similarity).exp();
            if next.score <= rules.score {
                break;
            }
        }
        next.compared = selected.len();
        if dropped {
            continue;
        }
        if next.score == before {
            selected.push(next.index);
            kept.push(next.score);
        } else if next.score > rules.score {
            queue.push(next);
        }
    }
    // A tensor has fewer rows than an i32 can count, or its boxes do not fit in memory.
    (selected.iter().map(|&i| i as i32).collect(), kept)
}

/// The number of scalar input `i`, or `default` if there is no such input.
fn number(cx: &TensorCx<'_>, name: &str, default: f32) -> Result<f32, KernelError> {
    let inputs = cx.node().op.inputs;
    let Some(i) = inputs.iter().position(|arg| arg.name == name) else {
        return Ok(default);
    };
    match *floats(cx, i)? {
        [x] => Ok(x),
        _ => Err(KernelError::Argument("a scalar")),
    }
}

/// The numbers of input `i`, which may be halves.
fn floats<'a>(cx: &TensorCx<'a>, i: usize) -> Result<Cow<'a, [f32]>, KernelError> {
    let tensor = cx.tensor(i)?;
    Ok(match tensor.dtype() {
        DType::F16 => {
            let halves = tensor.as_slice::<f16>()?;
            Cow::Owned(halves.iter().map(|x| x.to_f32()).collect())
        }
        _ => Cow::Borrowed(tensor.as_slice()?),
    })
}

fn run(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    let (boxes, scores) = (floats(cx, 0)?, floats(cx, 1)?);
    let (boxes, _) = boxes.as_chunks::<4>();
    if boxes.len() != scores.len() {
        return Err(KernelError::Invalid(format!(
            "there are {} boxes, but {} scores",
            boxes.len(),
            scores.len()
        )));
    }
    let most = match *cx.tensor(2)?.as_slice::<i32>()? {
        [n] if n >= 0 => n as usize,
        ref other => {
            return Err(KernelError::Invalid(format!(
                "max_output_size is {other:?}, but is a number of at least 0"
            )));
        }
    };
    let of_attr = match attrs.get("iou_threshold") {
        Some(_) => attrs.float("iou_threshold"),
        None => 0.0,
    };
    let rules = Rules {
        most,
        overlap: number(cx, "iou_threshold", of_attr)?,
        score: number(cx, "score_threshold", f32::MIN)?,
        sigma: number(cx, "soft_nms_sigma", 0.0)?,
    };
    if !(0.0..=1.0).contains(&rules.overlap) {
        return Err(KernelError::Invalid(format!(
            "iou_threshold is {}, but must be between 0 and 1",
            rules.overlap
        )));
    }
    let of_boxes = |a: usize, b: usize| overlap(boxes[a], boxes[b]);
    let (indices, kept) = select(&of_boxes, &scores, &rules);
    let pad = attrs.get(PAD.name).is_some() && attrs.bool(PAD.name);
    let length = if pad { most } else { indices.len() };
    let mut all = cx.zeros(DType::I32, &[length])?;
    all.as_mut_slice::<i32>()?[..indices.len()].copy_from_slice(&indices);
    let outputs = cx.node().op.outputs;
    let mut results = vec![all];
    if outputs.iter().any(|o| o.name == "selected_scores") {
        let dtype = cx.tensor(1)?.dtype();
        let mut all = cx.zeros(dtype, &[length])?;
        match dtype {
            DType::F16 => {
                let all = all.as_mut_slice::<f16>()?.iter_mut();
                all.zip(&kept).for_each(|(to, &x)| *to = f16::from_f32(x));
            }
            _ => all.as_mut_slice::<f32>()?[..kept.len()].copy_from_slice(&kept),
        }
        results.push(all);
    }
    if outputs.iter().any(|o| o.name == VALID.name) {
        results.push(cx.tensor_of(&[], &[indices.len() as i32])?);
    }
    Ok(results)
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (boxes, scores) = (cx.ranked(0, 2)?, cx.ranked(1, 1)?);
    let most = scalar_int(cx, 2)?;
    for i in 3..cx.inputs() {
        expect_scalar(cx, i)?;
    }
    if boxes.dim(1).is_some_and(|n| n != 4) {
        let text = "a box is two corners, so the second dimension must be 4";
        return Err(invalid_value(0, text));
    }
    if let (Some(a), Some(b)) = (boxes.dim(0), scores.dim(0))
        && a != b
    {
        return Err(invalid_value(1, format!("{b} scores for {a} boxes")));
    }
    let pad = cx.attrs().get(PAD.name).is_some() && cx.attrs().bool(PAD.name);
    let length = most.filter(|_| pad).and_then(|n| usize::try_from(n).ok());
    for i in 0..cx.outputs() {
        let shape = match cx.op().outputs[i].name == VALID.name {
            true => Shape::scalar(),
            false => Shape::partial([length]),
        };
        cx.set(i, shape);
    }
    Ok(())
}

/// An op of this kind.
const fn suppression(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [Arg],
    outputs: &'static [Arg],
    attrs: &'static [AttrDef],
) -> OpDef {
    OpDef {
        name,
        summary,
        inputs,
        outputs,
        attrs,
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    }
}

const SUMMARY: &str = "The numbers of the best boxes, without those that overlap a better one.";

/// The first version.
pub(crate) static NON_MAX_SUPPRESSION: Op = Op {
    def: suppression(
        "NonMaxSuppression",
        SUMMARY,
        &[
            arg_of("boxes", DType::F32),
            arg_of("scores", DType::F32),
            MAX,
        ],
        &[INDICES],
        &[float_attr("iou_threshold", 0.5)],
    ),
    kernels: &[cpu_tensors(run)],
};

const IOU: Arg = arg("iou_threshold", "T_threshold");

/// The threshold is an input.
pub(crate) static NON_MAX_SUPPRESSION_V2: Op = Op {
    def: suppression(
        "NonMaxSuppressionV2",
        SUMMARY,
        &[BOXES, SCORES, MAX, IOU],
        &[INDICES],
        &[T, THRESHOLD],
    ),
    kernels: &[cpu_tensors(run)],
};

const LEAST: Arg = arg("score_threshold", "T_threshold");

/// Boxes of a low score are dropped.
pub(crate) static NON_MAX_SUPPRESSION_V3: Op = Op {
    def: suppression(
        "NonMaxSuppressionV3",
        SUMMARY,
        &[BOXES, SCORES, MAX, IOU, LEAST],
        &[INDICES],
        &[T, THRESHOLD],
    ),
    kernels: &[cpu_tensors(run)],
};

/// The result can have a fixed length.
pub(crate) static NON_MAX_SUPPRESSION_V4: Op = Op {
    def: suppression(
        "NonMaxSuppressionV4",
        "The numbers of the best boxes, without those that overlap a better one, and how many there are.",
        &[BOXES, SCORES, MAX, IOU, LEAST],
        &[INDICES, VALID],
        &[T, THRESHOLD, PAD],
    ),
    kernels: &[cpu_tensors(run)],
};

/// Boxes that overlap a better one can lose score instead.
pub(crate) static NON_MAX_SUPPRESSION_V5: Op = Op {
    def: suppression(
        "NonMaxSuppressionV5",
        "The numbers and scores of the best boxes; those that overlap a better one are dropped, or lose score.",
        &[
            BOXES,
            SCORES,
            MAX,
            arg("iou_threshold", "T"),
            arg("score_threshold", "T"),
            arg("soft_nms_sigma", "T"),
        ],
        &[INDICES, arg("selected_scores", "T"), VALID],
        &[T, PAD],
    ),
    kernels: &[cpu_tensors(run)],
};
