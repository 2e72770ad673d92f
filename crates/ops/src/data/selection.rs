//! UniqueDataset, IgnoreErrorsDataset, SamplingDataset, RandomDataset: elements that are left out, or drawn.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{arg_of, bool_attr};
use thalweg_tensor::{DType, Reservation, Tensor};

use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, METADATA, Row, Rows, SHAPES, TYPES,
    input, number, over, source,
};
use crate::random::box_muller::uniform_f32;
use crate::random::philox::Philox;

/// Bytes of a known element, beside its own.
const KNOWN_BYTES: usize = 64;
/// Elements of errors in a row after which the last one is given.
const MAX_ERRORS: u32 = 1 << 20;

struct Unique(Arc<DatasetValue>);

impl Dataset for Unique {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(UniqueRows {
            before: self.0.dataset.rows(cx)?,
            known: HashSet::new(),
            taken: Reservation::of(Some(cx.memory())),
        }))
    }
}

struct UniqueRows {
    before: Box<dyn Rows>,
    known: HashSet<Box<[u8]>>,
    taken: Reservation,
}

/// The bytes that tell an element from others.
fn key(row: &Row) -> Result<Box<[u8]>, KernelError> {
    match &row[..] {
        [one] if one.dtype() == DType::String => match one.as_strings()?.only() {
            Some(string) => Ok(string.into()),
            None => Err(KernelError::Invalid(
                "elements must be scalars to be told from each other".to_owned(),
            )),
        },
        [one] if matches!(one.dtype(), DType::I32 | DType::I64) && one.dims().is_empty() => {
            Ok(one.bytes().into())
        }
        _ => Err(KernelError::Invalid(
            "elements must be scalars of i32, i64 or string to be told from each other".to_owned(),
        )),
    }
}

impl Rows for UniqueRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        loop {
            stop.tick()?;
            let Some(row) = self.before.next(cx)? else {
                return Ok(None);
            };
            let key = key(&row)?;
            if self.known.contains(&key) {
                continue;
            }
            let bytes = KNOWN_BYTES + key.len();
            if !self.taken.grow(bytes) {
                return Err(KernelError::Memory { bytes });
            }
            self.known.insert(key);
            return Ok(Some(row));
        }
    }
}

/// Elements that have not come before.
pub(crate) static UNIQUE: Op = Op {
    def: OpDef {
        name: "UniqueDataset",
        summary: "The elements of a dataset, each once.",
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        over(&[&before.clone()], Unique(before), &[])
    })],
};

struct IgnoreErrors(Arc<DatasetValue>);

impl Dataset for IgnoreErrors {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(WithoutErrors(self.0.dataset.rows(cx)?)))
    }
}

struct WithoutErrors(Box<dyn Rows>);

impl Rows for WithoutErrors {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        for _ in 1..MAX_ERRORS {
            stop.tick()?;
            match self.0.next(cx) {
                Err(KernelError::Stopped) => return Err(KernelError::Stopped),
                Err(KernelError::Blocked) => return Err(KernelError::Blocked),
                // An error of a step that was stopped is no error of the element.
                Err(error) if cx.environment().is_stopped() => return Err(error),
                Err(_) => {}
                row => return row,
            }
        }
        self.0.next(cx)
    }
}

/// Elements that are made without an error.
pub(crate) static IGNORE_ERRORS: Op = Op {
    def: OpDef {
        name: "IgnoreErrorsDataset",
        summary: "The elements of a dataset, without those whose making fails.",
        attrs: &[TYPES, SHAPES, bool_attr("log_warning", false)],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        over(&[&before.clone()], IgnoreErrors(before), &[])
    })],
};

/// Random words of two seeds; two zeros ask for words that are unpredictable.
fn words(cx: &TensorCx<'_>, at: usize) -> Result<Philox, KernelError> {
    Ok(match (cx.int(at)?, cx.int(at + 1)?) {
        (0, 0) => {
            let entropy = RandomState::new();
            Philox::new(entropy.hash_one(0u8), entropy.hash_one(1u8))
        }
        (seed, seed2) => Philox::new(seed as u64, seed2 as u64),
    })
}

struct Sampling {
    before: Arc<DatasetValue>,
    rate: f32,
    philox: Philox,
}

impl Dataset for Sampling {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(SampledRows {
            before: self.before.dataset.rows(cx)?,
            rate: self.rate,
            words: Box::new(self.philox.words(0)),
        }))
    }
}

struct SampledRows {
    before: Box<dyn Rows>,
    rate: f32,
    words: Box<dyn FnMut() -> u32 + Send>,
}

impl Rows for SampledRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        loop {
            stop.tick()?;
            match self.before.next(cx)? {
                Some(row) if uniform_f32((self.words)()) < self.rate => return Ok(Some(row)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

/// Elements that are drawn.
pub(crate) static SAMPLING: Op = Op {
    def: OpDef {
        name: "SamplingDataset",
        summary: "Each element of a dataset with a probability.",
        inputs: &[
            INPUT,
            arg_of("rate", DType::F32),
            number("seed"),
            number("seed2"),
        ],
        attrs: &[TYPES, SHAPES],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let sampling = Sampling {
            before: before.clone(),
            rate: cx.tensor(1)?.to_scalar()?,
            philox: words(cx, 2)?,
        };
        over(&[&before], sampling, &[])
    })],
};

struct Random(Philox);

impl Dataset for Random {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(RandomRows(Box::new(self.0.words(0)))))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Infinite
    }
}

struct RandomRows(Box<dyn FnMut() -> u32 + Send>);

impl Rows for RandomRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        // A loop over it ends with the step.
        if cx.environment().is_stopped() {
            return Err(KernelError::Stopped);
        }
        Ok(Some(vec![Tensor::scalar(i64::from((self.0)()))]))
    }
}

/// Random numbers without end.
pub(crate) static RANDOM: Op = Op {
    def: OpDef {
        name: "RandomDataset",
        summary: "Random integers from 0 to 2^32 less 1, without end.",
        inputs: &[number("seed"), number("seed2")],
        attrs: &[
            TYPES,
            SHAPES,
            METADATA,
            bool_attr("rerandomize_each_iteration", false),
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| source(Random(words(cx, 0)?), &[]))],
};
