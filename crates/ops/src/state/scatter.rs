//! ResourceScatterUpdate, ResourceScatterAdd, ResourceScatterSub, ResourceScatterMul, ResourceScatterDiv,
//! ResourceScatterMin, ResourceScatterMax, and the variants on references: updates of rows of a variable.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Shape};

use super::combine::{CombineVisitor, UpdateKind};
use super::row_indices::{RowIndices, value_dims};
use crate::support::join_rows::{JoinRows, join_one};

/// The updates must have a row for each index, or be a scalar. On a reference, the output is the reference.
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
    let (indices, updates) = (cx.shape(1), cx.shape(2));
    if let (Some(variable), Some(indices)) = (variable.dims(), indices.dims()) {
        let Some((_, row)) = variable.split_first() else {
            return Err(InferError::Rank {
                input: 0,
                expected: "at least 1".to_owned(),
                found: Shape::scalar(),
            });
        };
        let expected = Shape::partial(indices.iter().chain(row).copied());
        if updates.rank() != Some(0) && expected.merge(updates).is_none() {
            return Err(InferError::Mismatch {
                what: "the updates must be a scalar, or a row of the variable for each index"
                    .to_owned(),
                left: updates.clone(),
                right: expected,
            });
        }
    }
    cx.set_variable(0, dtype, variable);
    Ok(())
}

fn prepare(p: &Prepare<'_>, kind: UpdateKind) -> Result<Prepared, KernelError> {
    kind.of(p.dtype(2), ScatterRows(p))
}

struct ScatterRows<'a, 'b>(&'a Prepare<'b>);

impl CombineVisitor for ScatterRows<'_, '_> {
    type Out = Prepared;

    fn visit<T: Element>(self, combine: JoinRows<T>, divides: bool) -> Prepared {
        let p = self.0;
        let indices = RowIndices::of(p, 1);
        let count = p.inputs.get(1).map_or(0, |i| i.elements());
        let elements = p.inputs.get(2).map_or(0, |i| i.elements());
        let one_for_all = p.dims(2).is_empty();
        Prepared::new(elements.saturating_mul(2), move |cx| {
            let updates = cx.input::<T>(2)?;
            let dims = value_dims(cx)?;
            let rows = dims.first().copied();
            let rows = rows.ok_or_else(|| KernelError::Invalid(NO_ROWS.to_owned()))?;
            if divides && let Some(element) = updates.iter().position(|&x| x == T::default()) {
                return Err(KernelError::Element {
                    input: 2,
                    element,
                    reason: "Integer division by zero: an integer has no infinity".to_owned(),
                });
            }
            indices.for_each(cx, &mut |i, at| indices.checked(i, at, rows).map(drop))?;
            cx.update::<T, 1>([0], |[variable]| {
                let width = variable.len() / rows.max(1);
                if !one_for_all && updates.len() != count.saturating_mul(width) {
                    return Err(KernelError::Invalid(format!(
                        "there are {} for {} of {}",
                        counted(updates.len(), "update"),
                        counted(count, "row"),
                        counted(width, "element")
                    )));
                }
                indices.for_each(cx, &mut |i, at| {
                    let start = indices.checked(i, at, rows)? * width;
                    let row = &mut variable[start..start + width];
                    match one_for_all {
                        true => join_one(row, updates[0], combine),
                        false => combine(row, &updates[i * width..][..width]),
                    }
                    Ok(())
                })
            })
        })
    }
}

const NO_ROWS: &str = "the variable is a scalar, which has no rows";

const INDICES: AttrDef = type_attr("Tindices", DType::INDICES);

const fn on_handles(name: &'static str, summary: &'static str, attrs: &'static [AttrDef]) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: const {
            &[
                arg_of("resource", DType::Resource),
                arg("indices", "Tindices"),
                arg("updates", "dtype"),
            ]
        },
        attrs,
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

const ANY_ATTRS: &[AttrDef] = &[type_attr("dtype", &DType::ALL), INDICES];
const NUMBER_ATTRS: &[AttrDef] = &[type_attr("dtype", DType::ALL_NUMBERS), INDICES];
const REAL_ATTRS: &[AttrDef] = &[type_attr("dtype", DType::NUMBERS), INDICES];
const REF_ANY_ATTRS: &[AttrDef] = &[
    type_attr("T", &DType::ALL),
    INDICES,
    bool_attr("use_locking", true),
];
const REF_NUMBER_ATTRS: &[AttrDef] = &[
    type_attr("T", DType::ALL_NUMBERS),
    INDICES,
    bool_attr("use_locking", false),
];
const REF_ORDERED_ATTRS: &[AttrDef] = &[
    type_attr(
        "T",
        &[
            DType::F16,
            DType::BF16,
            DType::F32,
            DType::F64,
            DType::I32,
            DType::I64,
        ],
    ),
    INDICES,
    bool_attr("use_locking", false),
];

