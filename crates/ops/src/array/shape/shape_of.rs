//! Shape, ShapeN, Rank, Size.

use smallvec::SmallVec;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, on_host};
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use crate::support::shape_inputs::{int_tensor_for, kernel_error, known_outputs};

/// Kernel that writes a value that is known when it is prepared.
fn known_index(value: Option<Tensor>) -> Result<Prepared, KernelError> {
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

/// Shape of a tensor.
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
                    let known = |d: &Option<usize>| d.and_then(|d| i64::try_from(d).ok());
                    if let Some(dims) = cx.shape(0).dims() {
                        cx.set_elements(0, dims.iter().map(known).collect());
                    }
                }
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| known_index(indices(out_type(p), p.dims(0).iter().copied()))),
        on_host(),
    ],
};

/// Number of dimensions.
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
        cpu(|p| known_index(i32::try_from(p.dims(0).len()).ok().map(Tensor::from))),
        on_host(),
    ],
};

/// Number of elements.
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
        cpu(|p| known_index(indices(out_type(p), std::iter::once(elements(p.dims(0)))))),
        on_host(),
    ],
};

/// Shapes of several tensors.
pub(crate) static SHAPE_N: Op = Op {
    def: OpDef {
        name: "ShapeN",
        summary: "The dimensions of each of several tensors.",
        inputs: &[arg("input", "T").list("N")],
        outputs: &[arg("output", "out_type").list("N")],
        attrs: &[
            thalweg_graph::op::count_attr("N"),
            type_attr("T", &DType::ALL),
            type_attr_or("out_type", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let dtype = cx.attrs().dtype("out_type").unwrap_or(DType::I32);
            for i in 0..cx.inputs() {
                match cx.shape(i).to_dims() {
                    Some(dims) => {
                        let value = dims_of(dtype, &dims)?;
                        cx.set_value(i, value);
                    }
                    None => cx.set(i, Shape::partial([cx.shape(i).rank()])),
                }
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(shapes), thalweg_device::on_host()],
};

fn dims_of(dtype: DType, dims: &[usize]) -> Result<Tensor, InferError> {
    let dims: SmallVec<[i64; 6]> = dims.iter().map(|&d| d as i64).collect();
    int_tensor_for("out_type", dtype, &[dims.len()], &dims)
}

fn shapes(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let dtype = p.outputs.first().map_or(DType::I32, |o| o.dtype);
    let all: Result<Vec<Tensor>, _> = p.inputs.iter().map(|o| dims_of(dtype, &o.dims)).collect();
    known_outputs(dtype, all.map_err(kernel_error)?)
}

/// `values` as a tensor of an index dtype.
fn indices(dtype: DType, values: impl Iterator<Item = usize>) -> Option<Tensor> {
    match dtype {
        DType::I64 => values
            .map(|v| i64::try_from(v).ok())
            .collect::<Option<Vec<_>>>()
            .map(Tensor::from),
        _ => values
            .map(|v| i32::try_from(v).ok())
            .collect::<Option<Vec<_>>>()
            .map(Tensor::from),
    }
}
