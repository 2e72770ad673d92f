//! TensorListScatter, TensorListConcat, TensorListConcatLists, TensorListPushBackBatch.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors, on_host};
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::list_gradient;
use super::rows::rows;
use super::tensor_array::shape_attr;
use super::tensor_list::{INPUT, LIST_OP, OUTPUT, TensorList, scalar};
use super::tensor_list_parts::{all_in_one, scattered};

/// Makes a list of the rows of a tensor, at the given indices.
pub(crate) static SCATTER_V1: Op = Op {
    def: OpDef {
        name: "TensorListScatter",
        summary: "A list with the rows of a tensor at the given indices.",
        inputs: &[
            arg("tensor", "element_dtype"),
            arg_of("indices", DType::I32),
            arg("element_shape", "shape_type"),
        ],
        outputs: &[OUTPUT],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            type_attr("shape_type", DType::INDICES),
        ],
        shape: scalar,
        gradient: Gradient::Rule(list_gradient::scatter),
        ..LIST_OP
    },
    kernels: &[cpu_tensors(|cx| scattered(cx, -1)), on_host()],
};

/// Concatenates the elements of a list.
pub(crate) static CONCAT_V1: Op = Op {
    def: OpDef {
        name: "TensorListConcat",
        summary: "The elements of a list, concatenated, and the number of rows of each.",
        inputs: &[INPUT],
        outputs: &[
            arg("tensor", "element_dtype"),
            arg_of("lengths", DType::I64),
        ],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            shape_attr("element_shape"),
        ],
        gradient: Gradient::Rule(list_gradient::concat),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| all_in_one(cx, &cx.attrs().shape("element_shape"), &[])),
        on_host(),
    ],
};

/// Lists of a variant tensor at input `i`.
fn lists(cx: &TensorCx<'_>, i: usize) -> Result<Vec<Arc<TensorList>>, KernelError> {
    let handles = cx.tensor(i)?;
    let list = |at: usize| {
        let one = handles.handle_at(at);
        let list = one.and_then(|one| one.object::<TensorList>());
        list.ok_or_else(|| KernelError::Invalid(format!("element {at} of input {i} is no list")))
    };
    (0..handles.len()).map(list).collect()
}

/// Lists as a tensor of the dimensions of input 0.
fn outputs(cx: &TensorCx<'_>, lists: Vec<TensorList>) -> Result<Vec<Tensor>, KernelError> {
    let values: Result<Vec<Tensor>, _> = lists.into_iter().map(TensorList::value).collect();
    let dims = cx.tensor(0)?.dims();
    Ok(vec![Tensor::handles(
        DType::Variant,
        dims,
        values?,
        Some(cx.memory()),
    )?])
}

fn same_shapes(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = cx.same(0, 1)?;
    cx.set(0, shape);
    Ok(())
}

/// Appends lists to lists.
pub(crate) static CONCAT_LISTS: Op = Op {
    def: OpDef {
        name: "TensorListConcatLists",
        summary: "Each list of the first input, and behind its elements those of the second input's.",
        inputs: &[
            arg_of("input_a", DType::Variant),
            arg_of("input_b", DType::Variant),
        ],
        outputs: &[arg_of("output", DType::Variant)],
        attrs: &[type_attr("element_dtype", &DType::ALL)],
        shape: same_shapes,
        gradient: Gradient::None,
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (first, second) = (lists(cx, 0)?, lists(cx, 1)?);
            if first.len() != second.len() {
                return Err(KernelError::Argument(
                    "as many lists as there are first ones",
                ));
            }
            let dtype = cx.attrs().dtype("element_dtype");
            let mut all = Vec::with_capacity(first.len());
            for (a, b) in first.iter().zip(&second) {
                let mut list = TensorList::clone(a);
                if let Some(other) = [a.dtype, b.dtype].into_iter().find(|d| Some(*d) != dtype) {
                    return Err(KernelError::Invalid(format!(
                        "a list has elements of {other}, not of the node's element_dtype"
                    )));
                }
                for (i, item) in b.items.iter().enumerate() {
                    match item {
                        Some(item) => {
                            list.check(item)?;
                            list.items.push(item.clone())?;
                        }
                        None => list.items.resize(a.items.len() + i + 1)?,
                    }
                }
                all.push(list);
            }
            outputs(cx, all)
        }),
        on_host(),
    ],
};

/// Appends a row to each list.
pub(crate) static PUSH_BACK_BATCH: Op = Op {
    def: OpDef {
        name: "TensorListPushBackBatch",
        summary: "Each list of the first input with a row of the second one behind its elements.",
        inputs: &[
            arg_of("input_handles", DType::Variant),
            arg("tensor", "element_dtype"),
        ],
        outputs: &[arg_of("output_handles", DType::Variant)],
        attrs: &[type_attr("element_dtype", &DType::ALL)],
        shape: |cx| {
            let shape = cx.ranked(0, 1)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (lists, tensor) = (lists(cx, 0)?, cx.held(1)?);
            let rows = rows(cx.memory(), &tensor)?;
            if rows.len() != lists.len() {
                return Err(KernelError::Invalid(format!(
                    "{} rows for {} lists",
                    rows.len(),
                    lists.len()
                )));
            }
            let mut all = Vec::with_capacity(lists.len());
            for (list, row) in lists.iter().zip(rows) {
                let mut list = TensorList::clone(list);
                list.check(&row)?;
                list.items.push(row)?;
                all.push(list);
            }
            outputs(cx, all)
        }),
        on_host(),
    ],
};
