//! FusedBatchNorm, FusedBatchNormV2, FusedBatchNormV3, their gradients, and a fused op with an epilogue.

mod attributes;
mod gradient_of_gradient;
mod kernels;
mod side_and_activation;

use self::attributes::{FACTOR, axis_of};
use smallvec::smallvec;
use thalweg_device::{Kernel, Op, cpu, gpu};
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, GradientFn, arg, arg_of, bool_attr, float_attr, str_attr, type_attr,
};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use self::gradient_of_gradient::second_gradient;
use self::kernels::{backward, forward, view, with_epilogue};
use self::side_and_activation::{ACTIVATION, NUM_SIDE_INPUTS, NormEpilogue, SIDE_INPUT};
use super::conv2d::FORMAT;

const HALVES_AND_F32: &[DType] = &[DType::F16, DType::BF16, DType::F32];
const F32: &[DType] = &[DType::F32];

const EPSILON: AttrDef = float_attr("epsilon", 1e-4);
const TRAINING: AttrDef = bool_attr("is_training", true);
/// With the formats of volumes.
const FORMAT_V3: AttrDef = str_attr("data_format", "NHWC", &["NHWC", "NCHW", "NDHWC", "NCDHW"]);

const ATTRS: &[AttrDef] = &[type_attr("T", F32), EPSILON, FACTOR, FORMAT, TRAINING];
const ATTRS_V2: &[AttrDef] = &[
    type_attr("T", HALVES_AND_F32),
    type_attr("U", F32),
    EPSILON,
    FACTOR,
    FORMAT,
    TRAINING,
];
const ATTRS_V3: &[AttrDef] = &[
    type_attr("T", HALVES_AND_F32),
    type_attr("U", &[DType::BF16, DType::F32]),
    EPSILON,
    FACTOR,
    FORMAT_V3,
    TRAINING,
];
const GRAD_ATTRS: &[AttrDef] = &[type_attr("T", F32), EPSILON, FORMAT, TRAINING];
const GRAD_ATTRS_V2: &[AttrDef] = &[
    type_attr("T", HALVES_AND_F32),
    type_attr("U", F32),
    EPSILON,
    FORMAT,
    TRAINING,
];
const GRAD_ATTRS_V3: &[AttrDef] = &[
    type_attr("T", HALVES_AND_F32),
    type_attr("U", F32),
    EPSILON,
    FORMAT_V3,
    TRAINING,
];

const INPUTS_V2: &[Arg] = &[
    arg("x", "T"),
    arg("scale", "U"),
    arg("offset", "U"),
    arg("mean", "U"),
    arg("variance", "U"),
];
const INPUTS_EX: &[Arg] = &[
    INPUTS_V2[0],
    INPUTS_V2[1],
    INPUTS_V2[2],
    INPUTS_V2[3],
    INPUTS_V2[4],
    arg("side_input", "T").list(NUM_SIDE_INPUTS.name),
];
const OUTPUTS_V3: &[Arg] = &[
    arg("y", "T"),
    arg("batch_mean", "U"),
    arg("batch_variance", "U"),
    arg("reserve_space_1", "U"),
    arg("reserve_space_2", "U"),
    arg("reserve_space_3", "U"),
];
const GRAD_INPUTS_V3: &[Arg] = &[
    arg("y_backprop", "T"),
    arg("x", "T"),
    arg_of("scale", DType::F32),
    arg("reserve_space_1", "U"),
    arg("reserve_space_2", "U"),
    arg("reserve_space_3", "U"),
];

/// Number of channels, as a vector's shape, merged from `images` and from each of `inputs`, which are vectors.
fn channels_of(cx: &Infer<'_>, images: &Shape, inputs: &[usize]) -> Result<Shape, InferError> {
    let (axis, _) = axis_of(cx.attrs());
    let mut channels = Shape::partial([images.dim(axis)]);
    for &i in inputs {
        let own = cx.ranked(i, 1)?;
        channels = channels.merge(&own).ok_or_else(|| InferError::Mismatch {
            what: format!(
                "input {i} must have an element for each channel, which is dimension {axis} in {}",
                cx.attrs().str("data_format")
            ),
            left: own.clone(),
            right: channels.clone(),
        })?;
    }
    Ok(channels)
}

/// Shape of the images, with this number of channels.
fn with_channels(cx: &Infer<'_>, images: &Shape, channels: &Shape) -> Shape {
    let (axis, _) = axis_of(cx.attrs());
    let dims = images.dims().unwrap_or_default().iter().enumerate();
    Shape::partial(dims.map(|(i, d)| if i == axis { channels.dim(0) } else { *d }))
}

