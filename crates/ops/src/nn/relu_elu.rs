//! Relu, Relu6, Elu, LeakyRelu, and their gradients.

use smallvec::smallvec;
use thalweg_device::{Kernel, KernelError, Op, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, float_attr, type_attr, type_attr_or};
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::DType;

use crate::support::elementwise::{binary, computed, rounding, unary};
use crate::support::shapes;
use thalweg_cpu::number::{Arithmetic, Number, Wide};

/// Node `op(gradients, values)` with the attributes of the differentiated node.
fn gradient_node<'g>(
    g: &GradCx<'_, 'g>,
    op: &str,
    gradients: Output<'g>,
    values: Output<'g>,
) -> Output<'g> {
    let node = g.graph().op(op).input(gradients).input(values);
    match g.attrs().get("alpha") {
        Some(alpha) => node.attr("alpha", alpha.clone()).output(),
        None => node.output(),
    }
}

/// `max(x, 0)`; NaN stays NaN.
#[inline(always)]
fn relu<T: Number>(x: T) -> T {
    let zero = T::ZERO;
    if x < zero { zero } else { x }
}

const NUMBERS: &[AttrDef] = &[type_attr("T", DType::NUMBERS)];
const FLOATS: &[AttrDef] = &[type_attr("T", DType::FLOATS)];

