//! TensorListStack, TensorListFromTensor, TensorListGather, TensorListScatterV2, TensorListScatterIntoExistingList,
//! TensorListConcatV2, TensorListSplit.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors, on_host};
use thalweg_graph::op::{Gradient, arg, arg_of, int_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor};

use super::list_gradient;
use super::list_items::Items;
use super::rows::{concatenated, rows, split, stacked};
use super::tensor_list::{
    INPUT, LIST_OP, OUTPUT, TensorList, element_count, inferred_shape_input, list_at, scalar,
    shape_input,
};

/// All elements of a list; an absent one is an error if its shape is not known.
fn all_elements(
    cx: &TensorCx<'_>,
    list: &TensorList,
    shape: &Shape,
) -> Result<Vec<Tensor>, KernelError> {
    (0..list.items.len())
        .map(|i| list.item(cx, i, shape))
        .collect()
}

fn merged_shape(list: &TensorList, requested: Shape) -> Shape {
    list.shape.merge(&requested).unwrap_or(requested)
}

/// Shape of `rows` rows, each of the shape that input `i` gives.
fn stack_shape(cx: &mut Infer<'_>, i: usize, rows: Option<usize>) -> Result<(), InferError> {
    if let Some(row) = inferred_shape_input(cx, i).dims() {
        cx.set(0, Shape::partial(std::iter::once(rows).chain(row.to_vec())));
    }
    Ok(())
}

/// Stacks a list into one tensor.
pub(crate) static STACK: Op = Op {
    def: OpDef {
        name: "TensorListStack",
        summary: "The elements of a list as the rows of a tensor.",
        inputs: &[INPUT, arg_of("element_shape", DType::I32)],
        outputs: &[arg("tensor", "element_dtype")],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            int_attr("num_elements", -1),
        ],
        shape: |cx| {
            let rows = usize::try_from(cx.attrs().int("num_elements")).ok();
            stack_shape(cx, 1, rows)
        },
        gradient: Gradient::Rule(list_gradient::stack),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let list = list_at(cx, 0)?;
            let requested = shape_input(cx, 1)?;
            let wanted = cx.attrs().int("num_elements");
            if wanted >= 0 && wanted != list.items.len() as i64 {
                return Err(KernelError::Invalid(format!(
                    "the list has {}, not {wanted} as was said",
                    counted(list.items.len(), "element")
                )));
            }
            let items = all_elements(cx, &list, &requested)?;
            Ok(vec![stacked(
                cx.memory(),
                list.dtype,
                &items,
                &merged_shape(&list, requested),
            )?])
        }),
        on_host(),
    ],
};

/// Makes a list of the rows of a tensor.
pub(crate) static FROM_TENSOR: Op = Op {
    def: OpDef {
        name: "TensorListFromTensor",
        summary: "The rows of a tensor as a list.",
        inputs: &[
            arg("tensor", "element_dtype"),
            arg("element_shape", "shape_type"),
        ],
        outputs: &[OUTPUT],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            type_attr("shape_type", DType::INDICES),
        ],
        shape: scalar,
        gradient: Gradient::Rule(list_gradient::from_tensor),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let tensor = cx.held(0)?;
            let rows = rows(cx.memory(), &tensor)?;
            let requested = shape_input(cx, 1)?;
            let shape = requested
                .merge(&Shape::known(&tensor.dims()[1..]))
                .ok_or_else(|| {
                    KernelError::Invalid(format!(
                        "the rows of {} are not {requested}",
                        tensor.shape()
                    ))
                })?;
            TensorList {
                dtype: tensor.dtype(),
                shape,
                max_elements: -1,
                items: Items::of(rows, cx.memory())?,
            }
            .output()
        }),
        on_host(),
    ],
};

/// Stacks some elements of a list into one tensor.
pub(crate) static GATHER: Op = Op {
    def: OpDef {
        name: "TensorListGather",
        summary: "Some elements of a list as the rows of a tensor.",
        inputs: &[
            INPUT,
            arg_of("indices", DType::I32),
            arg_of("element_shape", DType::I32),
        ],
        outputs: &[arg("values", "element_dtype")],
        attrs: &[type_attr("element_dtype", &DType::ALL)],
        shape: |cx| {
            let indices = cx.shape(1).dims().map(<[_]>::to_vec);
            let rows = indices.and_then(|dims| dims.first().copied().flatten());
            stack_shape(cx, 2, rows)
        },
        gradient: Gradient::Rule(list_gradient::gather),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let list = list_at(cx, 0)?;
            let requested = shape_input(cx, 2)?;
            let item = |i: i64| match usize::try_from(i) {
                Ok(i) => list.item(cx, i, &requested),
                Err(_) => Err(list.no_such_element(i)),
            };
            let items: Result<Vec<Tensor>, _> = cx.ints(1)?.into_iter().map(item).collect();
            Ok(vec![stacked(
                cx.memory(),
                list.dtype,
                &items?,
                &merged_shape(&list, requested.clone()),
            )?])
        }),
        on_host(),
    ],
};

