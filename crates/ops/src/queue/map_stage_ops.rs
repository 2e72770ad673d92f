//! MapStage, MapPeek, MapUnstage, MapUnstageNoKey, MapSize, MapIncompleteSize, MapClear, and the same of OrderedMap.
//! Both take the smallest key first.

use std::sync::{Arc, Mutex};

use thalweg_device::{Kernel, KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient, arg_of, args_of, types_attr};
use thalweg_tensor::{DType, Tensor};

use super::queues::shared_name;
use super::stage_ops::{ATTRS, ATTRS_OF_ANY_TYPES, CAPACITY, CONTAINER, MEMORY_LIMIT, SHARED_NAME};
use super::staging_map::StagingMap;

const STAGE_ATTRS: &[AttrDef] = &[
    CAPACITY,
    MEMORY_LIMIT,
    types_attr("dtypes"),
    types_attr("fake_dtypes"),
    CONTAINER,
    SHARED_NAME,
];
const KEY: Arg = arg_of("key", DType::I64);
const INDICES: Arg = arg_of("indices", DType::I32);
const VALUES: Arg = args_of("values", "dtypes");
const STAGED: &[Arg] = &[KEY, INDICES, args_of("values", "fake_dtypes")];

const MAP_OP: OpDef = OpDef {
    attrs: ATTRS,
    gradient: Gradient::None,
    effect: Effect::Blocking,
    ..OpDef::EMPTY
};

/// Staging map of the node's name; created on first use.
fn staging_map(cx: &TensorCx<'_>) -> Result<Arc<StagingMap>, KernelError> {
    let attrs = cx.attrs();
    let size = |attr| usize::try_from(attrs.int(attr)).unwrap_or(0);
    let (container, name) = (attrs.str("container"), shared_name(cx));
    let thing = cx.environment().object(container, name, &mut || {
        Ok(Arc::new(StagingMap {
            capacity: size("capacity"),
            bytes: size("memory_limit"),
            state: Mutex::default(),
        }))
    })?;
    thing.downcast().map_err(|_| {
        KernelError::Invalid(format!("'{name}' is no staging map: give it another name"))
    })
}

/// Fails unless values have the dtypes that the node declares.
fn typed(cx: &TensorCx<'_>, values: Vec<Tensor>) -> Result<Vec<Tensor>, KernelError> {
    let (dtypes, found) = (cx.attrs().types("dtypes"), values.iter().map(Tensor::dtype));
    match found.eq(dtypes.iter().copied()) {
        true => Ok(values),
        false => Err(KernelError::Invalid(format!(
            "the components have other dtypes than the {dtypes:?} of the node"
        ))),
    }
}

/// The key in input 0.
fn key(cx: &TensorCx<'_>) -> Result<i64, KernelError> {
    let key = cx.tensor(0)?;
    match key.len() {
        1 => cx.int(0),
        _ => Err(KernelError::Invalid(format!(
            "key must be an int64 scalar, got tensor with shape: {}",
            key.shape()
        ))),
    }
}

fn stage(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let values = (2..cx.inputs()).map(|i| cx.held(i));
    let values = values.collect::<Result<_, _>>()?;
    let dtypes = cx.attrs().types("dtypes");
    staging_map(cx)?.put(cx, key(cx)?, &cx.ints(1)?, values, dtypes)?;
    Ok(Vec::new())
}

fn take(cx: &TensorCx<'_>, keep: bool) -> Result<Vec<Tensor>, KernelError> {
    let values = staging_map(cx)?.take(cx, key(cx)?, &cx.ints(1)?, keep)?;
    typed(cx, values)
}

fn take_first(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (key, values) = staging_map(cx)?.take_first(cx, &cx.ints(0)?)?;
    let mut all = typed(cx, values)?;
    all.insert(0, Tensor::scalar(key));
    Ok(all)
}

fn size(cx: &TensorCx<'_>, which: usize) -> Result<Vec<Tensor>, KernelError> {
    let size = staging_map(cx)?.sizes()[which];
    Ok(vec![Tensor::scalar(size as i32)])
}

