//! Fill, ZerosLike, OnesLike, Empty.

use smallvec::smallvec;
use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, Op, Prepared, cpu, cpu_tensors, gpu, on_host};
use thalweg_graph::op::{Gradient, arg, arg_of, bool_attr, type_attr, type_attr_or};
use thalweg_graph::{OpDef, scalar_of};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape, dispatch};

use crate::flow::variant_sum;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{checked_shape, described_shape, ints_per_dim, invalid_value};
use crate::support::shapes;
use crate::support::widened::as_uints;

/// A tensor filled with one value.
pub(crate) static FILL: Op = Op {
    def: OpDef {
        name: "Fill",
        summary: "A tensor of the given dimensions with one value everywhere.",
        inputs: &[arg("dims", "index_type").host(), arg("value", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("index_type", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            shapes::expect_scalar(cx, 1)?;
            let shape = described_shape(cx, 0)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let flat = g.graph().op("Const").attr("dtype", DType::I32);
            let flat = flat
                .attr("value", thalweg_tensor::Tensor::from([-1i32]))
                .output();
            let flat = g.graph().op("Reshape").input(g.grad()).input(flat).output();
            let axis = g.graph().op("Const").attr("dtype", DType::I32);
            let axis = axis
                .attr("value", thalweg_tensor::Tensor::from([0i32]))
                .output();
            smallvec![
                None,
                Some(g.graph().op("Sum").input(flat).input(axis).output())
            ]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(FILL, "T"),
        cpu(|p| {
            as_uints(p, &[1], &[0], &|p| {
                dispatch!(p.dtype(1), SIZES, T => Ok(Prepared::new(p.outputs[0].elements(), |cx| {
            let value = cx.input::<T>(1)?;
            let value = *value.first().ok_or(KernelError::Argument("a value"))?;
            cx.output::<T>(0)?.fill(value);
            Ok(())
        })), else Err(KernelError::DType(p.dtype(1))))
            })
        }),
        gpu(crate::gpu::fill),
    ],
};

/// Dtypes of ZerosLike: numbers, bools, strings (empty ones), and variants (lists and optionals).
const ZEROED: &[DType] = &DType::joined::<22>(DType::ELEMENTS, &[DType::Variant]);

/// Zeros with the shape and dtype of the input.
pub(crate) static ZEROS_LIKE: Op = Op {
    def: OpDef {
        name: "ZerosLike",
        summary: "Zeros in the dtype and shape of the input.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: &[type_attr("T", ZEROED)],
        shape: shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![variant_sum::zeros_like(cx, cx.tensor(0)?)?]))
            .only(&[("T", &[DType::String, DType::Variant])]),
        on_host().only(&[("T", &[DType::Variant])]),
        cpu(|p| {
            as_uints(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), SIZES, T => Ok(Prepared::new(p.outputs[0].elements(), |cx| {
            cx.output::<T>(0)?.fill(T::default());
            Ok(())
        })), else Err(KernelError::DType(p.dtype(0))))
            })
        })
        .only(&[("T", DType::PLAIN)]),
        gpu(crate::gpu::zeros).only(&[("T", DType::PLAIN)]),
    ],
};

/// Ones with the shape and dtype of the input.
pub(crate) static ONES_LIKE: Op = Op {
    def: OpDef {
        name: "OnesLike",
        summary: "Ones in the dtype and shape of the input.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: &[type_attr("T", DType::PLAIN)],
        shape: |cx| {
            shapes::unchanged(cx)?;
            // The seed of a scalar loss's gradient: its value is known, so that products with it are folded.
            if cx.shape(0).rank() == Some(0)
                && let Some(one) = scalar_of(cx.dtype(0), 1.0)
            {
                cx.set_value(0, one);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let n = p.outputs[0].elements();
            dispatch!(p.dtype(0), ALL_NUMBERS, T => Ok(Prepared::new(n, |cx| {
                cx.output::<T>(0)?.fill(T::ONE);
                Ok(())
            })), else match p.dtype(0) {
                DType::Bool => Ok(Prepared::new(n, |cx| {
                    cx.output::<bool>(0)?.fill(true);
                    Ok(())
                })),
                other => Err(KernelError::DType(other)),
            })
        }),
        gpu(crate::gpu::ones),
    ],
};

/// A tensor whose elements have no defined value.
pub(crate) static EMPTY: Op = Op {
    def: OpDef {
        name: "Empty",
        summary: "A tensor of a shape, whose elements mean nothing; here they are zeros.",
        inputs: &[arg_of("shape", DType::I32).host()],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            type_attr("dtype", DType::ELEMENTS),
            bool_attr("init", false),
        ],
        shape: |cx| {
            let shape = match ints_per_dim(cx, 0)? {
                Some(dims) => {
                    if let Some(bad) = dims.iter().find(|&&d| d < 0) {
                        return Err(invalid_value(
                            0,
                            format!("{bad} is no length of a dimension"),
                        ));
                    }
                    checked_shape(0, Shape::from(dims))?
                }
                None => cx.shape(0).dim(0).map_or(Shape::unknown(), Shape::of_rank),
            };
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu_tensors(|cx| {
            let dims: Option<Vec<usize>> = cx
                .ints(0)?
                .into_iter()
                .map(|d| usize::try_from(d).ok())
                .collect();
            let dims = dims.ok_or(KernelError::Argument("a shape"))?;
            let strings = std::iter::repeat_n("", elements(&dims));
            Ok(vec![cx.strings_of(&dims, strings)?])
        })
        .only(&[("dtype", &[DType::String])]),
        cpu(|p| {
            let (n, dtype) = (p.outputs[0].elements(), p.outputs[0].dtype);
            Ok(Prepared::new(n, move |cx| {
                // `output::<bool>` sets all elements to false.
                match dtype {
                    DType::Bool => drop(cx.output::<bool>(0)?),
                    _ => cx.output_bytes(0)?.fill(0),
                }
                Ok(())
            }))
        }),
    ],
};
