//! EmptyTensorList, TensorListReserve, TensorListPushBack, TensorListPopBack, TensorListGetItem, TensorListSetItem,
//! TensorListLength, TensorListElementShape, TensorListResize.
//! A loop passes lists of tensors from iteration to iteration. A list is immutable: each op returns a new one.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors, on_host};
use thalweg_graph::op::{Arg, Gradient, arg, arg_of, bool_attr, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::list_gradient;
use super::list_items::Items;
use crate::support::tensors::unwritten;

/// Maximum number of elements of one list.
const MAX_ELEMENTS: usize = 1 << 24;

/// A list of tensors; some may be absent.
#[derive(Clone)]
pub(super) struct TensorList {
    pub(super) dtype: DType,
    /// Known part of the shape of the elements.
    pub(super) shape: Shape,
    /// Maximum number of elements; negative for no limit.
    pub(super) max_elements: i64,
    pub(super) items: Items,
}

impl TensorList {
    /// The list as the only output of a kernel.
    pub(super) fn output(self) -> Result<Vec<Tensor>, KernelError> {
        Ok(vec![self.value()?])
    }

    /// The list as a variant tensor.
    pub(super) fn value(self) -> Result<Tensor, KernelError> {
        let nesting = self.items.nesting();
        Ok(Tensor::variant(Arc::new(self), nesting)?)
    }

    /// Element at an index; zeros if it is absent.
    pub(super) fn item(
        &self,
        cx: &TensorCx<'_>,
        i: usize,
        shape: &Shape,
    ) -> Result<Tensor, KernelError> {
        if i >= self.items.len() {
            return Err(self.no_such_element(i as i64));
        }
        if let Some(item) = self.items.get(i) {
            return match shape.admits(item.dims()) {
                true => Ok(item.clone()),
                false => Err(KernelError::Invalid(format!(
                    "element {i} has shape {}, not {shape}",
                    item.shape()
                ))),
            };
        }
        let shape = self.shape.merge(shape).unwrap_or_default();
        // If nothing else gives the shape, an element that is present does.
        let like = self.items.iter().flatten().next().map(|t| t.dims().into());
        let dims = shape.to_dims().or(like).ok_or_else(|| {
            KernelError::Invalid(format!(
                "element {i} was never set, and its shape {shape} is not known"
            ))
        })?;
        unwritten(cx.memory(), self.dtype, &dims)
    }

    pub(super) fn no_such_element(&self, i: i64) -> KernelError {
        KernelError::Invalid(format!(
            "there is no element {i} in a list of {}",
            self.items.len()
        ))
    }

    pub(super) fn check(&self, item: &Tensor) -> Result<(), KernelError> {
        item.check_can_be_held()?;
        if item.dtype() != self.dtype || !self.shape.admits(item.dims()) {
            return Err(KernelError::Invalid(format!(
                "a list of {}{} does not take {}{}",
                self.dtype,
                self.shape,
                item.dtype(),
                item.shape()
            )));
        }
        Ok(())
    }
}

/// Shape given by an input: -1 for an unknown dimension, a scalar -1 for an unknown rank.
pub(super) fn shape_input(cx: &TensorCx<'_>, i: usize) -> Result<Shape, KernelError> {
    let dims = cx.ints(i)?;
    if cx.tensor(i)?.dims().is_empty() {
        return match dims[..] {
            [-1] => Ok(Shape::unknown()),
            _ => Err(KernelError::Invalid("a scalar shape must be -1".to_owned())),
        };
    }
    Ok(Shape::partial(
        dims.iter().map(|&d| usize::try_from(d).ok()),
    ))
}

/// List at input `i`.
pub(super) fn list_at(cx: &TensorCx<'_>, i: usize) -> Result<Arc<TensorList>, KernelError> {
    cx.object::<TensorList>(i)
}

fn index(cx: &TensorCx<'_>, list: &TensorList, i: usize) -> Result<usize, KernelError> {
    let at = cx.int(i)?;
    usize::try_from(at)
        .ok()
        .filter(|&at| at < list.items.len())
        .ok_or_else(|| list.no_such_element(at))
}

/// Base definition of a list op.
pub(super) const LIST_OP: OpDef = OpDef::EMPTY;

/// Input that is a list.
pub(super) const INPUT: Arg = arg_of("input_handle", DType::Variant);
/// Output that is a list.
pub(super) const OUTPUT: Arg = arg_of("output_handle", DType::Variant);

/// Makes the first output a scalar.
pub(super) fn scalar(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.set(0, Shape::scalar());
    Ok(())
}

/// Shape that input `i` gives, as far as it is known when the graph is built.
pub(super) fn inferred_shape_input(cx: &Infer<'_>, i: usize) -> Shape {
    let is_vector = cx.shape(i).dims().is_some_and(|dims| dims.len() == 1);
    match cx.ints(i).filter(|_| is_vector) {
        Some(dims) => Shape::partial(dims.iter().map(|&d| usize::try_from(d).ok())),
        None => Shape::unknown(),
    }
}

/// Number of elements: not negative, and no more than the maximum.
pub(super) fn element_count(n: i64) -> Result<usize, KernelError> {
    usize::try_from(n)
        .ok()
        .filter(|&n| n <= MAX_ELEMENTS)
        .ok_or_else(|| {
            KernelError::Invalid(format!(
                "a list has between 0 and {MAX_ELEMENTS} elements, not {n}"
            ))
        })
}

/// Creates a list without elements.
pub(crate) static EMPTY: Op = Op {
    def: OpDef {
        name: "EmptyTensorList",
        summary: "A list without elements.",
        inputs: &[
            arg("element_shape", "shape_type"),
            arg_of("max_num_elements", DType::I32),
        ],
        outputs: &[arg_of("handle", DType::Variant)],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            type_attr("shape_type", DType::INDICES),
        ],
        shape: scalar,
        gradient: Gradient::None,
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            TensorList {
                dtype: cx.attrs().dtype("element_dtype").unwrap_or(DType::F32),
                shape: shape_input(cx, 0)?,
                max_elements: cx.int(1)?,
                items: Items::absent(0, cx.memory())?,
            }
            .output()
        }),
        on_host(),
    ],
};