/// Replaces rows.
pub(crate) static UPDATE: Op = Op {
    def: on_handles(
        "ResourceScatterUpdate",
        "Replaces the rows of a variable at the given indices.",
        ANY_ATTRS,
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Update)).only(&[("dtype", DType::PLAIN)]),
        gpu(|p| crate::gpu::scatter(p, "UpdateRows")).only(&[("dtype", DType::PLAIN)]),
    ],
};

/// [`UPDATE`] on a reference.
pub(crate) static REF_UPDATE: Op = Op {
    def: on_references("ScatterUpdate", &UPDATE.def, REF_ANY_ATTRS),
    kernels: &[],
};

/// Adds to rows.
pub(crate) static ADD: Op = Op {
    def: on_handles(
        "ResourceScatterAdd",
        "Adds to the rows of a variable at the given indices.",
        NUMBER_ATTRS,
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Add)).only(&[("dtype", DType::ALL_NUMBERS)]),
        gpu(|p| crate::gpu::scatter(p, "AddRows")).only(&[("dtype", DType::NUMBERS)]),
    ],
};

/// [`ADD`] on a reference.
pub(crate) static REF_ADD: Op = Op {
    def: on_references("ScatterAdd", &ADD.def, REF_NUMBER_ATTRS),
    kernels: &[],
};

/// Subtracts from rows.
pub(crate) static SUB: Op = Op {
    def: on_handles(
        "ResourceScatterSub",
        "Subtracts from the rows of a variable at the given indices.",
        NUMBER_ATTRS,
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Sub)).only(&[("dtype", DType::ALL_NUMBERS)]),
        gpu(|p| crate::gpu::scatter(p, "SubRows")).only(&[("dtype", DType::NUMBERS)]),
    ],
};

/// [`SUB`] on a reference.
pub(crate) static REF_SUB: Op = Op {
    def: on_references("ScatterSub", &SUB.def, REF_NUMBER_ATTRS),
    kernels: &[],
};

/// Multiplies rows.
pub(crate) static MUL: Op = Op {
    def: on_handles(
        "ResourceScatterMul",
        "Multiplies the rows of a variable at the given indices.",
        NUMBER_ATTRS,
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Mul)).only(&[("dtype", DType::ALL_NUMBERS)]),
        gpu(|p| crate::gpu::scatter(p, "MulRows")).only(&[("dtype", DType::NUMBERS)]),
    ],
};

/// [`MUL`] on a reference.
pub(crate) static REF_MUL: Op = Op {
    def: on_references("ScatterMul", &MUL.def, REF_NUMBER_ATTRS),
    kernels: &[],
};

/// Divides rows.
pub(crate) static DIV: Op = Op {
    def: on_handles(
        "ResourceScatterDiv",
        "Divides the rows of a variable at the given indices; integers are rounded towards zero.",
        NUMBER_ATTRS,
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Div)).only(&[("dtype", DType::ALL_NUMBERS)]),
        gpu(|p| crate::gpu::scatter(p, "DivRows")).only(&[("dtype", DType::FLOATS)]),
    ],
};

/// [`DIV`] on a reference.
pub(crate) static REF_DIV: Op = Op {
    def: on_references("ScatterDiv", &DIV.def, REF_NUMBER_ATTRS),
    kernels: &[],
};

/// Sets rows to the minimum of value and update.
pub(crate) static MIN: Op = Op {
    def: on_handles(
        "ResourceScatterMin",
        "Sets the rows of a variable at the given indices to the minimum of their values and the updates.",
        REAL_ATTRS,
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Min)).only(&[("dtype", DType::NUMBERS)]),
        gpu(|p| crate::gpu::scatter(p, "MinRows")).only(&[("dtype", DType::NUMBERS)]),
    ],
};

/// [`MIN`] on a reference.
pub(crate) static REF_MIN: Op = Op {
    def: on_references("ScatterMin", &MIN.def, REF_ORDERED_ATTRS),
    kernels: &[],
};

/// Sets rows to the maximum of value and update.
pub(crate) static MAX: Op = Op {
    def: on_handles(
        "ResourceScatterMax",
        "Sets the rows of a variable at the given indices to the maximum of their values and the updates.",
        REAL_ATTRS,
    ),
    kernels: &[
        cpu(|p| prepare(p, UpdateKind::Max)).only(&[("dtype", DType::NUMBERS)]),
        gpu(|p| crate::gpu::scatter(p, "MaxRows")).only(&[("dtype", DType::NUMBERS)]),
    ],
};

/// [`MAX`] on a reference.
pub(crate) static REF_MAX: Op = Op {
    def: on_references("ScatterMax", &MAX.def, REF_ORDERED_ATTRS),
    kernels: &[],
};
