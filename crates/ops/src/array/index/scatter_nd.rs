//! ScatterNd, ScatterNdNonAliasingAdd, TensorScatterUpdate, TensorScatterAdd, TensorScatterSub, TensorScatterMax, TensorScatterMin.

use smallvec::smallvec;
use thalweg_cpu::number::Arithmetic;
use thalweg_device::gpu::Launches;
use thalweg_device::{
    InOut, Kernel, KernelError, Op, Prepare, Prepared, TensorCx, cpu, cpu_tensors, gpu,
};
use thalweg_graph::op::{AttrDef, Gradient, InputGradients, arg, type_attr};
use thalweg_graph::{GradCx, InferError, OpDef, Output};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Element, Shape, Tensor, dispatch};

use super::index_nd::{INDICES, POLICY, SliceIndexer, expect_slices, with_policy};
use crate::gpu::IndexedRows;
use crate::support::gradient_nodes::shape_of;
use crate::support::join_rows::{JoinRows, join_each};
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{checked_shape, ints_per_dim, invalid_value};
use crate::support::tensors::AccountedVec;
use crate::support::widened::{as_uints, widened_ints, with_i64_indices};

/// The slices of `x` at the indices of a node whose gradient is taken.
fn gathered<'g>(g: &GradCx<'_, 'g>, x: Output<'g>, indices: usize) -> Output<'g> {
    let node = g.graph().op("GatherNd").input(x).input(g.input(indices));
    with_policy(node, g.attrs()).output()
}

/// Adds slices to zeros.
pub(crate) static SCATTER_ND: Op = Op {
    def: OpDef {
        name: "ScatterNd",
        summary: "Zeros with the updates added, or empty strings with the updates appended, at the slices that the indices name.",
        inputs: &[
            arg("indices", "Tindices"),
            arg("updates", "T"),
            arg("shape", "Tindices").host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", DType::ELEMENTS),
            type_attr("Tindices", INDICES),
            POLICY,
        ],
        shape: |cx| {
            let shape = match ints_per_dim(cx, 2)? {
                Some(dims) => {
                    if let Some(bad) = dims.iter().find(|&&d| d < 0) {
                        return Err(invalid_value(
                            2,
                            format!("{bad} is no length of a dimension"),
                        ));
                    }
                    checked_shape(2, Shape::from(dims))?
                }
                None => cx.shape(2).dim(0).map_or(Shape::unknown(), Shape::of_rank),
            };
            expect_slices(cx, &shape, 0, 1)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![None, Some(gathered(g, g.grad(), 0))]),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu_tensors(scatter_strings).only(&[("T", &[DType::String])]),
        cpu(|p| {
            with_i64_indices(p, &[0], &|p| {
                if p.dtype(1) == DType::Bool {
                    return scatter_nd::<bool>(p, |to, from| join_each(to, from, |a, b| a | b));
                }
                widened_ints(p, &[1], &[0], &|p| {
                    dispatch!(p.dtype(1), [F16 BF16 F32 F64 I64 U64 C128], T => scatter_nd::<T>(p, |to, from| join_each(to, from, T::add)), else
                        Err(KernelError::DType(p.dtype(1))))
                })
            })
        }),
        gpu(|p| scatter_on_gpu(p, "AddRows", [0, 1], None)).only(&[("T", REAL_OR_BOOL)]),
    ],
};

/// Empty strings with the updates appended, in order, at the slices that the indices name.
fn scatter_strings(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let invalid = |bad: i64| KernelError::Invalid(format!("{bad} is no length of a dimension"));
    let dims = cx.ints(2)?;
    let dims: Vec<usize> = dims
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| invalid(d)))
        .collect::<Result<_, _>>()?;
    let (indices, updates) = (cx.tensor(0)?, cx.strings(1)?);
    let slices = SliceIndexer::new(indices.dims(), &dims, 0, cx.attrs())?;
    let (count, inner) = (slices.count(indices.dims()), slices.inner);
    // The output element of each update, and its update: sorted, those of an element stay in order.
    let mut places = AccountedVec::filled(updates.len(), (0, 0), cx.memory())?;
    let place = |row: usize, at: usize| {
        for k in 0..inner {
            places[row * inner + k] = (at + k, row * inner + k);
        }
    };
    dispatch!(indices.dtype(), [I16 I32 I64], I => slices.each(indices.as_slice::<I>()?, count, place)?, else
        return Err(KernelError::DType(indices.dtype())));
    places.sort_unstable();
    let mut scattered = cx.string_tensor(&dims)?;
    let (mut rest, mut stop) = (&places[..], cx.stop_check());
    for element in 0..elements(&dims) {
        stop.tick()?;
        while let Some((&(at, update), after)) = rest.split_first()
            && at == element
        {
            scattered.extend(&updates[update])?;
            rest = after;
        }
        scattered.end();
    }
    Ok(vec![scattered.finish()?])
}