/// Creates a list of absent elements.
pub(crate) static RESERVE: Op = Op {
    def: OpDef {
        name: "TensorListReserve",
        summary: "A list of n absent elements.",
        inputs: &[
            arg("element_shape", "shape_type"),
            arg_of("num_elements", DType::I32),
        ],
        outputs: &[arg_of("handle", DType::Variant)],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            type_attr("shape_type", DType::INDICES),
        ],
        shape: scalar,
        gradient: Gradient::None,
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            TensorList {
                dtype: cx.attrs().dtype("element_dtype").unwrap_or(DType::F32),
                shape: shape_input(cx, 0)?,
                max_elements: -1,
                items: Items::absent(element_count(cx.int(1)?)?, cx.memory())?,
            }
            .output()
        }),
        on_host(),
    ],
};

/// Appends an element.
pub(crate) static PUSH_BACK: Op = Op {
    def: OpDef {
        name: "TensorListPushBack",
        summary: "The list with one more element at its end.",
        inputs: &[INPUT, arg("tensor", "element_dtype")],
        outputs: &[OUTPUT],
        attrs: &[type_attr("element_dtype", &DType::ALL)],
        shape: scalar,
        gradient: Gradient::Rule(list_gradient::push_back),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (list, item) = (list_at(cx, 0)?, cx.held(1)?);
            list.check(&item)?;
            if usize::try_from(list.max_elements)
                .is_ok_and(|max_elements| list.items.len() >= max_elements)
            {
                return Err(KernelError::Invalid(format!(
                    "the list takes {} elements and has them",
                    list.max_elements
                )));
            }
            element_count(list.items.len() as i64 + 1)?;
            let mut list = TensorList::clone(&list);
            list.items.push(item)?;
            list.output()
        }),
        on_host(),
    ],
};

/// Removes the last element, and returns it too.
pub(crate) static POP_BACK: Op = Op {
    def: OpDef {
        name: "TensorListPopBack",
        summary: "The list without its last element, and that element.",
        inputs: &[INPUT, arg_of("element_shape", DType::I32)],
        outputs: &[OUTPUT, arg("tensor", "element_dtype")],
        attrs: &[type_attr("element_dtype", &DType::ALL)],
        shape: scalar,
        gradient: Gradient::Rule(list_gradient::pop_back),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let list = list_at(cx, 0)?;
            let Some(last) = list.items.len().checked_sub(1) else {
                return Err(KernelError::Invalid("the list is empty".to_owned()));
            };
            let item = list.item(cx, last, &shape_input(cx, 1)?)?;
            let mut list = TensorList::clone(&list);
            list.items.resize(last)?;
            let mut given = list.output()?;
            given.push(item);
            Ok(given)
        }),
        on_host(),
    ],
};

