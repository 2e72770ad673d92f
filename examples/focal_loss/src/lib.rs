//! FocalLoss: an op of one's own, as a crate beside Thalweg.
//!
//! The focal loss (Lin et al., 2017) is a cross entropy of one class that weighs well-classified examples down. Built of
//! Thalweg's ops it takes a dozen nodes, each with a pass over memory; as an op it takes one pass.
//!
//! ```
//! use focal_loss::{FocalLoss, ops};
//! use thalweg::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ops = ops()?;
//! let g = Graph::with_ops(&ops);
//! let w = g.variable("w", 1.0f32);
//! let logits = w * g.constant([2.0f32, -1.0]);
//! let targets = g.constant([1.0f32, 0.0]);
//! let loss = FocalLoss::default().of(logits, targets).mean();
//! let train = GradientDescent::new(0.1).minimize(loss);
//!
//! let session = Session::with_options(&g, SessionOptions::new().ops(&ops))?;
//! session.run(g.initializers(), [])?;
//! let before: f32 = session.run(loss, [])?;
//! session.run(train, [])?;
//! assert!(session.run::<f32>(loss, [])? < before);
//! # Ok(())
//! # }
//! ```

use thalweg::cpu::number::Wide;
use thalweg::cpu::parallel::for_chunks;
use thalweg::device::gpu::{Launch, Source};
use thalweg::device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg::graph::op::{AttrDef, Gradient, InputGradients, arg, float_attr, type_attr};
use thalweg::graph::{GradCx, Infer, InferError, OpDef};
use thalweg::ops::{OpSet, OpSetError};
use thalweg::prelude::*;

/// All ops of Thalweg, and those of this crate.
///
/// # Errors
/// Another crate has ops of these names.
pub fn ops() -> Result<OpSet, OpSetError> {
    OpSet::new(OPS.iter().copied())
}

/// The ops of this crate, for a set that has ops of other crates too.
pub const OPS: &[&Op] = &[&FOCAL_LOSS, &FOCAL_LOSS_GRAD];

/// Builder of the focal loss.
#[derive(Clone, Copy, Debug)]
pub struct FocalLoss {
    /// The focus: 0 for the cross entropy; the larger, the less a well-classified example counts.
    pub gamma: f32,
    /// The weight of the targets that are 1; those that are 0 have the rest to 1.
    pub alpha: f32,
}

impl Default for FocalLoss {
    /// The values of the paper: a focus of 2, a weight of 0.25.
    fn default() -> FocalLoss {
        FocalLoss {
            gamma: 2.0,
            alpha: 0.25,
        }
    }
}

impl FocalLoss {
    /// The loss of each element, of logits and of targets from 0 to 1 in the same shape.
    pub fn of<'g>(self, logits: Output<'g>, targets: Output<'g>) -> Output<'g> {
        let node = logits.graph().op("FocalLoss").input(logits).input(targets);
        self.attributes(node).output()
    }

    fn attributes<'g>(
        self,
        node: thalweg::graph::NodeBuilder<'g>,
    ) -> thalweg::graph::NodeBuilder<'g> {
        node.attr("gamma", self.gamma).attr("alpha", self.alpha)
    }
}

const DTYPES: &[DType] = &[DType::F32, DType::F64];
const ATTRIBUTES: &[AttrDef] = &[
    type_attr("T", DTYPES),
    float_attr("gamma", 2.0),
    float_attr("alpha", 0.25),
];

/// The functions of both ops on a GPU.
static CUDA: Source = Source {
    name: "focal_loss",
    text: include_str!("focal_loss.cu"),
};

static FOCAL_LOSS: Op = Op {
    def: OpDef {
        name: "FocalLoss",
        summary: "The focal loss of logits and targets.",
        inputs: &[arg("logits", "T"), arg("targets", "T")],
        outputs: &[arg("loss", "T")],
        attrs: ATTRIBUTES,
        shape: one_shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| match p.dtype(0) {
            DType::F32 => Ok(loss_kernel::<f32>(p)),
            DType::F64 => Ok(loss_kernel::<f64>(p)),
            other => Err(KernelError::DType(other)),
        }),
        // Each element is written after it was read, so that an input and the output may be one buffer.
        gpu(|p| Ok(launch(p, 2, "FocalLoss").into())).in_place(&[(0, 0), (1, 0)]),
    ],
};

static FOCAL_LOSS_GRAD: Op = Op {
    def: OpDef {
        name: "FocalLossGrad",
        summary: "The gradient of FocalLoss to its logits.",
        inputs: &[
            arg("gradients", "T"),
            arg("logits", "T"),
            arg("targets", "T"),
        ],
        outputs: &[arg("backprops", "T")],
        attrs: ATTRIBUTES,
        shape: one_shape,
        // A second gradient is an error that names this op.
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| match p.dtype(0) {
            DType::F32 => Ok(gradient_kernel::<f32>(p)),
            DType::F64 => Ok(gradient_kernel::<f64>(p)),
            other => Err(KernelError::DType(other)),
        }),
        gpu(|p| Ok(launch(p, 3, "FocalLossGrad").into())),
    ],
};

