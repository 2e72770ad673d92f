//! ResourceCountUpTo, CountUpTo, VariableShape, DestroyResourceOp.

use thalweg_device::{KernelError, Op, Prepared, cpu, on_host};
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, attr, bool_attr, type_attr, type_attr_or,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::row_indices::value_dims;
use super::var_handle::expect_dtype;
use thalweg_cpu::number::Number;

fn count_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let variable = expect_dtype(cx, "T")?;
    if variable.merge(&Shape::scalar()).is_none() {
        return Err(InferError::Rank {
            input: 0,
            expected: "0".to_owned(),
            found: variable,
        });
    }
    cx.set(0, Shape::scalar());
    Ok(())
}

fn count_up<T: Number + Into<i64>>(limit: i64) -> Prepared {
    Prepared::new(1, move |cx| {
        let out = cx.output::<T>(0)?;
        cx.update::<T, 1>([0], |[variable]| match (variable, out) {
            ([count], [out]) if (*count).into() < limit => {
                *out = *count;
                *count = count.add(T::ONE);
                Ok(())
            }
            ([_], [_]) => {
                let text = format!("Reached limit of {limit}");
                Err(KernelError::OutOfRange(text))
            }
            _ => Err(KernelError::Invalid(
                "the variable is not a scalar".to_owned(),
            )),
        })
    })
}

const COUNT_ATTRS: &[AttrDef] = &[attr("limit", AttrKind::Int), type_attr("T", DType::INDICES)];

/// Increments a scalar variable at each run, until it has reached a limit.
pub(crate) static COUNT_UP_TO: Op = Op {
    def: OpDef {
        name: "ResourceCountUpTo",
        summary: "Adds one to a scalar variable and returns its previous value; an error once it has reached the limit.",
        inputs: &[arg_of("resource", DType::Resource)],
        outputs: &[arg("output", "T")],
        attrs: COUNT_ATTRS,
        shape: count_shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let limit = p.node.attrs.int("limit");
        let dtype = p.node.attrs.dtype("T").unwrap_or(DType::I32);
        dispatch!(dtype, [I32 I64], T => Ok(count_up::<T>(limit)), else Err(KernelError::DType(dtype)))
    })],
};

/// [`COUNT_UP_TO`] on a reference.
pub(crate) static REF_COUNT_UP_TO: Op = Op {
    def: OpDef {
        name: "CountUpTo",
        summary: COUNT_UP_TO.def.summary,
        inputs: &[arg("ref", "T").reference()],
        outputs: &[arg("output", "T")],
        attrs: COUNT_ATTRS,
        shape: count_shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        on_handles: Some("ResourceCountUpTo"),
        ..OpDef::EMPTY
    },
    kernels: &[],
};

const INPUT: &[Arg] = &[arg_of("input", DType::Resource)];

/// Shape of a variable's value.
pub(crate) static SHAPE: Op = Op {
    def: OpDef {
        name: "VariableShape",
        summary: "The dimensions of a variable's value.",
        inputs: INPUT,
        outputs: &[arg("output", "out_type")],
        attrs: &[type_attr_or("out_type", DType::INDICES, DType::I32)],
        shape: |cx| {
            let shape = cx.variable_shape(0);
            let Some(dims) = shape.to_dims() else {
                let rank = shape.rank().map(Some);
                cx.set(0, Shape::partial([rank.flatten()]));
                return Ok(());
            };
            let narrow: Option<Vec<i32>> = dims.iter().map(|&d| i32::try_from(d).ok()).collect();
            let value = match (cx.attrs().dtype("out_type"), narrow) {
                (Some(DType::I64), _) => {
                    Tensor::vector(&dims.iter().map(|&d| d as i64).collect::<Vec<_>>())
                }
                (_, Some(narrow)) => Tensor::vector(&narrow),
                (_, None) => {
                    return Err(InferError::Attr {
                        attr: "out_type",
                        reason: format!("{shape} does not fit in i32: use i64"),
                    });
                }
            };
            cx.set_value(0, value);
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Read,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let dtype = p.node.attrs.dtype("out_type").unwrap_or(DType::I32);
            dispatch!(dtype, [I32 I64], T => Ok(Prepared::new(1, |cx| {
                let out = cx.output::<T>(0)?;
                let dims = match cx.variable(0)?.shape().to_dims() {
                    Some(dims) => dims,
                    None => value_dims(cx)?,
                };
                if dims.len() != out.len() {
                    return Err(KernelError::Argument("an element for each dimension"));
                }
                for (out, &dim) in out.iter_mut().zip(&dims) {
                    *out = T::try_from(dim).map_err(|_| {
                        KernelError::Invalid(format!("dimension {dim} does not fit: use i64"))
                    })?;
                }
                Ok(())
            })), else Err(KernelError::DType(dtype)))
        }),
        on_host(),
    ],
};

/// Removes a variable's value.
pub(crate) static DESTROY: Op = Op {
    def: OpDef {
        name: "DestroyResourceOp",
        summary: "Removes a variable's value: it is no longer initialized.",
        inputs: &[arg_of("resource", DType::Resource)],
        attrs: &[bool_attr("ignore_lookup_error", true)],
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|_| {
        Ok(Prepared::new(1, |cx| {
            *cx.variable(0)?.lock() = None;
            Ok(())
        }))
    })],
};