/// `max(x, 0)`; NaN stays NaN.
pub(crate) static RELU: Op = Op {
    def: OpDef {
        name: "Relu",
        summary: "The maximum of each element and 0.",
        inputs: &[arg("features", "T")],
        outputs: &[arg("activations", "T")],
        attrs: NUMBERS,
        shape: shapes::unchanged,
        // From the output, which is 0 exactly where the input is not positive, so that the input need not be
        // kept.
        gradient: Gradient::Rule(|g| {
            smallvec![Some(gradient_node(g, "ReluGrad", g.grad(), g.output(0)))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), NUMBERS, T => Ok(unary::<T>(p, relu)), else
            Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// The gradient where the feature is positive, 0 elsewhere.
pub(crate) static RELU_GRAD: Op = Op {
    def: OpDef {
        name: "ReluGrad",
        summary: "The gradient of Relu.",
        inputs: &[arg("gradients", "T"), arg("features", "T")],
        outputs: &[arg("backprops", "T")],
        attrs: NUMBERS,
        shape: shapes::all_the_same,
        gradient: Gradient::Rule(|g| {
            smallvec![Some(gradient_node(g, "ReluGrad", g.grad(), g.input(1))), None]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        computed!(p.dtype(0), NUMBERS, T => Ok(binary::<T>(p, |g, x| if x > T::ZERO { g } else { T::ZERO })), else
            Err(KernelError::DType(p.dtype(0))))
    })
    .in_place(&[(0, 0), (1, 0)]), gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)])],
};

/// The gradient of Relu for the sum of two gradients. Created by the planner, on GPUs.
pub static RELU_GRAD_SUM: Op = Op {
    def: OpDef {
        name: "_ReluGradSum",
        summary: "The gradient of Relu for the sum of two gradients.",
        inputs: &[arg("left", "T"), arg("right", "T"), arg("features", "T")],
        outputs: &[arg("backprops", "T")],
        attrs: NUMBERS,
        shape: |cx| {
            cx.same(0, 1)?;
            let shape = cx.same(0, 2)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[gpu(|p| Ok(crate::gpu::relu_grad_sum(p))).in_place(&[(0, 0), (1, 0), (2, 0)])],
};

/// `min(max(x, 0), 6)`; NaN stays NaN.
pub(crate) static RELU_6: Op = Op {
    def: OpDef {
        name: "Relu6",
        summary: "Each element, clipped to the range from 0 to 6.",
        inputs: &[arg("features", "T")],
        outputs: &[arg("activations", "T")],
        attrs: NUMBERS,
        shape: shapes::unchanged,
        gradient: Gradient::Rule(|g| {
            smallvec![Some(gradient_node(g, "Relu6Grad", g.grad(), g.output(0)))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), NUMBERS, T => {
            let six = T::from_f64(6.0);
            Ok(unary::<T>(p, move |x| {
                let x = relu(x);
                if x > six { six } else { x }
            }))
        }, else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// The gradient where the feature is above 0 and below 6, 0 elsewhere.
pub(crate) static RELU_6_GRAD: Op = Op {
    def: OpDef {
        name: "Relu6Grad",
        summary: "The gradient of Relu6.",
        inputs: &[arg("gradients", "T"), arg("features", "T")],
        outputs: &[arg("backprops", "T")],
        attrs: NUMBERS,
        shape: shapes::all_the_same,
        gradient: Gradient::Rule(|g| {
            smallvec![
                Some(gradient_node(g, "Relu6Grad", g.grad(), g.input(1))),
                None
            ]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), NUMBERS, T => {
            let six = T::from_f64(6.0);
            Ok(binary::<T>(p, move |g, x| if x > T::ZERO && x < six { g } else { T::ZERO }))
        }, else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// `x` if it is not negative, otherwise `exp(x) - 1`.
pub(crate) static ELU: Op = Op {
    def: OpDef {
        name: "Elu",
        summary: "Each element x, or exp(x) - 1 if it is negative.",
        inputs: &[arg("features", "T")],
        outputs: &[arg("activations", "T")],
        attrs: FLOATS,
        shape: shapes::unchanged,
        gradient: Gradient::Rule(|g| {
            smallvec![Some(gradient_node(g, "EluGrad", g.grad(), g.output(0)))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS, T => Ok(unary::<T>(p, |x| {
            if x < T::ZERO { Wide::exp_m1(x) } else { x }
        })), else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// The gradient, multiplied by the output plus 1 where the output is negative.
pub(crate) static ELU_GRAD: Op = Op {
    def: OpDef {
        name: "EluGrad",
        summary: "The gradient of Elu, from its outputs.",
        inputs: &[arg("gradients", "T"), arg("outputs", "T")],
        outputs: &[arg("backprops", "T")],
        attrs: FLOATS,
        shape: shapes::all_the_same,
        gradient: Gradient::Rule(|g| {
            let (graph, y, d) = (g.graph(), g.input(1), g.grad());
            let by_output = d * g.input(0);
            let zeros = graph.op("ZerosLike").input(y).output();
            let negative = graph
                .op("Less")
                .input(y)
                .input(y.constant_like(0))
                .output();
            let chosen = graph.op("SelectV2").input(negative);
            let by_output = chosen.input(by_output).input(zeros).output();
            smallvec![Some(gradient_node(g, "EluGrad", d, y)), Some(by_output)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS, T => {
                let dtype = p.dtype(0);
                if !matches!(dtype, DType::F16 | DType::BF16) {
                    return Ok(binary::<T>(p, |g, y| if y < T::ZERO { g * (y + T::ONE) } else { g }));
                }
                let round = rounding::<T>(dtype);
                Ok(binary::<T>(p, move |g, y| if y < T::ZERO { g * round(y + T::ONE) } else { g }))
            }, else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};

const LEAKY: &[AttrDef] = &[
    float_attr("alpha", 0.2),
    type_attr_or("T", DType::FLOATS, DType::F32),
];

const LEAKY_KERNEL: Kernel = cpu(|p| {
    let alpha = f64::from(p.node.attrs.float("alpha"));
    computed!(p.dtype(0), FLOATS, T => {
        let alpha = rounding::<T>(p.dtype(0))(T::from_f64(alpha));
        Ok(unary::<T>(p, move |x| if x > T::ZERO { x } else { x.mul(alpha) }))
    }, else Err(KernelError::DType(p.dtype(0))))
})
.in_place(&[(0, 0)]);

/// `x` if it is positive, otherwise `alpha * x`.
pub(crate) static LEAKY_RELU: Op = Op {
    def: OpDef {
        name: "LeakyRelu",
        summary: "Each element x, or alpha x if it is negative.",
        inputs: &[arg("features", "T")],
        outputs: &[arg("activations", "T")],
        attrs: LEAKY,
        shape: shapes::unchanged,
        gradient: Gradient::Rule(|g| {
            smallvec![Some(gradient_node(
                g,
                "LeakyReluGrad",
                g.grad(),
                g.input(0)
            ))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[LEAKY_KERNEL, gpu(crate::gpu::unary).in_place(&[(0, 0)])],
};

/// The gradient where the feature is positive, alpha times it elsewhere.
pub(crate) static LEAKY_RELU_GRAD: Op = Op {
    def: OpDef {
        name: "LeakyReluGrad",
        summary: "The gradient of LeakyRelu.",
        inputs: &[arg("gradients", "T"), arg("features", "T")],
        outputs: &[arg("backprops", "T")],
        attrs: LEAKY,
        shape: shapes::all_the_same,
        gradient: Gradient::Rule(|g| {
            smallvec![
                Some(gradient_node(g, "LeakyReluGrad", g.grad(), g.input(1))),
                None
            ]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let alpha = f64::from(p.node.attrs.float("alpha"));
            computed!(p.dtype(0), FLOATS, T => {
            let alpha = rounding::<T>(p.dtype(0))(T::from_f64(alpha));
            Ok(binary::<T>(p, move |g, x| if x > T::ZERO { g } else { g.mul(alpha) }))
        }, else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};