fn scatter_nd<T: Element>(p: &Prepare<'_>, join: JoinRows<T>) -> Result<Prepared, KernelError> {
    let slices = SliceIndexer::new(p.dims(0), p.output_dims(0), 0, &p.node.attrs)?;
    let count = slices.count(p.dims(0));
    let elements = p.outputs[0]
        .elements()
        .saturating_add(p.inputs[1].elements());
    Ok(Prepared::new(elements * 2, move |cx| {
        let (indices, updates) = (cx.input::<i64>(0)?, cx.input::<T>(1)?);
        let out = cx.output::<T>(0)?;
        out.fill(T::default());
        update(&slices, count, indices, updates, out, join)
    }))
}

fn update<T: Element>(
    slices: &SliceIndexer,
    count: usize,
    indices: &[i64],
    updates: &[T],
    out: &mut [T],
    join: JoinRows<T>,
) -> Result<(), KernelError> {
    let inner = slices.inner;
    slices.each(indices, count, |row, at| {
        join(&mut out[at..][..inner], &updates[row * inner..][..inner]);
    })
}

/// Definition of an op that updates slices of a copy of a tensor.
const fn updating(
    name: &'static str,
    summary: &'static str,
    attrs: &'static [AttrDef],
    gradient: Gradient,
) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: UPDATING,
        outputs: OUTPUT,
        attrs,
        shape: |cx| {
            if cx.shape(0).rank() == Some(0) {
                return Err(InferError::Rank {
                    input: 0,
                    expected: "at least 1".to_owned(),
                    found: Shape::scalar(),
                });
            }
            expect_slices(cx, cx.shape(0), 1, 2)?;
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient,
        ..OpDef::EMPTY
    }
}

const UPDATING: &[thalweg_graph::op::Arg] = &[
    arg("tensor", "T"),
    arg("indices", "Tindices"),
    arg("updates", "T"),
];
const OUTPUT: &[thalweg_graph::op::Arg] = &[arg("output", "T")];
const ANY: &[AttrDef] = &[
    type_attr("T", DType::ELEMENTS),
    type_attr(
        "Tindices",
        &[DType::I16, DType::I32, DType::I64, DType::U16],
    ),
    POLICY,
];
const REAL: &[AttrDef] = &[
    type_attr("T", &DType::joined::<13>(DType::NUMBERS, &[DType::Bool])),
    type_attr("Tindices", DType::INDICES),
    POLICY,
];
const ALL_NUMBERS: &[AttrDef] = &[
    type_attr("T", DType::PLAIN),
    type_attr("Tindices", DType::INDICES),
    POLICY,
];

fn updated<T: Element>(p: &Prepare<'_>, join: JoinRows<T>) -> Result<Prepared, KernelError> {
    let slices = SliceIndexer::new(p.dims(1), p.dims(0), 1, &p.node.attrs)?;
    let count = slices.count(p.dims(1));
    let elements = p.outputs[0]
        .elements()
        .saturating_add(p.inputs[2].elements());
    Ok(Prepared::new(elements * 2, move |cx| {
        let (indices, updates) = (cx.input::<i64>(1)?, cx.input::<T>(2)?);
        let out = match cx.in_out::<T>(0, 0)? {
            InOut::Same(out) => out,
            InOut::Apart(x, out) => {
                out.copy_from_slice(x);
                out
            }
        };
        update(&slices, count, indices, updates, out, join)
    }))
}

/// Floats, integers and bools.
const REAL_OR_BOOL: &[DType] = &DType::joined::<13>(DType::NUMBERS, &[DType::Bool]);

/// Launches that update slices: of zeros, or of an input, by indices and updates in these inputs.
fn scatter_on_gpu(
    p: &Prepare<'_>,
    name: &'static str,
    [indices, updates]: [usize; 2],
    of: Option<usize>,
) -> Result<Launches, KernelError> {
    let bad = crate::gpu::BadIndices::of(p);
    let rows = IndexedRows::of(indices, p.dims(indices), p.output_dims(0), bad)?;
    crate::gpu::scatter_nd(p, name, (rows, updates), of)
}

/// Kernel that combines each element with its update.
macro_rules! joining {
    ($list:tt, $join:expr, $rows:expr) => {{
        const KERNELS: &[Kernel] = &[
            cpu(|p| {
                with_i64_indices(p, &[1], &|p| {
                    widened_ints(p, &[0, 2], &[0], &|p| {
                    dispatch!(p.dtype(0), $list, T => updated::<T>(p, |to, from| join_each(to, from, $join)), else
                            Err(KernelError::DType(p.dtype(0))))
                    })
                })
            })
            .in_place(&[(0, 0)]),
            gpu(|p| scatter_on_gpu(p, $rows, [1, 2], Some(0))).only(&[("T", DType::NUMBERS)]),
        ];
        KERNELS
    }};
}

