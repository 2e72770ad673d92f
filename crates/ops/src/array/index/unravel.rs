//! UnravelIndex.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, type_attr_or};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

/// Coordinates of flat indices.
pub(crate) static UNRAVEL_INDEX: Op = Op {
    def: OpDef {
        name: "UnravelIndex",
        summary: "For each index of an array laid out flat, a column of its coordinates in an array of the given dimensions.",
        inputs: &[arg("indices", "Tidx"), arg("dims", "Tidx")],
        outputs: &[arg("output", "Tidx")],
        attrs: &[type_attr_or("Tidx", DType::INDICES, DType::I32)],
        shape: |cx| {
            let rank = cx.ranked(1, 1)?.dim(0);
            let indices = cx.shape(0).clone();
            match indices.rank() {
                None => {}
                Some(0) => cx.set(0, Shape::partial([rank])),
                Some(1) => cx.set(0, Shape::partial([rank, indices.dim(0)])),
                Some(_) => {
                    return Err(InferError::Rank {
                        input: 0,
                        expected: "0 or 1".to_owned(),
                        found: indices,
                    });
                }
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(0), [I32 I64], T => Ok(prepare::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
    )],
};

fn prepare<T: Number + Into<i64> + TryFrom<i64>>(p: &Prepare<'_>) -> Prepared {
    let count = p.inputs[0].elements();
    let elements = p.outputs[0].elements();
    Prepared::new(elements.saturating_mul(4), move |cx| {
        let (indices, dims) = (cx.input::<T>(0)?, cx.input::<T>(1)?);
        let out = cx.output::<T>(0)?;
        let invalid = |why: String| Err(KernelError::Invalid(why));
        let mut size = Some(1i64);
        for &dim in dims {
            let dim: i64 = dim.into();
            match dim {
                0 => {
                    return invalid(
                        "Input dims cannot contain a dim of zero, but dims contains zero"
                            .to_owned(),
                    );
                }
                _ if dim < 0 => {
                    return invalid(format!("Input dims cannot be negative. Got {dim}"));
                }
                _ => size = size.and_then(|size| size.checked_mul(dim)),
            }
        }
        let Some(size) = size else {
            return invalid("dims have more elements than an index can count".to_owned());
        };
        for (i, &index) in indices.iter().enumerate() {
            let mut rest: i64 = index.into();
            if !(0..size).contains(&rest) {
                return invalid(format!(
                    "index is out of bound as with dims: {rest} is not below {size}"
                ));
            }
            for (axis, &dim) in dims.iter().enumerate().rev() {
                let dim: i64 = dim.into();
                // A coordinate is below a dimension, which is a T.
                out[axis * count + i] = T::try_from(rest % dim).unwrap_or(T::ZERO);
                rest /= dim;
            }
        }
        Ok(())
    })
}