/// Reads an element.
pub(crate) static GET_ITEM: Op = Op {
    def: OpDef {
        name: "TensorListGetItem",
        summary: "An element of a list.",
        inputs: &[
            INPUT,
            arg_of("index", DType::I32),
            arg("element_shape", "Tshape"),
        ],
        outputs: &[arg("item", "element_dtype")],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            type_attr_or("Tshape", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            cx.set(0, inferred_shape_input(cx, 2));
            Ok(())
        },
        gradient: Gradient::Rule(list_gradient::get_item),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let list = list_at(cx, 0)?;
            let at = index(cx, &list, 1)?;
            Ok(vec![list.item(cx, at, &shape_input(cx, 2)?)?])
        }),
        on_host(),
    ],
};

/// Replaces an element.
pub(crate) static SET_ITEM: Op = Op {
    def: OpDef {
        name: "TensorListSetItem",
        summary: "The list with another element at an index.",
        inputs: &[
            INPUT,
            arg_of("index", DType::I32),
            arg("item", "element_dtype"),
        ],
        outputs: &[OUTPUT],
        attrs: &[
            type_attr("element_dtype", &DType::ALL),
            bool_attr("resize_if_index_out_of_bounds", false),
        ],
        shape: scalar,
        gradient: Gradient::Rule(list_gradient::set_item),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let list = list_at(cx, 0)?;
            let item = cx.held(2)?;
            list.check(&item)?;
            let mut list = TensorList::clone(&list);
            let at = cx.int(1)?;
            if cx.attrs().bool("resize_if_index_out_of_bounds") && at >= list.items.len() as i64 {
                list.items.resize(element_count(at.saturating_add(1))?)?;
            }
            let at = index(cx, &list, 1)?;
            list.items.set(at, item)?;
            list.output()
        }),
        on_host(),
    ],
};

/// Number of elements.
pub(crate) static LENGTH: Op = Op {
    def: OpDef {
        name: "TensorListLength",
        summary: "The number of a list's elements.",
        inputs: &[INPUT],
        outputs: &[arg_of("length", DType::I32)],
        shape: scalar,
        gradient: Gradient::None,
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![Tensor::scalar(list_at(cx, 0)?.items.len() as i32)])),
        on_host(),
    ],
};

/// Known part of the shape of the elements.
pub(crate) static ELEMENT_SHAPE: Op = Op {
    def: OpDef {
        name: "TensorListElementShape",
        summary: "The shape of a list's elements; -1 for unknown dimensions.",
        inputs: &[INPUT],
        outputs: &[arg("element_shape", "shape_type")],
        attrs: &[type_attr("shape_type", DType::INDICES)],
        gradient: Gradient::None,
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let list = list_at(cx, 0)?;
            let number = |d: &Option<usize>| d.map_or(-1, |d| d as i64);
            let dims: Option<Vec<i64>> = list.shape.dims().map(|d| d.iter().map(number).collect());
            let wide = cx.attrs().dtype("shape_type") == Some(DType::I64);
            Ok(vec![match (dims, wide) {
                (None, true) => Tensor::scalar(-1i64),
                (None, false) => Tensor::scalar(-1i32),
                (Some(dims), true) => Tensor::vector(&dims),
                (Some(dims), false) => {
                    Tensor::vector(&dims.iter().map(|&d| d as i32).collect::<Vec<_>>())
                }
            }])
        }),
        on_host(),
    ],
};

/// Changes the number of elements.
pub(crate) static RESIZE: Op = Op {
    def: OpDef {
        name: "TensorListResize",
        summary: "The list with n elements: its first ones, and absent ones after them.",
        inputs: &[INPUT, arg_of("size", DType::I32)],
        outputs: &[OUTPUT],
        shape: scalar,
        gradient: Gradient::Rule(list_gradient::resize),
        ..LIST_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let list = list_at(cx, 0)?;
            let mut list = TensorList::clone(&list);
            list.items.resize(element_count(cx.int(1)?)?)?;
            list.output()
        }),
        on_host(),
    ],
};