/// The shape that all inputs share is that of the output.
fn one_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let mut shape = cx.shape(0).clone();
    for i in 1..cx.inputs() {
        shape = shape.merge(&cx.same(0, i)?).unwrap_or(shape);
    }
    cx.set(0, shape);
    Ok(())
}

/// The gradient to the logits; the targets have none.
fn gradient<'g>(cx: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let loss = FocalLoss {
        gamma: cx.attrs().float("gamma"),
        alpha: cx.attrs().float("alpha"),
    };
    let inputs = [cx.grad(), cx.input(0), cx.input(1)];
    let node = cx.input(0).graph().op("FocalLossGrad").inputs(inputs);
    InputGradients::from_iter([Some(loss.attributes(node).output()), None])
}

/// The parts of the loss of one element.
struct Parts<T> {
    /// The probability of the target 1.
    p: T,
    /// The probability of the other target.
    missed: T,
    weight: T,
    entropy: T,
}

impl<T: Wide> Parts<T> {
    fn of(x: T, t: T, alpha: T) -> Parts<T> {
        let (one, two) = (T::ONE, T::ONE + T::ONE);
        let p = one / (one + (-x).exp());
        // Without an exponential that overflows.
        let above = if x > T::ZERO { x } else { T::ZERO };
        let softplus = above + (-Wide::abs(x)).exp().ln_1p();
        Parts {
            p,
            missed: p + t - two * p * t,
            weight: alpha * t + (one - alpha) * (one - t),
            entropy: softplus - x * t,
        }
    }
}

/// Elements that a thread takes at once.
const CHUNK: usize = 4096;
/// Estimated nanoseconds of an element: an exponential, a logarithm and a power.
const NS_PER_ELEMENT: u64 = 12;

fn loss_kernel<T: Wide>(p: &Prepare<'_>) -> Prepared {
    // What does not change from run to run is done once, here.
    let gamma = T::from_f64(f64::from(p.node.attrs.float("gamma")));
    let alpha = T::from_f64(f64::from(p.node.attrs.float("alpha")));
    let elements = p.outputs[0].elements();
    let run = move |cx: &thalweg::device::KernelCx<'_>| {
        let loss = |x: T, t: T| {
            let parts = Parts::of(x, t, alpha);
            parts.weight * parts.missed.powf(gamma) * parts.entropy
        };
        let (x, t) = (cx.input::<T>(0)?, cx.input::<T>(1)?);
        let y = cx.output::<T>(0)?;
        for_chunks(cx.pool(), y, CHUNK, &|i, y| {
            let (x, t) = (&x[i * CHUNK..], &t[i * CHUNK..]);
            for ((y, &x), &t) in y.iter_mut().zip(x).zip(t) {
                *y = loss(x, t);
            }
        });
        Ok(())
    };
    Prepared::new(elements, run).with_cost(NS_PER_ELEMENT * elements as u64)
}

fn gradient_kernel<T: Wide>(p: &Prepare<'_>) -> Prepared {
    let gamma = T::from_f64(f64::from(p.node.attrs.float("gamma")));
    let alpha = T::from_f64(f64::from(p.node.attrs.float("alpha")));
    let elements = p.outputs[0].elements();
    let run = move |cx: &thalweg::device::KernelCx<'_>| {
        let slope = |x: T, t: T| {
            let parts = Parts::of(x, t, alpha);
            let (one, two) = (T::ONE, T::ONE + T::ONE);
            let of_missed = match parts.missed > T::ZERO {
                true => {
                    let slope = (one - two * t) * parts.p * (one - parts.p);
                    gamma * parts.missed.powf(gamma - one) * slope
                }
                false => T::ZERO,
            };
            let focus = parts.missed.powf(gamma);
            parts.weight * (of_missed * parts.entropy + focus * (parts.p - t))
        };
        let (dy, x, t) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.input::<T>(2)?);
        let dx = cx.output::<T>(0)?;
        for_chunks(cx.pool(), dx, CHUNK, &|i, dx| {
            let at = i * CHUNK;
            let inputs = dy[at..].iter().zip(&x[at..]).zip(&t[at..]);
            for (dx, ((&dy, &x), &t)) in dx.iter_mut().zip(inputs) {
                *dx = dy * slope(x, t);
            }
        });
        Ok(())
    };
    Prepared::new(elements, run).with_cost(2 * NS_PER_ELEMENT * elements as u64)
}

/// The launch of a function of the source, with the inputs, the output, their number of elements and the attributes.
fn launch(p: &Prepare<'_>, inputs: usize, function: &'static str) -> Launch {
    let elements = p.outputs[0].elements();
    let launch = Launch::over(elements, &CUDA, function, &[p.dtype(0)]);
    let launch = (0..inputs).fold(launch, Launch::input).output(0);
    let attrs = &p.node.attrs;
    launch
        .indices(&[elements])
        .value(attrs.float("gamma"))
        .value(attrs.float("alpha"))
}