/// Makes a list of the rows of a tensor, at the given indices.
pub(crate) static SCATTER: Op = Op {
    def: OpDef {
        name: "TensorListScatterV2",
        summary: "A list with the rows of a tensor at the given indices.",
        inputs: &[
            arg("tensor", "element_dtype"),
            arg_of("indices", DType::I32),
            arg("element_shape", "shape_type"),
            arg_of("num_elements", DType::I32),
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
    kernels: &[cpu_tensors(|cx| scattered(cx, cx.int(3)?)), on_host()],
};

/// A list with the rows of input 0 at the indices of input 1; its length is negative where it follows from these.
pub(super) fn scattered(cx: &TensorCx<'_>, requested: i64) -> Result<Vec<Tensor>, KernelError> {
    let (tensor, indices) = (cx.held(0)?, cx.ints(1)?);
    let rows = rows(cx.memory(), &tensor)?;
    let last = indices.iter().copied().max().unwrap_or(-1);
    let len = element_count(if requested < 0 {
        last.saturating_add(1)
    } else {
        requested
    })?;
    let mut list = TensorList {
        dtype: tensor.dtype(),
        shape: shape_input(cx, 2)?,
        max_elements: -1,
        items: Items::absent(len, cx.memory())?,
    };
    set_rows(&mut list, &indices, rows)?;
    list.output()
}

/// Sets elements of a list to rows; there must be as many indices as rows.
fn set_rows(list: &mut TensorList, indices: &[i64], rows: Vec<Tensor>) -> Result<(), KernelError> {
    if rows.len() != indices.len() {
        return Err(KernelError::Invalid(format!(
            "{} for {}",
            counted(rows.len(), "row"),
            counted(indices.len(), "place")
        )));
    }
    for (&i, row) in indices.iter().zip(rows) {
        list.check(&row)?;
        let place = usize::try_from(i).ok().filter(|&i| i < list.items.len());
        let place = place.ok_or_else(|| list.no_such_element(i))?;
        list.items.set(place, row)?;
    }
    Ok(())
}

/// Sets elements of an existing list to the rows of a tensor.
pub(crate) static SCATTER_INTO: Op = Op {
    def: OpDef {
        name: "TensorListScatterIntoExistingList",
        summary: "A list with the rows of a tensor at the given indices; it grows if necessary.",
        inputs: &[
            INPUT,
            arg("tensor", "element_dtype"),
            arg_of("indices", DType::I32),
        ],
        outputs: &[OUTPUT],
        attrs: &[type_attr("element_dtype", &DType::ALL)],
        shape: scalar,
        gradient: Gradient::Rule(list_gradient::scatter_into),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let mut list = TensorList::clone(&*list_at(cx, 0)?);
            let indices = cx.ints(2)?;
            let last = indices.iter().copied().max().unwrap_or(-1);
            let len = element_count(last.saturating_add(1).max(list.items.len() as i64))?;
            list.items.resize(len)?;
            set_rows(&mut list, &indices, rows(cx.memory(), &cx.held(1)?)?)?;
            list.output()
        }),
        on_host(),
    ],
};

/// Concatenates the elements of a list.
pub(crate) static CONCAT: Op = Op {
    def: OpDef {
        name: "TensorListConcatV2",
        summary: "The elements of a list, concatenated, and the number of rows of each.",
        inputs: &[
            INPUT,
            arg("element_shape", "shape_type"),
            arg_of("leading_dims", DType::I64),
        ],
        outputs: &[
            arg("tensor", "element_dtype"),
            arg_of("lengths", DType::I64),
        ],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            type_attr("shape_type", DType::INDICES),
        ],
        gradient: Gradient::Rule(list_gradient::concat),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| all_in_one(cx, &shape_input(cx, 1)?, &cx.ints(2)?)),
        on_host(),
    ],
};

/// The elements of the list at input 0 one after the other, and their numbers of rows.
pub(super) fn all_in_one(
    cx: &TensorCx<'_>,
    requested: &Shape,
    leading: &[i64],
) -> Result<Vec<Tensor>, KernelError> {
    let list = list_at(cx, 0)?;
    let mut items = Vec::with_capacity(list.items.len());
    for i in 0..list.items.len() {
        let mut shape = requested.clone();
        // An absent element has the number of rows that this input gives.
        if let (Some(dims), Some(&rows)) = (requested.dims(), leading.get(i))
            && !dims.is_empty()
        {
            let mut dims = dims.to_vec();
            dims[0] = usize::try_from(rows).ok();
            shape = Shape::partial(dims);
        }
        items.push(list.item(cx, i, &shape)?);
    }
    let (tensor, lengths) = concatenated(cx.memory(), list.dtype, &items, requested)?;
    Ok(vec![tensor, lengths])
}

/// Makes a list of pieces of a tensor.
pub(crate) static SPLIT: Op = Op {
    def: OpDef {
        name: "TensorListSplit",
        summary: "A list of pieces of a tensor, with the given numbers of rows.",
        inputs: &[
            arg("tensor", "element_dtype"),
            arg("element_shape", "shape_type"),
            arg_of("lengths", DType::I64),
        ],
        outputs: &[OUTPUT],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            type_attr("shape_type", DType::INDICES),
        ],
        shape: scalar,
        gradient: Gradient::Rule(list_gradient::split),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let tensor = cx.held(0)?;
            let items = split(cx.memory(), &tensor, &cx.ints(2)?)?;
            TensorList {
                dtype: tensor.dtype(),
                shape: shape_input(cx, 1)?,
                max_elements: -1,
                items: Items::of(items, cx.memory())?,
            }
            .output()
        }),
        on_host(),
    ],
};
