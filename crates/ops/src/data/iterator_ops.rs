//! Iterator, IteratorV2, OneShotIterator, MakeIterator, IteratorGetNext, IteratorGetNextSync, IteratorGetNextAsOptional,
//! IteratorToStringHandle, IteratorFromStringHandle and its V2, IteratorGetDevice, SerializeIterator,
//! DeserializeIterator.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, arg_of, args_of, attr, int_attr, list_attr, str_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::anonymous_iterators;
use super::dataset::{Row, SHAPES, TYPES, input, of_tensor};
use super::iterator::{DatasetIterator, ITERATOR_OP};
use crate::files::iterator_position::Position;
use crate::flow::Optional;
use crate::queue::{resource_handle, shared_name};

const ITERATOR: Arg = arg_of("iterator", DType::Resource);
const RESOURCE_HANDLE: Arg = arg_of("resource_handle", DType::Resource);
const CONTAINER: AttrDef = attr("container", AttrKind::Str);
const SHARED_NAME: AttrDef = attr("shared_name", AttrKind::Str);
const MAYBE_TYPES: AttrDef = list_attr("output_types", AttrKind::Types);

/// First word of an iterator's string handle.
const STRING_HANDLE: &str = "iterator";

/// Base definition of an op that makes a scalar of an iterator.
const SCALAR_OP: OpDef = OpDef {
    inputs: &[RESOURCE_HANDLE],
    shape: crate::support::shapes::scalar,
    ..ITERATOR_OP
};

fn handle(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let container = cx.attrs().str("container");
    resource_handle(cx, &|name| {
        Ok(Arc::new(DatasetIterator::new(container, name)) as SharedObject)
    })
}

/// The handle of an iterator that has started on the dataset of attribute `dataset_factory`.
fn one_shot(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let made = handle(cx)?;
    let iterator = made
        .first()
        .and_then(Tensor::object::<DatasetIterator>)
        .ok_or_else(|| {
            KernelError::Invalid(format!(
                "'{}' is no iterator: give this one another shared_name",
                shared_name(cx)
            ))
        })?;
    iterator.start_once(cx, || {
        let factory = cx.attrs().func("dataset_factory");
        let factory = factory.ok_or(KernelError::Argument("a function"))?;
        of_tensor(cx.environment().call(factory, Vec::new(), None)?.first())
    })?;
    Ok(made)
}

/// Fails unless an element has the dtypes and shapes that the node declares.
pub(super) fn check(cx: &TensorCx<'_>, row: &Row) -> Result<(), KernelError> {
    let (types, shapes) = (
        cx.attrs().types("output_types"),
        cx.attrs().shapes("output_shapes"),
    );
    if types.len() != row.len() {
        return Err(KernelError::Invalid(format!(
            "the element has {} components, and output_types says {}",
            row.len(),
            types.len()
        )));
    }
    for (i, (tensor, dtype)) in row.iter().zip(types).enumerate() {
        if tensor.dtype() != *dtype || shapes.get(i).is_some_and(|s| !s.admits(tensor.dims())) {
            return Err(KernelError::Invalid(format!(
                "component {i} of the element is {}{}, and the node says {dtype}{}",
                tensor.dtype(),
                tensor.shape(),
                shapes.get(i).cloned().unwrap_or_default()
            )));
        }
    }
    Ok(())
}

fn next(cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
    let row = cx.object::<DatasetIterator>(0)?.next(cx)?;
    row.as_ref().map_or(Ok(()), |row| check(cx, row))?;
    Ok(row)
}

fn get_next(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    next(cx)?.ok_or_else(|| {
        KernelError::OutOfRange("End of sequence: the dataset has no more elements".to_owned())
    })
}

/// Sets the shapes that attribute `output_shapes` gives.
pub(super) fn declared_shapes(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shapes = cx.attrs().shapes("output_shapes");
    if shapes.len() == cx.outputs() {
        for (i, shape) in shapes.iter().enumerate() {
            cx.set(i, shape.clone());
        }
    }
    Ok(())
}

fn from_string(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let wrong = || {
        KernelError::Invalid(
            "this is no handle of an iterator: feed what IteratorToStringHandle (Iterator.string_handle) returns"
                .to_owned(),
        )
    };
    let Some(text) = cx.strings(0)?.only() else {
        return Err(wrong());
    };
    let text = std::str::from_utf8(text).map_err(|_| wrong())?;
    if let Some((anonymous_iterators::STRING_HANDLE, number)) = text.split_once('\n') {
        let object = anonymous_iterators::named(cx, number)?;
        return Ok(vec![Tensor::handle(DType::Resource, object)?]);
    }
    let mut words = text.splitn(3, '\n');
    let (Some(STRING_HANDLE), Some(container), Some(name)) =
        (words.next(), words.next(), words.next())
    else {
        return Err(wrong());
    };
    let object = cx.environment().object(container, name, &mut || {
        Err(KernelError::NotFound(format!(
            "there is no iterator '{name}': run its initializer first"
        )))
    })?;
    Ok(vec![Tensor::handle(DType::Resource, object)?])
}

/// A handle of an iterator by name.
pub(crate) static ITERATOR_V1: Op = Op {
    def: OpDef {
        name: "Iterator",
        summary: "An iterator; MakeIterator gives it a dataset.",
        outputs: &[arg_of("handle", DType::Resource)],
        attrs: &[SHARED_NAME, CONTAINER, TYPES, SHAPES],
        shape: crate::support::shapes::scalar,
        ..ITERATOR_OP
    },
    kernels: &[cpu_tensors(handle)],
};

