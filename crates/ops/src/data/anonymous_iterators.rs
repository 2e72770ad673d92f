//! AnonymousIterator, AnonymousIteratorV2, AnonymousIteratorV3, DeleteIterator: iterators that no name shares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::arg_of;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Nesting, Tensor};

use super::dataset::{SHAPES, TYPES};
use super::iterator::{DatasetIterator, ITERATOR_OP};

/// First word of the string handle of an anonymous iterator.
pub(super) const STRING_HANDLE: &str = "anonymous iterator";

/// Most anonymous iterators that strings name at once: such an iterator lives until DestroyResourceOp.
const MAX_NAMED: usize = 10_000;

/// The anonymous iterators of a session.
#[derive(Default)]
struct AnonymousIterators {
    made: AtomicU64,
    /// Those that a string names, by number.
    named: Mutex<BTreeMap<u64, Arc<DatasetIterator>>>,
}

impl AnonymousIterators {
    fn of(cx: &TensorCx<'_>) -> Result<Arc<AnonymousIterators>, KernelError> {
        let mut make = || Ok(Arc::new(AnonymousIterators::default()) as SharedObject);
        let all = cx
            .environment()
            .session_object("AnonymousIterators", &mut make)?;
        all.downcast()
            .map_err(|_| KernelError::Argument("the session's anonymous iterators"))
    }
}

/// The string handle of an anonymous iterator, which the string keeps alive.
pub(super) fn string_handle(
    cx: &TensorCx<'_>,
    number: u64,
    iterator: Arc<DatasetIterator>,
) -> Result<String, KernelError> {
    let all = AnonymousIterators::of(cx)?;
    let mut named = all.named.lock().unpoisoned();
    if named.len() >= MAX_NAMED && !named.contains_key(&number) {
        return Err(KernelError::Invalid(format!(
            "strings name {MAX_NAMED} anonymous iterators: destroy some with DestroyResourceOp"
        )));
    }
    named.insert(number, iterator);
    Ok(format!("{STRING_HANDLE}\n{number}"))
}

/// The anonymous iterator of this number, in a string handle.
pub(super) fn named(cx: &TensorCx<'_>, number: &str) -> Result<SharedObject, KernelError> {
    let all = AnonymousIterators::of(cx)?;
    let number = number.parse().ok();
    let iterator = number.and_then(|n: u64| all.named.lock().unpoisoned().get(&n).cloned());
    iterator.map(|i| i as SharedObject).ok_or_else(|| {
        KernelError::NotFound(
            "there is no such anonymous iterator: it was destroyed, or another session made it"
                .to_owned(),
        )
    })
}

/// Ends the pass of an iterator, and forgets it if a string names it.
pub(crate) fn destroy_iterator(cx: &TensorCx<'_>, i: usize) -> Result<(), KernelError> {
    let iterator = cx.object::<DatasetIterator>(i)?;
    if let Some(number) = iterator.number {
        AnonymousIterators::of(cx)?
            .named
            .lock()
            .unpoisoned()
            .remove(&number);
    }
    iterator.stop(cx)
}

fn anonymous(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let all = AnonymousIterators::of(cx)?;
    let number = all.made.fetch_add(1, Ordering::Relaxed);
    let iterator: SharedObject = Arc::new(DatasetIterator::anonymous(number));
    Ok(vec![Tensor::handle(DType::Resource, iterator)?])
}

/// A new iterator each time.
pub(crate) static ANONYMOUS_ITERATOR: Op = Op {
    def: OpDef {
        name: "AnonymousIterator",
        summary: "A new iterator, which no other node shares; MakeIterator gives it a dataset.",
        outputs: &[arg_of("handle", DType::Resource)],
        attrs: &[TYPES, SHAPES],
        shape: crate::support::shapes::scalar,
        ..ITERATOR_OP
    },
    kernels: &[cpu_tensors(anonymous)],
};

/// As [`ANONYMOUS_ITERATOR`], with a value for DeleteIterator.
pub(crate) static ANONYMOUS_ITERATOR_V2: Op = Op {
    def: OpDef {
        name: "AnonymousIteratorV2",
        outputs: &[
            arg_of("handle", DType::Resource),
            arg_of("deleter", DType::Variant),
        ],
        shape: |cx| {
            cx.set(0, thalweg_tensor::Shape::scalar());
            cx.set(1, thalweg_tensor::Shape::scalar());
            Ok(())
        },
        ..ANONYMOUS_ITERATOR.def
    },
    kernels: &[cpu_tensors(|cx| {
        let mut outputs = anonymous(cx)?;
        outputs.push(Tensor::variant(Arc::new(()), Nesting::default())?);
        Ok(outputs)
    })],
};

/// As [`ANONYMOUS_ITERATOR`].
pub(crate) static ANONYMOUS_ITERATOR_V3: Op = Op {
    def: OpDef {
        name: "AnonymousIteratorV3",
        ..ANONYMOUS_ITERATOR.def
    },
    kernels: &[cpu_tensors(anonymous)],
};

/// The end of an iterator.
pub(crate) static DELETE_ITERATOR: Op = Op {
    def: OpDef {
        name: "DeleteIterator",
        summary: "Ends the pass of an iterator.",
        inputs: &[
            arg_of("handle", DType::Resource),
            arg_of("deleter", DType::Variant),
        ],
        ..ITERATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        destroy_iterator(cx, 0)?;
        Ok(Vec::new())
    })],
};
