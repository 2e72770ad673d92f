//! AddSparseToTensorsMap, AddManySparseToTensorsMap, TakeManySparseFromTensorsMap: sparse tensors that a queue passes on as
//! numbers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient, arg, arg_of, str_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Reservation, Shape, Tensor};

use super::serialized_sparse::{Sparse, rows, stacked};
use super::sparse_input::{SparseInput, infer_sparse, invalid, set_sparse};
use crate::queue::shared_name;
use crate::support::tensors::reserved;

/// Sparse tensors by their handles.
#[derive(Default)]
struct SparseTensorsMap(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    next: i64,
    /// Each with the memory of its entry.
    all: HashMap<i64, (Sparse, Reservation)>,
}

/// Memory of an entry: the map may have twice the places that it uses.
const ENTRY_BYTES: usize = 2 * size_of::<(i64, (Sparse, Reservation))>();

/// The map of the node's container and name.
fn map(cx: &TensorCx<'_>) -> Result<Arc<SparseTensorsMap>, KernelError> {
    let (container, name) = (cx.attrs().str("container"), shared_name(cx));
    let mut make = || Ok(Arc::new(SparseTensorsMap::default()) as _);
    let object = cx.environment().object(container, name, &mut make)?;
    object.downcast::<SparseTensorsMap>().map_err(|_| {
        invalid(format!(
            "'{name}' is no map of sparse tensors: give this one another shared_name"
        ))
    })
}

impl SparseTensorsMap {
    /// Keeps sparse tensors; returns their handles.
    fn add(&self, cx: &TensorCx<'_>, all: Vec<Sparse>) -> Result<Vec<i64>, KernelError> {
        let mut kept = Vec::with_capacity(all.len());
        for sparse in all {
            sparse.iter().try_for_each(Tensor::check_can_be_held)?;
            kept.push((sparse, reserved(ENTRY_BYTES, Some(cx.memory()))?));
        }
        let entries = &mut *self.0.lock().unpoisoned();
        let first = entries.next;
        entries.next += kept.len() as i64;
        let handles = first..entries.next;
        entries.all.extend(handles.clone().zip(kept));
        Ok(handles.collect())
    }

    /// Removes the sparse tensors with these handles; with a handle that is missing, none.
    fn take(&self, handles: &[i64]) -> Result<Vec<Sparse>, KernelError> {
        let entries = &mut *self.0.lock().unpoisoned();
        if let Some(handle) = handles
            .iter()
            .find(|handle| !entries.all.contains_key(handle))
        {
            return Err(invalid(format!("Unable to find SparseTensor: {handle}")));
        }
        let mut all = Vec::with_capacity(handles.len());
        for handle in handles {
            let (sparse, _) = entries
                .all
                .remove(handle)
                .ok_or_else(|| invalid(format!("SparseTensor {handle} is asked for twice")))?;
            all.push(sparse);
        }
        Ok(all)
    }
}

const SPARSE: &[Arg] = &[
    arg_of("sparse_indices", DType::I64),
    arg("sparse_values", "T"),
    arg_of("sparse_shape", DType::I64),
];
const CONTAINER: AttrDef = str_attr("container", "", &[]);
const SHARED_NAME: AttrDef = str_attr("shared_name", "", &[]);

/// Definition of an op that keeps sparse tensors.
const ADD: OpDef = OpDef {
    name: "AddSparseToTensorsMap",
    summary: "Keeps a sparse tensor, and gives its handle.",
    inputs: SPARSE,
    outputs: &[arg_of("sparse_handle", DType::I64)],
    attrs: &[type_attr("T", &DType::ALL), CONTAINER, SHARED_NAME],
    shape: |cx| add_shape(cx, Shape::scalar()),
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

fn add_shape(cx: &mut Infer<'_>, handles: Shape) -> Result<(), InferError> {
    infer_sparse(cx, 0)?;
    cx.set(0, handles);
    Ok(())
}

/// Keeps a sparse tensor.
pub(crate) static ADD_ONE: Op = Op {
    def: ADD,
    kernels: &[cpu_tensors(|cx| {
        SparseInput::of(cx, 0)?.check_inside(cx)?;
        let one = [cx.held(0)?, cx.held(1)?, cx.held(2)?];
        let handles = map(cx)?.add(cx, vec![one])?;
        Ok(vec![cx.tensor_of(&[], &handles)?])
    })],
};

/// Keeps the rows of a sparse tensor.
pub(crate) static ADD_MANY: Op = Op {
    def: OpDef {
        name: "AddManySparseToTensorsMap",
        summary: "Keeps each row of a sparse tensor, and gives their handles.",
        outputs: &[arg_of("sparse_handles", DType::I64)],
        shape: |cx| add_shape(cx, Shape::partial([None])),
        ..ADD
    },
    kernels: &[cpu_tensors(|cx| {
        let (_held, all) = rows(cx)?;
        let all = all.collect::<Result<Vec<Sparse>, KernelError>>()?;
        let handles = map(cx)?.add(cx, all)?;
        Ok(vec![cx.tensor_of(&[handles.len()], &handles)?])
    })],
};

/// Removes sparse tensors, and stacks them.
pub(crate) static TAKE_MANY: Op = Op {
    def: OpDef {
        name: "TakeManySparseFromTensorsMap",
        summary: "Removes the sparse tensors with these handles, and stacks them as the rows of one.",
        inputs: &[arg_of("sparse_handles", DType::I64)],
        outputs: &[
            arg_of("sparse_indices", DType::I64),
            arg("sparse_values", "dtype"),
            arg_of("sparse_shape", DType::I64),
        ],
        attrs: &[type_attr("dtype", &DType::ALL), CONTAINER, SHARED_NAME],
        shape: |cx| {
            cx.ranked(0, 1)?;
            set_sparse(cx, 0, None, None);
            Ok(())
        },
        ..ADD
    },
    kernels: &[cpu_tensors(|cx| {
        let handles = cx.slice::<i64>(0)?;
        if cx.tensor(0)?.dims().len() != 1 || handles.is_empty() {
            return Err(invalid(format!(
                "sparse_handles should be a vector of one or more handles, got shape {}",
                cx.tensor(0)?.shape()
            )));
        }
        let all = map(cx)?.take(handles)?;
        stacked(cx, &all, &[all.len()], "rank")
    })],
};