/// Replaces slices in a copy.
pub(crate) static TENSOR_SCATTER_UPDATE: Op = Op {
    def: updating(
        "TensorScatterUpdate",
        "The tensor with the updates in place of the slices that the indices name.",
        ANY,
        Gradient::Rule(|g| {
            let (graph, indices, dy) = (g.graph(), g.input(1), g.grad());
            let zeros = graph.op("ZerosLike").input(g.input(2)).output();
            let kept = graph.op("TensorScatterUpdate").input(dy).input(indices);
            smallvec![
                Some(with_policy(kept.input(zeros), g.attrs()).output()),
                None,
                Some(gathered(g, dy, 1))
            ]
        }),
    ),
    kernels: &[
        numbered_kernel!(TENSOR_SCATTER_UPDATE, "T"),
        cpu(|p| {
            with_i64_indices(p, &[1], &|p| {
                as_uints(p, &[0, 2], &[0], &|p| {
                    dispatch!(p.dtype(0), SIZES, T => updated::<T>(p, <[T]>::copy_from_slice), else
                Err(KernelError::DType(p.dtype(0))))
                })
            })
        })
        .in_place(&[(0, 0)]),
        gpu(|p| scatter_on_gpu(p, "UpdateRows", [1, 2], Some(0))).only(&[("T", DType::PLAIN)]),
    ],
};

/// All of the gradient to the tensor, and its slices to the updates.
fn added_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let updates = gathered(g, g.grad(), 1);
    smallvec![Some(g.grad()), None, Some(updates)]
}

/// Adds to slices of a copy.
pub(crate) static TENSOR_SCATTER_ADD: Op = Op {
    def: updating(
        "TensorScatterAdd",
        "The tensor with the updates added at the slices that the indices name.",
        ALL_NUMBERS,
        Gradient::Rule(added_gradient),
    ),
    kernels: joining!([F16 BF16 F32 F64 I64 U64 C128], T::add, "AddRows"),
};

/// Adds to slices of a copy.
pub(crate) static SCATTER_ND_NON_ALIASING_ADD: Op = Op {
    def: OpDef {
        inputs: &[
            arg("input", "T"),
            arg("indices", "Tindices"),
            arg("updates", "T"),
        ],
        ..updating(
            "ScatterNdNonAliasingAdd",
            "The input with the updates added at the slices that the indices name.",
            ALL_NUMBERS,
            Gradient::Rule(added_gradient),
        )
    },
    kernels: joining!([F16 BF16 F32 F64 I64 U64 C128], T::add, "AddRows"),
};

/// Subtracts from slices of a copy.
pub(crate) static TENSOR_SCATTER_SUB: Op = Op {
    def: updating(
        "TensorScatterSub",
        "The tensor with the updates subtracted at the slices that the indices name.",
        ALL_NUMBERS,
        Gradient::Rule(|g| {
            let updates = gathered(g, g.grad(), 1);
            smallvec![Some(g.grad()), None, Some(-updates)]
        }),
    ),
    kernels: joining!([F16 BF16 F32 F64 I64 U64 C128], T::sub, "SubRows"),
};

/// Sends the gradient to the selected elements, in equal parts if several are equal.
fn extreme_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, indices, updates) = (g.graph(), g.input(0), g.input(1), g.input(2));
    let (y, dy) = (g.output(0), g.grad());
    let equal = |a: Output<'g>, b: Output<'g>| {
        let equal = graph.op("Equal").input(a).input(b).output();
        graph
            .op("Cast")
            .input(equal)
            .attr("DstT", dy.dtype())
            .output()
    };
    let in_x = equal(x, y);
    let in_updates = equal(updates, gathered(g, y, 1));
    let added = graph.op("ScatterNd").input(indices).input(in_updates);
    let added = added.input(shape_of(x, indices.dtype()));
    let shares = in_x + with_policy(added, g.attrs()).output();
    let share = gathered(g, dy / shares, 1);
    smallvec![Some(dy * in_x / shares), None, Some(share * in_updates)]
}

/// Maximum of a copy's slices and the updates.
pub(crate) static TENSOR_SCATTER_MAX: Op = Op {
    def: updating(
        "TensorScatterMax",
        "The larger of each element of the tensor and the updates at the slices that the indices name.",
        REAL,
        Gradient::Rule(extreme_gradient),
    ),
    kernels: joining!([F16 BF16 F32 F64 I64 U64], |x, y| if x < y { y } else { x }, "MaxRows"),
};

/// Minimum of a copy's slices and the updates.
pub(crate) static TENSOR_SCATTER_MIN: Op = Op {
    def: updating(
        "TensorScatterMin",
        "The smaller of each element of the tensor and the updates at the slices that the indices name.",
        REAL,
        Gradient::Rule(extreme_gradient),
    ),
    kernels: joining!([F16 BF16 F32 F64 I64 U64], |x, y| if y < x { y } else { x }, "MinRows"),
};