const STAGE_KERNELS: &[Kernel] = &[cpu_tensors(stage)];
const PEEK_KERNELS: &[Kernel] = &[cpu_tensors(|cx| take(cx, true))];
const UNSTAGE_KERNELS: &[Kernel] = &[cpu_tensors(|cx| take(cx, false))];
const FIRST_KERNELS: &[Kernel] = &[cpu_tensors(take_first)];
const SIZE_KERNELS: &[Kernel] = &[cpu_tensors(|cx| size(cx, 0))];
const INCOMPLETE_SIZE_KERNELS: &[Kernel] = &[cpu_tensors(|cx| size(cx, 1))];
const CLEAR_KERNELS: &[Kernel] = &[cpu_tensors(|cx| {
    staging_map(cx)?.clear();
    Ok(Vec::new())
})];

/// Op that stores components.
const fn stage_op(name: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "Stores components of the entry of a key of a staging map as soon as there is room.",
            inputs: STAGED,
            attrs: STAGE_ATTRS,
            ..MAP_OP
        },
        kernels: STAGE_KERNELS,
    }
}

/// Op that reads components.
const fn peek_op(name: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "Components of the entry of a key of a staging map, as soon as it is complete.",
            inputs: &[KEY, INDICES],
            outputs: &[VALUES],
            ..MAP_OP
        },
        kernels: PEEK_KERNELS,
    }
}

/// Op that removes components.
const fn unstage_op(name: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "Removes components of the entry of a key of a staging map, as soon as it is complete.",
            inputs: &[KEY, INDICES],
            outputs: &[VALUES],
            ..MAP_OP
        },
        kernels: UNSTAGE_KERNELS,
    }
}

/// Op that removes components of the first entry.
const fn unstage_no_key_op(name: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "Removes components of the entry with the smallest key of a staging map, as soon as there is one.",
            inputs: &[INDICES],
            outputs: &[KEY, VALUES],
            ..MAP_OP
        },
        kernels: FIRST_KERNELS,
    }
}

/// Base definition of an op that does not wait.
const COUNT_OP: OpDef = OpDef {
    outputs: &[arg_of("size", DType::I32)],
    attrs: ATTRS_OF_ANY_TYPES,
    shape: crate::support::shapes::scalar,
    effect: Effect::Stateful,
    ..MAP_OP
};

/// Op that counts complete entries.
const fn size_op(name: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "The number of complete entries of a staging map.",
            ..COUNT_OP
        },
        kernels: SIZE_KERNELS,
    }
}

/// Op that counts incomplete entries.
const fn incomplete_size_op(name: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "The number of incomplete entries of a staging map.",
            ..COUNT_OP
        },
        kernels: INCOMPLETE_SIZE_KERNELS,
    }
}

/// Op that removes all entries.
const fn clear_op(name: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "Removes all entries of a staging map.",
            outputs: &[],
            ..COUNT_OP
        },
        kernels: CLEAR_KERNELS,
    }
}

pub(crate) static STAGE: Op = stage_op("MapStage");
pub(crate) static PEEK: Op = peek_op("MapPeek");
pub(crate) static UNSTAGE: Op = unstage_op("MapUnstage");
pub(crate) static UNSTAGE_NO_KEY: Op = unstage_no_key_op("MapUnstageNoKey");
pub(crate) static SIZE: Op = size_op("MapSize");
pub(crate) static INCOMPLETE_SIZE: Op = incomplete_size_op("MapIncompleteSize");
pub(crate) static CLEAR: Op = clear_op("MapClear");
pub(crate) static ORDERED_STAGE: Op = stage_op("OrderedMapStage");
pub(crate) static ORDERED_PEEK: Op = peek_op("OrderedMapPeek");
pub(crate) static ORDERED_UNSTAGE: Op = unstage_op("OrderedMapUnstage");
pub(crate) static ORDERED_UNSTAGE_NO_KEY: Op = unstage_no_key_op("OrderedMapUnstageNoKey");
pub(crate) static ORDERED_SIZE: Op = size_op("OrderedMapSize");
pub(crate) static ORDERED_INCOMPLETE_SIZE: Op = incomplete_size_op("OrderedMapIncompleteSize");
pub(crate) static ORDERED_CLEAR: Op = clear_op("OrderedMapClear");
