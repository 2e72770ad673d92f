//! ResourceScatterNdUpdate, ResourceScatterNdAdd, ResourceScatterNdSub, ResourceScatterNdMin, ResourceScatterNdMax,
//! and the variants on references: updates of elements or slices of a variable, by indices in its first dimensions.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, cpu_tensors, gpu};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg, arg_of, bool_attr, str_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Shape};

use super::combine::{CombineVisitor, UpdateKind};
use super::row_indices::{RowIndices, value_dims};
use super::string_slices;
use crate::support::join_rows::JoinRows;

/// Number of dimensions that an index addresses, and the remaining dimensions.
pub(super) type IndexSplit = (usize, Vec<Option<usize>>);

/// Number of dimensions that an index addresses, and the remaining dimensions, for a variable of shape
/// `whole`; `None` if that is not known.
pub(super) fn split_by_index(
    whole: &Shape,
    indices: &Shape,
) -> Result<Option<IndexSplit>, InferError> {
    let rank = |expected: String| InferError::Rank {
        input: 1,
        expected,
        found: indices.clone(),
    };
    if indices.rank() == Some(0) {
        return Err(rank("at least 1".to_owned()));
    }
    let (Some(dims), Some(indices)) = (whole.dims(), indices.dims()) else {
        return Ok(None);
    };
    let Some(&Some(depth)) = indices.last() else {
        return Ok(None);
    };
    match dims.get(depth..) {
        Some(left) => Ok(Some((depth, left.to_vec()))),
        None => Err(InferError::Value {
            input: 1,
            reason: format!(
                "an index has {depth} entries, and the variable has shape {whole}: at most {} can be",
                dims.len()
            ),
        }),
    }
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let Some((dtype, variable)) = cx.variable(0) else {
        return Ok(());
    };
    if cx.dtype(2) != dtype {
        return Err(InferError::Value {
            input: 2,
            reason: format!("the variable holds {dtype}, not {}", cx.dtype(2)),
        });
    }
    if let Some((_, left)) = split_by_index(&variable, cx.shape(1))?
        && let Some((_, outer)) = cx.shape(1).dims().and_then(<[_]>::split_last)
    {
        let expected = Shape::partial(outer.iter().copied().chain(left));
        if expected.merge(cx.shape(2)).is_none() {
            return Err(InferError::Mismatch {
                what: "the updates must be a slice of the variable for each index".to_owned(),
                left: cx.shape(2).clone(),
                right: expected,
            });
        }
    }
    cx.set_variable(0, dtype, variable);
    Ok(())
}

fn prepare(p: &Prepare<'_>, kind: UpdateKind) -> Result<Prepared, KernelError> {
    kind.of(p.dtype(2), ScatterSlices(p))
}

struct ScatterSlices<'a, 'b>(&'a Prepare<'b>);

impl CombineVisitor for ScatterSlices<'_, '_> {
    type Out = Prepared;

    fn visit<T: Element>(self, combine: JoinRows<T>, _: bool) -> Prepared {
        let p = self.0;
        let indices = RowIndices::of(p, 1);
        let depth = p.dims(1).last().copied().unwrap_or(0);
        let elements = p.inputs.get(2).map_or(0, |i| i.elements());
        // If an index has no entries, each one addresses the whole variable.
        let outer = p.dims(1).split_last().map_or(&[][..], |(_, outer)| outer);
        let count = thalweg_tensor::shape::elements(outer);
        let lenient = p.node.attrs.str("bad_indices_policy") == "IGNORE";
        Prepared::new(elements.saturating_mul(2), move |cx| {
            let updates = cx.input::<T>(2)?;
            let dims = value_dims(cx)?;
            let named = dims
                .get(..depth)
                .ok_or(KernelError::Argument("a dimension"))?;
            if !lenient && depth > 0 {
                indices.for_each(cx, &mut |i, at| {
                    indices.checked(i, at, named[i % depth]).map(drop)
                })?;
            }
            cx.update::<T, 1>([0], |[variable]| {
                let all = thalweg_tensor::shape::elements(named);
                let width = variable.len() / all.max(1);
                if updates.len() != count.saturating_mul(width) || variable.len() != all * width {
                    return Err(KernelError::Invalid(format!(
                        "there are {} for {} of {}",
                        counted(updates.len(), "update"),
                        counted(count, "slice"),
                        counted(width, "element")
                    )));
                }
                let mut apply = |slice: usize, start: usize| {
                    let own = &updates[slice * width..(slice + 1) * width];
                    combine(&mut variable[start * width..][..width], own);
                };
                if depth == 0 {
                    (0..count).for_each(|slice| apply(slice, 0));
                    return Ok(());
                }
                let (mut start, mut inside) = (0, true);
                indices.for_each(cx, &mut |i, at| {
                    let (slice, entry) = (i / depth, i % depth);
                    if entry == 0 {
                        (start, inside) = (0, true);
                    }
                    match indices.checked(i, at, named[entry]) {
                        Ok(at) => start = start * named[entry] + at,
                        Err(error) if !lenient => return Err(error),
                        Err(_) => inside = false,
                    }
                    if entry + 1 == depth && inside {
                        apply(slice, start);
                    }
                    Ok(())
                })
            })
        })
    }
}

