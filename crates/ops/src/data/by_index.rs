//! GlobalShuffleDataset, GetElementAtIndex: elements by their number.
//!
//! The order is that of TensorFlow's `global_shuffle_dataset_op.cc` for the same seeds.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{arg_of, args_of};
use thalweg_tensor::DType;
use thalweg_tensor::text::counted;

use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, METADATA, Row, RowBuffer, Rows, SHAPES,
    TYPES, input, number, over,
};
use super::iterator_ops::{check, declared_shapes};
use super::shuffle::{RESHUFFLES, Seeds, seeds_of};
use crate::random::index_shuffle::shuffled;

fn described(cardinality: Cardinality) -> String {
    match cardinality {
        Cardinality::Finite(count) => counted(count, "element"),
        Cardinality::Infinite => "no end".to_owned(),
        Cardinality::Unknown => "a number of elements that is not known".to_owned(),
    }
}

/// The number of elements, which must be known.
fn count(dataset: &DatasetValue) -> Result<u64, KernelError> {
    match dataset.dataset.cardinality() {
        Cardinality::Finite(count) => Ok(count),
        other => Err(KernelError::FailedPrecondition(format!(
            "an element at an index needs a dataset of a finite number of elements, and this one has {}",
            described(other)
        ))),
    }
}

/// All elements of a dataset in a random order.
struct GlobalShuffle {
    before: Arc<DatasetValue>,
    seeds: Arc<Seeds>,
}

impl Dataset for GlobalShuffle {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        let [first, third] = [self.seeds.next(), self.seeds.next()];
        Ok(Box::new(GlobalShuffleRows {
            before: Some(self.before.dataset.rows(cx)?),
            all: RowBuffer::new(cx),
            key: [first[0], first[1], third[0]].map(|seed| seed as u32),
            given: 0,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        self.before.dataset.cardinality()
    }
}

struct GlobalShuffleRows {
    /// The pass that fills the buffer; `None` once it has ended.
    before: Option<Box<dyn Rows>>,
    all: RowBuffer<Vec<Row>>,
    key: [u32; 3],
    given: u64,
}

impl Rows for GlobalShuffleRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        while let Some(before) = &mut self.before {
            stop.tick()?;
            match before.next(cx)? {
                Some(row) => self.all.add(row, Vec::push)?,
                None => self.before = None,
            }
        }
        let all = self.all.all();
        let Some(last) = (all.len() as u64).checked_sub(1) else {
            return Ok(None);
        };
        if self.given > last {
            return Ok(None);
        }
        let at = shuffled(self.given, self.key, last);
        self.given += 1;
        Ok(all.get(at as usize).cloned())
    }
}

/// All elements in a random order.
pub(crate) static GLOBAL_SHUFFLE: Op = Op {
    def: OpDef {
        name: "GlobalShuffleDataset",
        summary: "All elements of a dataset in a random order, which is that of their numbers enciphered by the seeds.",
        inputs: &[
            INPUT,
            number("seed"),
            number("seed2"),
            arg_of("seed_generator", DType::Resource),
        ],
        attrs: &[RESHUFFLES, TYPES, SHAPES, METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let cardinality = before.dataset.cardinality();
        if !matches!(cardinality, Cardinality::Finite(1..)) {
            return Err(KernelError::Invalid(format!(
                "`global_shuffle` requires the input dataset to have a non-empty finite cardinality, and this one has {}",
                described(cardinality)
            )));
        }
        let seeds = seeds_of(cx, [1, 2], 3)?;
        let shuffle = GlobalShuffle {
            before: before.clone(),
            seeds,
        };
        over(&[&before], shuffle, &[])
    })],
};

/// One element.
pub(crate) static GET_ELEMENT_AT_INDEX: Op = Op {
    def: OpDef {
        name: "GetElementAtIndex",
        summary: "The element of a dataset at an index. The elements before it are passed over.",
        inputs: &[arg_of("dataset", DType::Variant), number("index")],
        outputs: &[args_of("components", "output_types")],
        attrs: &[TYPES, SHAPES],
        shape: declared_shapes,
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (dataset, index) = (input(cx, 0)?, cx.int(1)?);
        let count = count(&dataset)?;
        let outside =
            || KernelError::OutOfRange(format!("Index out of range [0, {count}): {index}"));
        let position = u64::try_from(index).ok().filter(|&i| i < count);
        let position = position.ok_or_else(outside)?;
        let mut rows = dataset.dataset.rows(cx)?;
        rows.pass(cx, position)?;
        let row = rows.next(cx)?.ok_or_else(outside)?;
        check(cx, &row)?;
        Ok(row)
    })],
};
