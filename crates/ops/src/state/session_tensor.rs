//! GetSessionHandle, GetSessionHandleV2, GetSessionTensor, DeleteSessionTensor: values that a session keeps between its steps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, Effect, Gradient, arg, arg_of, type_attr};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Reservation, Shape, Tensor};

use crate::support::tensors::reserved;

/// Values by handle.
#[derive(Default)]
struct SessionTensors {
    by_handle: Mutex<HashMap<Box<[u8]>, KeptTensor>>,
    /// Number of handles that were given out.
    handles: AtomicU64,
}

struct KeptTensor {
    value: Tensor,
    /// Memory of the entry and its handle.
    _reserved: Reservation,
}

/// Values of the session on this task.
fn session_tensors(cx: &TensorCx<'_>) -> Result<Arc<SessionTensors>, KernelError> {
    let made = cx
        .environment()
        .session_object("session tensors", &mut || {
            Ok(Arc::new(SessionTensors::default()))
        })?;
    made.downcast()
        .map_err(|_| KernelError::Argument("the session's values"))
}

/// Base definition of the ops.
const SESSION_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

const HANDLE: &[Arg] = &[arg_of("handle", DType::String)];

const GET_HANDLE_DEF: OpDef = OpDef {
    name: "GetSessionHandle",
    summary: "A handle to the value, which the session keeps until it ends or the value is deleted.",
    inputs: &[arg("value", "T")],
    outputs: HANDLE,
    attrs: &[type_attr("T", &DType::ALL)],
    shape: |cx| {
        cx.set(0, Shape::scalar());
        Ok(())
    },
    ..SESSION_OP
};

/// Keeps a value, and gives a handle to it.
pub(crate) static GET_HANDLE: Op = Op {
    def: GET_HANDLE_DEF,
    kernels: &[cpu_tensors(keep)],
};

/// The handle of a kept value, as a resource.
struct SessionHandle {
    _handle: Tensor,
}

/// Keeps a value, and gives a resource for it.
pub(crate) static GET_HANDLE_V2: Op = Op {
    def: OpDef {
        name: "GetSessionHandleV2",
        summary: "A resource for the value, which the session keeps until it ends.",
        outputs: &[arg_of("handle", DType::Resource)],
        ..GET_HANDLE_DEF
    },
    kernels: &[cpu_tensors(|cx| {
        let handles = keep(cx)?.into_iter().map(|handle| {
            let handle = Arc::new(SessionHandle { _handle: handle });
            Ok(Tensor::handle(DType::Resource, handle)?)
        });
        handles.collect()
    })],
};

/// Keeps input 0. The handle has TensorFlow's form: the node, a number, and the device that keeps the value.
fn keep(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (tensors, value) = (session_tensors(cx)?, cx.held(0)?);
    let number = tensors.handles.fetch_add(1, Ordering::Relaxed);
    let (node, device) = (&cx.node().name, cx.environment().device());
    let handle = format!("{node};{number};{device}");
    let bytes = size_of::<KeptTensor>() + size_of::<Box<[u8]>>() + handle.len();
    let kept = KeptTensor {
        value,
        _reserved: reserved(bytes, Some(cx.memory()))?,
    };
    let mut by_handle = tensors.by_handle.lock().unpoisoned();
    by_handle.insert(handle.as_bytes().into(), kept);
    drop(by_handle);
    Ok(vec![cx.strings_of(&[], [handle])?])
}

/// Handle in input 0.
fn handle<'a>(cx: &TensorCx<'a>) -> Result<&'a [u8], KernelError> {
    match cx.strings(0)?.only() {
        Some(handle) => Ok(handle),
        None => Err(KernelError::Invalid(
            "the handle must be one string".to_owned(),
        )),
    }
}

/// Error of a handle that stands for no value.
fn no_value(handle: &[u8]) -> KernelError {
    KernelError::Invalid(format!(
        "the session keeps no value with handle '{}' on this task: it was deleted, or belongs to another session or task",
        String::from_utf8_lossy(handle)
    ))
}

/// Value of a handle.
pub(crate) static GET: Op = Op {
    def: OpDef {
        name: "GetSessionTensor",
        summary: "The value that the session keeps under a handle.",
        inputs: HANDLE,
        outputs: &[arg("value", "dtype")],
        attrs: &[type_attr("dtype", &DType::ALL)],
        ..SESSION_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (tensors, handle) = (session_tensors(cx)?, handle(cx)?);
        let by_handle = tensors.by_handle.lock().unpoisoned();
        let kept = by_handle.get(handle).ok_or_else(|| no_value(handle))?;
        let value = kept.value.clone();
        match cx.attrs().dtype("dtype") {
            Some(asked) if asked != value.dtype() => Err(KernelError::Invalid(format!(
                "the value is of {}, and {asked} is asked for",
                value.dtype()
            ))),
            _ => Ok(vec![value]),
        }
    })],
};

/// Releases the value of a handle.
pub(crate) static DELETE: Op = Op {
    def: OpDef {
        name: "DeleteSessionTensor",
        summary: "Releases the value that the session keeps under a handle.",
        inputs: HANDLE,
        ..SESSION_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (tensors, handle) = (session_tensors(cx)?, handle(cx)?);
        let removed = tensors.by_handle.lock().unpoisoned().remove(handle);
        removed.ok_or_else(|| no_value(handle))?;
        Ok(Vec::new())
    })],
};
