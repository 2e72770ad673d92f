//! NonMaxSuppressionWithOverlaps, CombinedNonMaxSuppression.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg_of, bool_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::non_max_suppression::{Rules, overlap, select};
use crate::support::shape_inputs::invalid_value;
use crate::support::shapes::expect_scalar;

/// The number of scalar input `i`, which is not negative.
fn count(cx: &TensorCx<'_>, i: usize) -> Result<usize, KernelError> {
    let n = cx.int(i)?;
    usize::try_from(n).map_err(|_| {
        let name = cx.node().op.inputs[i].name;
        KernelError::Invalid(format!("{name} must be non-negative, and is {n}"))
    })
}

fn with_overlaps(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (overlaps, scores) = (cx.slice::<f32>(0)?, cx.slice::<f32>(1)?);
    let n = scores.len();
    if cx.tensor(0)?.dims() != [n, n] {
        return Err(KernelError::Invalid(format!(
            "overlaps {} must be square, with a row for each of {n} scores",
            cx.tensor(0)?.shape()
        )));
    }
    let rules = Rules {
        most: count(cx, 2)?,
        overlap: cx.tensor(3)?.to_scalar()?,
        score: cx.tensor(4)?.to_scalar()?,
        sigma: 0.0,
    };
    let (indices, _) = select(&|a, b| overlaps[a * n + b], scores, &rules);
    Ok(vec![cx.tensor_of(&[indices.len()], &indices)?])
}

/// Selects boxes whose overlaps are given.
pub(crate) static WITH_OVERLAPS: Op = Op {
    def: OpDef {
        name: "NonMaxSuppressionWithOverlaps",
        summary: "The numbers of the best boxes, without those that overlap a better one as a matrix says.",
        inputs: &[
            arg_of("overlaps", DType::F32),
            arg_of("scores", DType::F32),
            arg_of("max_output_size", DType::I32),
            arg_of("overlap_threshold", DType::F32),
            arg_of("score_threshold", DType::F32),
        ],
        outputs: &[arg_of("selected_indices", DType::I32)],
        shape: |cx| {
            cx.ranked(0, 2)?;
            cx.ranked(1, 1)?;
            (2..5).try_for_each(|i| expect_scalar(cx, i))?;
            cx.set(0, Shape::partial([None]));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(with_overlaps)],
};

/// A selected box of an image.
struct Detection {
    score: f32,
    class: usize,
    corners: [f32; 4],
}

/// The detections of one image, the best first.
fn detections(
    boxes: &[[f32; 4]],
    scores: &[f32],
    [classes, per_box]: [usize; 2],
    rules: &Rules,
) -> Vec<Detection> {
    let mut all = Vec::new();
    if boxes.is_empty() || scores.is_empty() {
        return all;
    }
    for class in 0..classes {
        let own: Vec<f32> = scores
            .iter()
            .skip(class)
            .step_by(classes)
            .copied()
            .collect();
        let corners = |i: usize| boxes[i * per_box + if per_box > 1 { class } else { 0 }];
        let (indices, kept) = select(&|a, b| overlap(corners(a), corners(b)), &own, rules);
        all.extend(indices.iter().zip(kept).map(|(&i, score)| Detection {
            score,
            class,
            corners: corners(i as usize),
        }));
    }
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    all
}

fn combined(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (&[batch, n, per_box, 4], &[images, rows, classes]) =
        (cx.tensor(0)?.dims(), cx.tensor(1)?.dims())
    else {
        return Err(KernelError::Argument("boxes and scores"));
    };
    if images != batch || rows != n || !(per_box == 1 || per_box == classes) {
        return Err(KernelError::Invalid(
            "boxes and scores must be of the same images and boxes, and have one box for each class or for all"
                .to_owned(),
        ));
    }
    let (most, total) = (count(cx, 2)?, count(cx, 3)?);
    let rules = Rules {
        most,
        overlap: cx.tensor(4)?.to_scalar()?,
        score: cx.tensor(5)?.to_scalar()?,
        sigma: 0.0,
    };
    if !(0.0..=1.0).contains(&rules.overlap) {
        return Err(KernelError::Invalid(format!(
            "iou_threshold must be in [0, 1], and is {}",
            rules.overlap
        )));
    }
    if total == 0 {
        return Err(KernelError::Invalid(
            "max_total_size must be > 0, and is 0".to_owned(),
        ));
    }
    let length = match cx.attrs().bool("pad_per_class") {
        true => total.min(most.saturating_mul(classes)),
        false => total,
    };
    let clip = cx.attrs().bool("clip_boxes");
    let mut corners = cx.zeros(DType::F32, &[batch, length, 4])?;
    let mut scores = cx.zeros(DType::F32, &[batch, length])?;
    let mut of_classes = cx.zeros(DType::F32, &[batch, length])?;
    let mut valid = cx.zeros(DType::I32, &[batch])?;
    let all_boxes = cx.slice::<f32>(0)?.as_chunks::<4>().0;
    let mut stop = cx.stop_check();
    for image in 0..batch {
        stop.tick()?;
        let boxes = &all_boxes[image * n * per_box..][..n * per_box];
        let own = &cx.slice::<f32>(1)?[image * n * classes..][..n * classes];
        let mut found = detections(boxes, own, [classes, per_box], &rules);
        found.truncate(length);
        valid.as_mut_slice::<i32>()?[image] = found.len() as i32;
        for (i, one) in found.iter().enumerate() {
            let at = image * length + i;
            let to = &mut corners.as_mut_slice::<f32>()?[at * 4..][..4];
            for (to, &x) in to.iter_mut().zip(&one.corners) {
                *to = if clip { x.clamp(0.0, 1.0) } else { x };
            }
            scores.as_mut_slice::<f32>()?[at] = one.score;
            of_classes.as_mut_slice::<f32>()?[at] = one.class as f32;
        }
    }
    Ok(vec![corners, scores, of_classes, valid])
}

fn combined_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (boxes, scores) = (cx.ranked(0, 4)?, cx.ranked(1, 3)?);
    (2..6).try_for_each(|i| expect_scalar(cx, i))?;
    if boxes.dim(3).is_some_and(|n| n != 4) {
        return Err(invalid_value(
            0,
            "a box is two corners, so the last dimension must be 4",
        ));
    }
    let batch = boxes.dim(0).or(scores.dim(0));
    cx.set(0, Shape::partial([batch, None, Some(4)]));
    cx.set(1, Shape::partial([batch, None]));
    cx.set(2, Shape::partial([batch, None]));
    cx.set(3, Shape::partial([batch]));
    Ok(())
}

/// Selects boxes of several classes and images.
pub(crate) static COMBINED: Op = Op {
    def: OpDef {
        name: "CombinedNonMaxSuppression",
        summary: "The best boxes of each image over all classes, without those that overlap a better one of their class.",
        inputs: &[
            arg_of("boxes", DType::F32),
            arg_of("scores", DType::F32),
            arg_of("max_output_size_per_class", DType::I32),
            arg_of("max_total_size", DType::I32),
            arg_of("iou_threshold", DType::F32),
            arg_of("score_threshold", DType::F32),
        ],
        outputs: &[
            arg_of("nmsed_boxes", DType::F32),
            arg_of("nmsed_scores", DType::F32),
            arg_of("nmsed_classes", DType::F32),
            arg_of("valid_detections", DType::I32),
        ],
        attrs: &[
            bool_attr("pad_per_class", false),
            bool_attr("clip_boxes", true),
        ],
        shape: combined_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(combined)],
};
