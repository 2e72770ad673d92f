//! CacheDataset, CacheDatasetV2, DummyMemoryCache: elements that are kept in memory, or in a file.

use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::arg_of;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Reservation, Tensor};

use super::cache_file::FileCache;
use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, Row, RowBuffer, Rows, TYPES, input, over,
};

/// Elements that the first whole pass has kept.
type Kept = Arc<Mutex<Option<Arc<Elements>>>>;

/// Elements, and what counts them.
pub(super) struct Elements {
    all: Vec<Row>,
    _taken: Reservation,
}

impl Elements {
    pub(super) fn new(buffer: RowBuffer<Vec<Row>>) -> Elements {
        let (all, taken) = buffer.into_parts();
        Elements { all, _taken: taken }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

struct Cache {
    before: Arc<DatasetValue>,
    kept: Kept,
}

impl Dataset for Cache {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        let kept = self.kept.lock().unpoisoned().clone();
        Ok(match kept {
            Some(all) => Box::new(KeptRows { all, next: 0 }),
            None => Box::new(FirstRows {
                before: self.before.dataset.rows(cx)?,
                all: Some(RowBuffer::new(cx)),
                kept: self.kept.clone(),
            }),
        })
    }

    fn cardinality(&self) -> Cardinality {
        self.before.dataset.cardinality()
    }
}

/// A pass that keeps its elements.
struct FirstRows {
    before: Box<dyn Rows>,
    /// `None` once all are kept.
    all: Option<RowBuffer<Vec<Row>>>,
    kept: Kept,
}

impl Rows for FirstRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let row = self.before.next(cx)?;
        match (&row, self.all.take()) {
            (Some(row), Some(mut all)) => {
                all.add(row.clone(), Vec::push)?;
                self.all = Some(all);
            }
            (None, Some(all)) => {
                let mut kept = self.kept.lock().unpoisoned();
                kept.get_or_insert_with(|| Arc::new(Elements::new(all)));
            }
            (_, None) => {}
        }
        Ok(row)
    }
}

/// A pass over kept elements.
pub(super) struct KeptRows {
    pub(super) all: Arc<Elements>,
    pub(super) next: usize,
}

impl Rows for KeptRows {
    fn next(&mut self, _: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let row = self.all.all.get(self.next).cloned();
        self.next += usize::from(row.is_some());
        Ok(row)
    }

    fn pass(&mut self, _: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        let left = self.all.len() - self.next;
        let passed = usize::try_from(count).map_or(left, |count| count.min(left));
        self.next += passed;
        Ok(passed as u64)
    }
}

fn cache(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let before = input(cx, 0)?;
    let Some(name) = cx.strings(1)?.only() else {
        return Err(KernelError::Argument("one filename"));
    };
    if !name.is_empty() {
        let components = cx.attrs().types(TYPES.name).len();
        let components = u8::try_from(components).map_err(|_| {
            KernelError::Invalid(format!(
                "elements of {components} tensors are too large for a cache in a file: it takes 255"
            ))
        })?;
        let cache = FileCache {
            before: before.clone(),
            name: name[..].into(),
            components,
        };
        return over(&[&before], cache, &[]);
    }
    let cache = Cache {
        before: before.clone(),
        kept: Kept::default(),
    };
    over(&[&before], cache, &[])
}

/// Elements that are computed once.
pub(crate) static CACHE: Op = Op {
    def: OpDef {
        name: "CacheDataset",
        summary: "The elements of a dataset, which the first whole pass keeps in memory, or in a file if it has a name.",
        inputs: &[INPUT, arg_of("filename", DType::String)],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(cache)],
};

/// As [`CACHE`].
pub(crate) static CACHE_V2: Op = Op {
    def: OpDef {
        name: "CacheDatasetV2",
        summary: "The elements of a dataset, which the first whole pass keeps in memory, or in a file if it has a name.",
        inputs: &[
            INPUT,
            arg_of("filename", DType::String),
            arg_of("cache", DType::Resource),
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(cache)],
};

/// A handle in place of a shared cache.
pub(crate) static DUMMY_MEMORY_CACHE: Op = Op {
    def: OpDef {
        name: "DummyMemoryCache",
        summary: "A handle in place of a shared cache: each dataset has its own.",
        inputs: &[],
        outputs: &[arg_of("handle", DType::Resource)],
        attrs: &[],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|_| {
        let nothing: SharedObject = Arc::new(());
        Ok(vec![Tensor::handle(DType::Resource, nothing)?])
    })],
};
