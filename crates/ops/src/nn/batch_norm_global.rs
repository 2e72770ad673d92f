//! BatchNormWithGlobalNormalization and its gradient: normalization with given means and variances, as in TensorFlow's
//! first graphs.

use thalweg_cpu::number::Wide;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Gradient, InputGradients, arg, attr, type_attr};
use thalweg_graph::{AttrKind, GradCx, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Tensor, dispatch};

const ATTRS: &[AttrDef] = &[
    type_attr("T", &[DType::F32, DType::F64]),
    attr("variance_epsilon", AttrKind::Float),
    attr("scale_after_normalization", AttrKind::Bool),
];

/// Checks that inputs 1 to `last` have a number for each channel.
fn channels(cx: &Infer<'_>, last: usize) -> Result<(), InferError> {
    let images = cx.ranked(0, 4)?;
    for i in 1..=last {
        let found = cx.ranked(i, 1)?;
        if let (Some(a), Some(b)) = (found.dim(0), images.dim(3))
            && a != b
        {
            return Err(InferError::Value {
                input: i,
                reason: format!("it has {a} elements for {b} channels"),
            });
        }
    }
    Ok(())
}

/// Inputs of a kernel: images, and numbers of each channel.
struct Operands<'a, T> {
    x: &'a [T],
    mean: &'a [T],
    variance: &'a [T],
    epsilon: T,
    scaled: bool,
}

impl<'a, T: Wide + Element> Operands<'a, T> {
    fn of(cx: &TensorCx<'a>) -> Result<Operands<'a, T>, KernelError> {
        let own = Operands {
            x: cx.slice(0)?,
            mean: cx.slice(1)?,
            variance: cx.slice(2)?,
            epsilon: T::from_f64(cx.attrs().float("variance_epsilon").into()),
            scaled: cx.attrs().bool("scale_after_normalization"),
        };
        let depth = cx.tensor(0)?.dims().last().copied().unwrap_or(0);
        match own.mean.len() == depth && own.variance.len() == depth {
            true => Ok(own),
            false => Err(KernelError::Argument("a number for each channel")),
        }
    }

    /// One divided by the deviation of channel `i`.
    fn inverse(&self, i: usize) -> T {
        T::ONE / (self.variance[i] + self.epsilon).sqrt()
    }
}

fn normalized<T: Wide + Element>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let own = Operands::<T>::of(cx)?;
    let (beta, gamma) = (cx.slice::<T>(3)?, cx.slice::<T>(4)?);
    let depth = own.mean.len();
    if beta.len() != depth || gamma.len() != depth {
        return Err(KernelError::Argument("a number for each channel"));
    }
    let scale = |i: usize| {
        if own.scaled {
            own.inverse(i) * gamma[i]
        } else {
            own.inverse(i)
        }
    };
    let scales: Vec<T> = (0..depth).map(scale).collect();
    let mut out = cx.zeros(T::DTYPE, cx.tensor(0)?.dims())?;
    for (i, (to, &x)) in out.as_mut_slice::<T>()?.iter_mut().zip(own.x).enumerate() {
        let channel = i % depth;
        *to = (x - own.mean[channel]) * scales[channel] + beta[channel];
    }
    Ok(vec![out])
}

fn gradients<T: Wide + Element>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let own = Operands::<T>::of(cx)?;
    let (gamma, dy) = (cx.slice::<T>(3)?, cx.slice::<T>(4)?);
    let depth = own.mean.len();
    if gamma.len() != depth || dy.len() != own.x.len() {
        return Err(KernelError::Argument("a number for each channel"));
    }
    let (mut sums, mut products) = (vec![T::ZERO; depth], vec![T::ZERO; depth]);
    for (i, (&x, &dy)) in own.x.iter().zip(dy).enumerate() {
        let channel = i % depth;
        sums[channel] = sums[channel] + dy;
        products[channel] = products[channel] + dy * (x - own.mean[channel]);
    }
    let gamma = |i: usize| if own.scaled { gamma[i] } else { T::ONE };
    let of_channels = |f: &dyn Fn(usize) -> T| {
        let all: Vec<T> = (0..depth).map(f).collect();
        cx.tensor_of(&[depth], &all)
    };
    let half = T::from_f64(-0.5);
    let to_variance = |i: usize| {
        let slope = own.inverse(i) * half / (own.variance[i] + own.epsilon);
        products[i] * slope * gamma(i)
    };
    let to_gamma = |i: usize| {
        if own.scaled {
            products[i] * own.inverse(i)
        } else {
            T::ZERO
        }
    };
    let mut dx = cx.zeros(T::DTYPE, cx.tensor(0)?.dims())?;
    for (i, (to, &dy)) in dx.as_mut_slice::<T>()?.iter_mut().zip(dy).enumerate() {
        *to = dy * own.inverse(i % depth) * gamma(i % depth);
    }
    Ok(vec![
        dx,
        of_channels(&|i| T::ZERO - sums[i] * own.inverse(i) * gamma(i))?,
        of_channels(&to_variance)?,
        of_channels(&|i| sums[i])?,
        of_channels(&to_gamma)?,
    ])
}

fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let inputs = [0, 1, 2, 4].map(|i| g.input(i));
    let node = g.graph().op("BatchNormWithGlobalNormalizationGrad");
    let mut node = node.inputs(inputs).input(g.grad());
    for name in ["variance_epsilon", "scale_after_normalization"] {
        if let Some(value) = g.attrs().get(name) {
            node = node.attr(name, value.clone());
        }
    }
    let node = node.build();
    (0..5).map(|i| Some(node.output(i))).collect()
}

/// Normalizes images.
pub(crate) static BATCH_NORM_GLOBAL: Op = Op {
    def: OpDef {
        name: "BatchNormWithGlobalNormalization",
        summary: "Images less the means of their channels, divided by their deviations, perhaps times gamma, plus beta.",
        inputs: &[
            arg("t", "T"),
            arg("m", "T"),
            arg("v", "T"),
            arg("beta", "T"),
            arg("gamma", "T"),
        ],
        outputs: &[arg("result", "T")],
        attrs: ATTRS,
        shape: |cx| {
            channels(cx, 4)?;
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, [F32 F64], T => normalized::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};

/// Gradient of the normalization.
pub(crate) static BATCH_NORM_GLOBAL_GRAD: Op = Op {
    def: OpDef {
        name: "BatchNormWithGlobalNormalizationGrad",
        summary: "The gradients of the inputs of a normalization with given means and variances.",
        inputs: &[
            arg("t", "T"),
            arg("m", "T"),
            arg("v", "T"),
            arg("gamma", "T"),
            arg("backprop", "T"),
        ],
        outputs: &[
            arg("dx", "T"),
            arg("dm", "T"),
            arg("dv", "T"),
            arg("db", "T"),
            arg("dg", "T"),
        ],
        attrs: ATTRS,
        shape: |cx| {
            channels(cx, 3)?;
            let images = cx.same(0, 4)?;
            cx.set(0, images);
            let channels = cx.shape(1).clone();
            (1..5).for_each(|i| cx.set(i, channels.clone()));
            Ok(())
        },
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, [F32 F64], T => gradients::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};