const INDICES: AttrDef = type_attr("Tindices", DType::INDICES);
const BAD_INDICES_POLICY: AttrDef = str_attr(
    "bad_indices_policy",
    "",
    &["", "DEFAULT", "ERROR", "IGNORE"],
);

const fn on_handles(name: &'static str, summary: &'static str) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: const {
            &[
                arg_of("ref", DType::Resource),
                arg("indices", "Tindices"),
                arg("updates", "T"),
            ]
        },
        attrs: const {
            &[
                type_attr("T", &DType::ALL),
                INDICES,
                bool_attr("use_locking", true),
                BAD_INDICES_POLICY,
            ]
        },
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    }
}

const fn on_references(
    name: &'static str,
    handles: &'static OpDef,
    attrs: &'static [AttrDef],
) -> OpDef {
    OpDef {
        name,
        summary: handles.summary,
        inputs: const {
            &[
                arg("ref", "T").reference(),
                arg("indices", "Tindices"),
                arg("updates", "T"),
            ]
        },
        outputs: const { &[arg("output_ref", "T").reference()] },
        attrs,
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        on_handles: Some(handles.name),
        ..OpDef::EMPTY
    }
}

const REF_ANY_ATTRS: &[AttrDef] = &[
    type_attr("T", &DType::ALL),
    INDICES,
    bool_attr("use_locking", true),
    BAD_INDICES_POLICY,
];
const REF_NUMBER_ATTRS: &[AttrDef] = &[
    type_attr("T", DType::ALL_NUMBERS),
    INDICES,
    bool_attr("use_locking", false),
    BAD_INDICES_POLICY,
];

/// Replaces slices.
pub(crate) static UPDATE: Op = Op {
    def: on_handles(
        "ResourceScatterNdUpdate",
        "Replaces the slices of a variable at the given indices.",
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Update)).only(&[("T", DType::PLAIN)]),
        gpu(|p| crate::gpu::scatter_nd_variable(p, "UpdateRows")).only(&[("T", DType::PLAIN)]),
        cpu_tensors(string_slices::scatter_nd_update).only(&[("T", &[DType::String])]),
    ],
};

/// [`UPDATE`] on a reference.
pub(crate) static REF_UPDATE: Op = Op {
    def: on_references("ScatterNdUpdate", &UPDATE.def, REF_ANY_ATTRS),
    kernels: &[],
};

/// Adds slices.
pub(crate) static ADD: Op = Op {
    def: on_handles(
        "ResourceScatterNdAdd",
        "Adds to the slices of a variable at the given indices.",
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Add)).only(&[("T", DType::ALL_NUMBERS)]),
        gpu(|p| crate::gpu::scatter_nd_variable(p, "AddRows")).only(&[("T", DType::NUMBERS)]),
    ],
};

/// [`ADD`] on a reference.
pub(crate) static REF_ADD: Op = Op {
    def: on_references("ScatterNdAdd", &ADD.def, REF_NUMBER_ATTRS),
    kernels: &[],
};

/// Subtracts slices.
pub(crate) static SUB: Op = Op {
    def: on_handles(
        "ResourceScatterNdSub",
        "Subtracts from the slices of a variable at the given indices.",
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Sub)).only(&[("T", DType::ALL_NUMBERS)]),
        gpu(|p| crate::gpu::scatter_nd_variable(p, "SubRows")).only(&[("T", DType::NUMBERS)]),
    ],
};

/// [`SUB`] on a reference.
pub(crate) static REF_SUB: Op = Op {
    def: on_references("ScatterNdSub", &SUB.def, REF_NUMBER_ATTRS),
    kernels: &[],
};

/// Sets slices to the minimum of value and update.
pub(crate) static MIN: Op = Op {
    def: on_handles(
        "ResourceScatterNdMin",
        "Sets the slices of a variable at the given indices to the minimum of their values and the updates.",
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Min)).only(&[("T", DType::NUMBERS)]),
        gpu(|p| crate::gpu::scatter_nd_variable(p, "MinRows")).only(&[("T", DType::NUMBERS)]),
    ],
};

/// [`MIN`] on a reference.
pub(crate) static REF_MIN: Op = Op {
    def: on_references("ScatterNdMin", &MIN.def, REF_NUMBER_ATTRS),
    kernels: &[],
};

/// Sets slices to the maximum of value and update.
pub(crate) static MAX: Op = Op {
    def: on_handles(
        "ResourceScatterNdMax",
        "Sets the slices of a variable at the given indices to the maximum of their values and the updates.",
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Max)).only(&[("T", DType::NUMBERS)]),
        gpu(|p| crate::gpu::scatter_nd_variable(p, "MaxRows")).only(&[("T", DType::NUMBERS)]),
    ],
};

/// [`MAX`] on a reference.
pub(crate) static REF_MAX: Op = Op {
    def: on_references("ScatterNdMax", &MAX.def, REF_NUMBER_ATTRS),
    kernels: &[],
};
