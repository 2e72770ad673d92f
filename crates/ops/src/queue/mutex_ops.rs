//! MutexV2, MutexLock, ConsumeMutexLock: sections of a graph that one step at a time runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg_of, str_attr};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Tensor};

use super::queues::resource_handle;
use super::staging_area::WaitList;
use crate::support::shapes;

/// A mutex of a graph.
#[derive(Default)]
struct GraphMutex(Mutex<MutexState>);

#[derive(Default)]
struct MutexState {
    locked: bool,
    waiting: WaitList,
}

/// A lock of a mutex, which ends when it is consumed or no longer held.
struct GraphLock {
    mutex: Arc<GraphMutex>,
    released: AtomicBool,
}

impl GraphLock {
    fn release(&self) {
        if !self.released.swap(true, Ordering::Relaxed) {
            let mut state = self.mutex.0.lock().unpoisoned();
            state.locked = false;
            state.waiting.wake();
        }
    }
}

impl Drop for GraphLock {
    fn drop(&mut self) {
        self.release();
    }
}

fn lock(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let mutex = cx.object::<GraphMutex>(0)?;
    let mut state = mutex.0.lock().unpoisoned();
    if state.locked {
        return state.waiting.wait(cx);
    }
    state.locked = true;
    drop(state);
    let lock = GraphLock {
        mutex,
        released: AtomicBool::new(false),
    };
    Ok(vec![Tensor::handle(DType::Variant, Arc::new(lock))?])
}

const MUTEX_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Creates a mutex.
pub(super) static MUTEX: Op = Op {
    def: OpDef {
        name: "MutexV2",
        summary: "The handle of a mutex.",
        outputs: &[arg_of("resource", DType::Resource)],
        attrs: &[
            str_attr("container", "", &[]),
            str_attr("shared_name", "", &[]),
        ],
        shape: shapes::scalar,
        ..MUTEX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        resource_handle(cx, &|_| Ok(Arc::new(GraphMutex::default())))
    })],
};

/// Locks a mutex.
pub(super) static LOCK: Op = Op {
    def: OpDef {
        name: "MutexLock",
        summary: "A lock of a mutex, as soon as there is no other one; it ends when it is consumed, or with the step.",
        inputs: &[arg_of("mutex", DType::Resource)],
        outputs: &[arg_of("mutex_lock", DType::Variant)],
        shape: shapes::scalar,
        effect: Effect::Blocking,
        ..MUTEX_OP
    },
    kernels: &[cpu_tensors(lock)],
};

/// Ends a lock.
pub(super) static CONSUME: Op = Op {
    def: OpDef {
        name: "ConsumeMutexLock",
        summary: "Ends a lock of a mutex.",
        inputs: &[arg_of("mutex_lock", DType::Variant)],
        ..MUTEX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        cx.object::<GraphLock>(0)?.release();
        Ok(Vec::new())
    })],
};
