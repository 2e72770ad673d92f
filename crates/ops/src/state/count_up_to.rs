//! ResourceCountUpTo, CountUpTo.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, Prepared, cpu};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg, arg_of, attr, type_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use super::var_handle::expect_dtype;

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