fn forward_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let images = cx.ranked(0, axis_of(cx.attrs()).1)?;
    let mut inputs = vec![1, 2];
    for i in [3, 4] {
        // An unused input may be empty.
        let unused = cx.attrs().bool("is_training") && cx.attrs().float(FACTOR.name) == 1.0;
        if !(unused && cx.ranked(i, 1)?.dim(0).is_none_or(|n| n == 0)) {
            inputs.push(i);
        }
    }
    let channels = channels_of(cx, &images, &inputs)?;
    cx.set(0, with_channels(cx, &images, &channels));
    (1..5).for_each(|i| cx.set(i, channels.clone()));
    cx.set(5, Shape::scalar());
    Ok(())
}

fn backward_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let rank = axis_of(cx.attrs()).1;
    cx.ranked(0, rank)?;
    cx.ranked(1, rank)?;
    // Rank 4 even if neither shape is known.
    let images = cx.same(0, 1)?;
    let images = images.merge(&Shape::of_rank(rank)).unwrap_or(images);
    let channels = channels_of(cx, &images, &[2, 3, 4])?;
    cx.set(0, with_channels(cx, &images, &channels));
    (1..3).for_each(|i| cx.set(i, channels.clone()));
    (3..5).for_each(|i| cx.set(i, Shape::known(&[0])));
    Ok(())
}

/// Gradients by the op of this name, for the images, the scale and the offset.
macro_rules! gradient_rule {
    ($name:literal) => {{
        const RULE: GradientFn = |g| {
            let Some(dy) = g.dy(0) else {
                return smallvec![];
            };
            // The mean and variance that were used.
            let used = match g.attrs().bool("is_training") {
                true => [g.output(3), g.output(4)],
                false => [g.input(3), g.input(4)],
            };
            let node = g
                .graph()
                .op($name)
                .input(dy)
                .input(g.input(0))
                .input(g.input(1));
            let node = node.inputs(used);
            let node = match $name {
                "FusedBatchNormGradV3" => node.input(g.output(5)),
                _ => node,
            };
            let copied = ["epsilon", "data_format", "is_training"];
            let node = copied
                .iter()
                .fold(node, |node, name| match g.attrs().get(name) {
                    Some(value) => node.attr(*name, value.clone()),
                    None => node,
                });
            let node = node.build();
            smallvec![
                Some(node.output(0)),
                Some(node.output(1)),
                Some(node.output(2))
            ]
        };
        Gradient::Rule(RULE)
    }};
}

const GPU_KERNEL: Kernel =
    gpu(|p| crate::gpu::batch_norm(p, &view(p)?, (None, false))).in_place(&[(0, 0)]);
const GRAD_GPU_KERNEL: Kernel =
    gpu(|p| Ok(crate::gpu::batch_norm_grad(p, &view(p)?, None))).in_place(&[(0, 0)]);

const SUMMARY: &str = "Images whose channels are normalized to mean offset and standard deviation scale: by their own mean and variance in training, by given ones otherwise.";

/// Batch normalization of `f32`.
pub(crate) static FUSED_BATCH_NORM: Op = Op {
    def: OpDef {
        name: "FusedBatchNorm",
        summary: SUMMARY,
        inputs: &[
            arg("x", "T"),
            arg("scale", "T"),
            arg("offset", "T"),
            arg("mean", "T"),
            arg("variance", "T"),
        ],
        outputs: &[
            arg("y", "T"),
            arg("batch_mean", "T"),
            arg("batch_variance", "T"),
            arg("reserve_space_1", "T"),
            arg("reserve_space_2", "T"),
        ],
        attrs: ATTRS,
        shape: forward_shape,
        gradient: gradient_rule!("FusedBatchNormGrad"),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(forward).in_place(&[(0, 0)]), GPU_KERNEL],
};

/// Batch normalization, also of halves.
pub(crate) static FUSED_BATCH_NORM_V2: Op = Op {
    def: OpDef {
        name: "FusedBatchNormV2",
        summary: SUMMARY,
        inputs: INPUTS_V2,
        outputs: OUTPUTS_V3.split_at(5).0,
        attrs: ATTRS_V2,
        shape: forward_shape,
        gradient: gradient_rule!("FusedBatchNormGradV2"),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(forward).in_place(&[(0, 0)]), GPU_KERNEL],
};

/// Batch normalization, also of volumes.
pub(crate) static FUSED_BATCH_NORM_V3: Op = Op {
    def: OpDef {
        name: "FusedBatchNormV3",
        summary: SUMMARY,
        inputs: INPUTS_V2,
        outputs: OUTPUTS_V3,
        attrs: ATTRS_V3,
        shape: forward_shape,
        gradient: gradient_rule!("FusedBatchNormGradV3"),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(forward).in_place(&[(0, 0)]).only(&[("U", F32)]),
        GPU_KERNEL.only(&[("U", F32)]),
    ],
};

