//! What a tensor is, as a tensor: Shape, Rank, Size.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, on_host};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::reshape::indices;

/// A kernel that writes what is known when it is prepared.
fn known(value: Option<Tensor>) -> Result<Prepared, KernelError> {
    let value = value.ok_or_else(|| {
        KernelError::Invalid(
            "the number does not fit an i32: ask for an i64 as out_type".to_owned(),
        )
    })?;
    dispatch!(value.dtype(), [I32 I64], T => Ok(Prepared::new(value.len(), move |cx| {
        cx.output::<T>(0)?.copy_from_slice(value.as_slice()?);
        Ok(())
    })), else Err(KernelError::DType(value.dtype())))
}

fn out_type(p: &Prepare<'_>) -> DType {
    p.outputs.first().map_or(DType::I32, |o| o.dtype)
}

/// The dimensions.
pub(crate) static SHAPE: Op = Op {
    def: OpDef {
        name: "Shape",
        summary: "The dimensions of a tensor.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "out_type")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("out_type", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let dtype = cx.attrs().dtype("out_type").unwrap_or(DType::I32);
            let dims = cx.shape(0).to_dims();
            match dims.and_then(|d| indices(dtype, d.into_iter())) {
                Some(value) => cx.set_value(0, value),
                None => {
                    let rank = cx.shape(0).rank().and_then(|r| i64::try_from(r).ok());
                    cx.set(0, [rank.unwrap_or(-1)].into());
                }
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| known(indices(out_type(p), p.dims(0).iter().copied()))),
        on_host(),
    ],
};

/// The number of dimensions.
pub(crate) static RANK: Op = Op {
    def: OpDef {
        name: "Rank",
        summary: "The number of dimensions of a tensor.",
        inputs: &[arg("input", "T")],
        outputs: &[arg_of("output", DType::I32)],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            cx.set(0, Shape::scalar());
            if let Some(rank) = cx.shape(0).rank().and_then(|r| i32::try_from(r).ok()) {
                cx.set_value(0, rank.into());
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| known(i32::try_from(p.dims(0).len()).ok().map(Tensor::from))),
        on_host(),
    ],
};

/// The number of elements.
pub(crate) static SIZE: Op = Op {
    def: OpDef {
        name: "Size",
        summary: "The number of elements of a tensor.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "out_type")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("out_type", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            cx.set(0, Shape::scalar());
            let dtype = cx.attrs().dtype("out_type").unwrap_or(DType::I32);
            let size = cx
                .shape(0)
                .elements()
                .and_then(|n| indices(dtype, std::iter::once(n)));
            if let Some(scalar) = size.and_then(|t| t.reshaped(&[]).ok()) {
                cx.set_value(0, scalar);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| known(indices(out_type(p), std::iter::once(elements(p.dims(0)))))),
        on_host(),
    ],
};