/// As [`ITERATOR_V1`].
pub(crate) static ITERATOR_V2: Op = Op {
    def: OpDef {
        name: "IteratorV2",
        ..ITERATOR_V1.def
    },
    kernels: &[cpu_tensors(handle)],
};

/// An iterator that starts by itself.
pub(crate) static ONE_SHOT: Op = Op {
    def: OpDef {
        name: "OneShotIterator",
        summary: "An iterator over the dataset that a function makes.",
        attrs: &[
            attr("dataset_factory", AttrKind::Func),
            TYPES,
            SHAPES,
            str_attr("container", "", &[]),
            str_attr("shared_name", "", &[]),
        ],
        ..ITERATOR_V1.def
    },
    kernels: &[cpu_tensors(one_shot)],
};

/// The start of a pass.
pub(crate) static MAKE: Op = Op {
    def: OpDef {
        name: "MakeIterator",
        summary: "Starts an iterator at the first element of a dataset.",
        inputs: &[arg_of("dataset", DType::Variant), ITERATOR],
        ..ITERATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        cx.object::<DatasetIterator>(1)?.start(cx, input(cx, 0)?)?;
        Ok(Vec::new())
    })],
};

/// The next element.
pub(crate) static GET_NEXT: Op = Op {
    def: OpDef {
        name: "IteratorGetNext",
        summary: "The next element of an iterator's dataset; at the end an error of code OUT_OF_RANGE.",
        inputs: &[ITERATOR],
        outputs: &[args_of("components", "output_types")],
        attrs: &[TYPES, SHAPES],
        shape: declared_shapes,
        ..ITERATOR_OP
    },
    kernels: &[cpu_tensors(get_next)],
};

/// As [`GET_NEXT`].
pub(crate) static GET_NEXT_SYNC: Op = Op {
    def: OpDef {
        name: "IteratorGetNextSync",
        ..GET_NEXT.def
    },
    kernels: &[cpu_tensors(get_next)],
};

/// The next element, or nothing.
pub(crate) static GET_NEXT_AS_OPTIONAL: Op = Op {
    def: OpDef {
        name: "IteratorGetNextAsOptional",
        summary: "The next element of an iterator's dataset as an optional, which is empty at the end.",
        inputs: &[ITERATOR],
        outputs: &[arg_of("optional", DType::Variant)],
        attrs: &[TYPES, SHAPES],
        shape: crate::support::shapes::scalar,
        ..ITERATOR_OP
    },
    kernels: &[cpu_tensors(|cx| Ok(vec![Optional(next(cx)?).value()?]))],
};

/// A string that names an iterator.
pub(crate) static TO_STRING_HANDLE: Op = Op {
    def: OpDef {
        name: "IteratorToStringHandle",
        summary: "A string that names an iterator, to be fed to IteratorFromStringHandle.",
        outputs: &[arg_of("string_handle", DType::String)],
        ..SCALAR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let iterator = cx.object::<DatasetIterator>(0)?;
        let text = match iterator.number {
            Some(number) => anonymous_iterators::string_handle(cx, number, iterator)?,
            None => format!("{STRING_HANDLE}\n{}\n{}", iterator.container, iterator.name),
        };
        Ok(vec![cx.strings_of(&[], [text])?])
    })],
};

/// The iterator that a string names.
pub(crate) static FROM_STRING_HANDLE: Op = Op {
    def: OpDef {
        name: "IteratorFromStringHandle",
        summary: "The iterator that a string names.",
        inputs: &[arg_of("string_handle", DType::String)],
        outputs: &[RESOURCE_HANDLE],
        attrs: &[MAYBE_TYPES, SHAPES],
        shape: crate::support::shapes::scalar,
        ..ITERATOR_OP
    },
    kernels: &[cpu_tensors(from_string)],
};

/// As [`FROM_STRING_HANDLE`].
pub(crate) static FROM_STRING_HANDLE_V2: Op = Op {
    def: OpDef {
        name: "IteratorFromStringHandleV2",
        ..FROM_STRING_HANDLE.def
    },
    kernels: &[cpu_tensors(from_string)],
};

/// The device of an iterator.
pub(crate) static GET_DEVICE: Op = Op {
    def: OpDef {
        name: "IteratorGetDevice",
        summary: "The name of the device that an iterator is on.",
        inputs: &[arg_of("resource", DType::Resource)],
        outputs: &[arg_of("device", DType::String)],
        ..SCALAR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        cx.object::<DatasetIterator>(0)?;
        Ok(vec![cx.strings_of(&[], [cx.environment().device()])?])
    })],
};

/// A position.
pub(crate) static SERIALIZE: Op = Op {
    def: OpDef {
        name: "SerializeIterator",
        summary: "The position of an iterator: the number of elements that were taken.",
        outputs: &[arg_of("serialized", DType::Variant)],
        attrs: &[int_attr("external_state_policy", 0)],
        ..SCALAR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let position = cx.object::<DatasetIterator>(0)?.position(cx)?;
        Ok(vec![Position(position).into_tensor()?])
    })],
};

/// The move to a position.
pub(crate) static DESERIALIZE: Op = Op {
    def: OpDef {
        name: "DeserializeIterator",
        summary: "Starts an iterator anew at a position of its dataset.",
        inputs: &[RESOURCE_HANDLE, arg_of("serialized", DType::Variant)],
        ..ITERATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let position = cx.object::<Position>(1)?.0;
        cx.object::<DatasetIterator>(0)?.seek(cx, position)?;
        Ok(Vec::new())
    })],
};