/// Batch normalization, followed by an addition and an activation. Created by the planner.
pub static FUSED_BATCH_NORM_EX: Op = Op {
    def: OpDef {
        name: "_FusedBatchNormEx",
        summary: "Batch normalization, plus an optional tensor, and an activation.",
        inputs: INPUTS_EX,
        outputs: OUTPUTS_V3,
        attrs: &[
            type_attr("T", HALVES_AND_F32),
            type_attr("U", F32),
            EPSILON,
            FACTOR,
            FORMAT_V3,
            TRAINING,
            NUM_SIDE_INPUTS,
            ACTIVATION,
        ],
        shape: forward_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(with_epilogue)
            .in_place(&[(0, 0), (SIDE_INPUT, 0)])
            .only(&[("T", F32)]),
        gpu(|p| crate::gpu::batch_norm(p, &view(p)?, NormEpilogue::of(&p.node.attrs)?.parts()))
            .in_place(&[(0, 0), (SIDE_INPUT, 0)]),
    ],
};

/// Gradient of [`FUSED_BATCH_NORM_EX`] with a ReLU and without a side input, from the gradient behind the ReLU. Created by
/// the planner, on GPUs.
pub static FUSED_BATCH_NORM_GRAD_EX: Op = Op {
    def: OpDef {
        name: "_FusedBatchNormGradEx",
        summary: "The gradients of a batch normalization and a ReLU behind it.",
        inputs: &[
            GRAD_INPUTS_V3[0],
            GRAD_INPUTS_V3[1],
            GRAD_INPUTS_V3[2],
            GRAD_INPUTS_V3[3],
            GRAD_INPUTS_V3[4],
            GRAD_INPUTS_V3[5],
            arg_of("offset", DType::F32),
        ],
        outputs: FUSED_BATCH_NORM_GRAD_V3.def.outputs,
        attrs: GRAD_ATTRS_V3,
        shape: backward_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[gpu(|p| Ok(crate::gpu::batch_norm_grad(p, &view(p)?, Some(6)))).in_place(&[(0, 0)])],
};

const GRAD_SUMMARY: &str = "The gradients of FusedBatchNorm with respect to its images, its scale and its offset, from the mean and the variance that it has used.";

/// Gradient of [`FUSED_BATCH_NORM`].
pub(crate) static FUSED_BATCH_NORM_GRAD: Op = Op {
    def: OpDef {
        name: "FusedBatchNormGrad",
        summary: GRAD_SUMMARY,
        inputs: &[
            arg("y_backprop", "T"),
            arg("x", "T"),
            arg("scale", "T"),
            arg("reserve_space_1", "T"),
            arg("reserve_space_2", "T"),
        ],
        outputs: &[
            arg("x_backprop", "T"),
            arg("scale_backprop", "T"),
            arg("offset_backprop", "T"),
            arg("reserve_space_3", "T"),
            arg("reserve_space_4", "T"),
        ],
        attrs: GRAD_ATTRS,
        shape: backward_shape,
        gradient: Gradient::Rule(second_gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(backward).in_place(&[(0, 0)]), GRAD_GPU_KERNEL],
};

/// Gradient of [`FUSED_BATCH_NORM_V2`].
pub(crate) static FUSED_BATCH_NORM_GRAD_V2: Op = Op {
    def: OpDef {
        name: "FusedBatchNormGradV2",
        summary: GRAD_SUMMARY,
        inputs: GRAD_INPUTS_V3.split_at(5).0,
        outputs: &[
            arg("x_backprop", "T"),
            arg("scale_backprop", "U"),
            arg("offset_backprop", "U"),
            arg("reserve_space_3", "U"),
            arg("reserve_space_4", "U"),
        ],
        attrs: GRAD_ATTRS_V2,
        shape: backward_shape,
        gradient: Gradient::Rule(second_gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(backward).in_place(&[(0, 0)]), GRAD_GPU_KERNEL],
};

/// Gradient of [`FUSED_BATCH_NORM_V3`].
pub(crate) static FUSED_BATCH_NORM_GRAD_V3: Op = Op {
    def: OpDef {
        name: "FusedBatchNormGradV3",
        summary: GRAD_SUMMARY,
        inputs: GRAD_INPUTS_V3,
        outputs: &[
            arg("x_backprop", "T"),
            arg("scale_backprop", "U"),
            arg("offset_backprop", "U"),
            arg("reserve_space_4", "U"),
            arg("reserve_space_5", "U"),
        ],
        attrs: GRAD_ATTRS_V3,
        shape: backward_shape,
        gradient: Gradient::Rule(second_gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(backward).in_place(&[(0, 0)]), GRAD_GPU_KERNEL],
};
