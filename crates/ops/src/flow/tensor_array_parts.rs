//! TensorArrayGatherV3, TensorArrayScatterV3, TensorArraySplitV3, TensorArrayConcatV3.

use thalweg_device::{KernelError, Op, cpu_tensors, on_host};
use thalweg_graph::OpDef;
use thalweg_graph::op::{arg, arg_of, type_attr};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor};

use super::rows::{concatenated, rows, split, stacked};
use super::tensor_array::{ARRAY_OP, FLOW_IN, FLOW_OUT, HANDLE, array, scalars, shape_attr};

/// Stacks some elements into one tensor.
pub(crate) static GATHER: Op = Op {
    def: OpDef {
        name: "TensorArrayGatherV3",
        summary: "Some elements of an array as the rows of a tensor.",
        inputs: &[HANDLE, arg_of("indices", DType::I32), FLOW_IN],
        outputs: &[arg("value", "dtype")],
        attrs: &[type_attr("dtype", &DType::ALL), shape_attr("element_shape")],
        shape: |cx| {
            let indices = cx.ranked(1, 1)?;
            let count = indices.dims().and_then(|dims| dims[0]);
            let row = cx.attrs().shape("element_shape");
            let row = cx.held(0).and_then(|h| h.merge(&row)).unwrap_or(row);
            if let Some(row) = row.dims() {
                cx.set(0, Shape::partial([&[count], row].concat()));
            }
            Ok(())
        },
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let array = array(cx)?;
            let items = cx.ints(1)?.into_iter().map(|i| array.read(cx, i));
            let items: Vec<Tensor> = items.collect::<Result<_, _>>()?;
            let requested = cx.attrs().shape("element_shape");
            let shape = array
                .declared_shape()
                .merge(&requested)
                .unwrap_or(requested);
            Ok(vec![stacked(cx.memory(), array.dtype, &items, &shape)?])
        }),
        on_host(),
    ],
};

/// Writes the rows of a tensor to elements.
pub(crate) static SCATTER: Op = Op {
    def: OpDef {
        name: "TensorArrayScatterV3",
        summary: "Writes the rows of a tensor to elements of an array.",
        inputs: &[
            HANDLE,
            arg_of("indices", DType::I32),
            arg("value", "T"),
            FLOW_IN,
        ],
        outputs: &[FLOW_OUT],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: scalars,
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (array, indices) = (array(cx)?, cx.ints(1)?);
            let rows = rows(cx.memory(), &cx.held(2)?)?;
            if rows.len() != indices.len() {
                return Err(KernelError::Invalid(format!(
                    "{} for {}",
                    counted(rows.len(), "row"),
                    counted(indices.len(), "element")
                )));
            }
            for (i, row) in indices.into_iter().zip(rows) {
                array.write(i, row)?;
            }
            Ok(vec![cx.value(3)?])
        }),
        on_host(),
    ],
};

/// Writes pieces of a tensor to elements.
pub(crate) static SPLIT: Op = Op {
    def: OpDef {
        name: "TensorArraySplitV3",
        summary: "Writes pieces of a tensor, with the given numbers of rows, to the elements of an array.",
        inputs: &[
            HANDLE,
            arg("value", "T"),
            arg_of("lengths", DType::I64),
            FLOW_IN,
        ],
        outputs: &[FLOW_OUT],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: scalars,
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let array = array(cx)?;
            let parts = split(cx.memory(), &cx.held(1)?, &cx.ints(2)?)?;
            array.grow(parts.len())?;
            for (i, part) in parts.into_iter().enumerate() {
                array.write(i as i64, part)?;
            }
            Ok(vec![cx.value(3)?])
        }),
        on_host(),
    ],
};

/// Concatenates all elements.
pub(crate) static CONCAT: Op = Op {
    def: OpDef {
        name: "TensorArrayConcatV3",
        summary: "All elements of an array, concatenated, and the number of rows of each.",
        inputs: &[HANDLE, FLOW_IN],
        outputs: &[arg("value", "dtype"), arg_of("lengths", DType::I64)],
        attrs: &[
            type_attr("dtype", &DType::ALL),
            shape_attr("element_shape_except0"),
        ],
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let array = array(cx)?;
            let items = (0..array.len() as i64).map(|i| array.read(cx, i));
            let items: Vec<Tensor> = items.collect::<Result<_, _>>()?;
            let (value, lengths) =
                concatenated(cx.memory(), array.dtype, &items, &array.declared_shape())?;
            Ok(vec![value, lengths])
        }),
        on_host(),
    ],
};
