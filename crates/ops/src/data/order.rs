//! TakeDataset, SkipDataset, ShardDataset, RepeatDataset, ConcatenateDataset, ZipDataset.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{arg_of, bool_attr, count_attr};
use thalweg_tensor::DType;

use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, METADATA, Row, Rows, SHAPES, TYPES,
    input, number, over, positive,
};

type Before = Arc<DatasetValue>;

/// A number of elements; `None` for all.
fn count(cx: &TensorCx<'_>) -> Result<Option<u64>, KernelError> {
    Ok(u64::try_from(cx.int(1)?).ok())
}

struct Take {
    before: Before,
    most: Option<u64>,
}

impl Dataset for Take {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(TakeRows {
            before: self.before.dataset.rows(cx)?,
            left: self.most.unwrap_or(u64::MAX),
        }))
    }

    fn cardinality(&self) -> Cardinality {
        let before = self.before.dataset.cardinality();
        match self.most {
            Some(most) => before.shorter(Cardinality::Finite(most)),
            None => before,
        }
    }
}

struct TakeRows {
    before: Box<dyn Rows>,
    left: u64,
}

impl Rows for TakeRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.before.next(cx)
    }

    fn pass(&mut self, cx: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        let passed = self.before.pass(cx, count.min(self.left))?;
        self.left -= passed;
        Ok(passed)
    }
}

struct Skip {
    before: Before,
    count: Option<u64>,
}

impl Dataset for Skip {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(SkipRows {
            before: self.before.dataset.rows(cx)?,
            count: self.count.unwrap_or(u64::MAX),
            ended: self.count.is_none(),
        }))
    }

    fn cardinality(&self) -> Cardinality {
        let skipped = self.count.unwrap_or(u64::MAX);
        let before = self.before.dataset.cardinality();
        before.map(|n| n.saturating_sub(skipped))
    }
}

struct SkipRows {
    before: Box<dyn Rows>,
    /// Elements to pass over before the next one.
    count: u64,
    ended: bool,
}

impl SkipRows {
    fn skip(&mut self, cx: &TensorCx<'_>) -> Result<(), KernelError> {
        if self.count > 0 && !self.ended {
            let count = std::mem::take(&mut self.count);
            self.ended = self.before.pass(cx, count)? < count;
        }
        Ok(())
    }
}

impl Rows for SkipRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        self.skip(cx)?;
        match self.ended {
            true => Ok(None),
            false => self.before.next(cx),
        }
    }

    fn pass(&mut self, cx: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        self.skip(cx)?;
        match self.ended {
            true => Ok(0),
            false => self.before.pass(cx, count),
        }
    }
}

struct Shard {
    before: Before,
    shards: u64,
    index: u64,
    require_non_empty: bool,
}

impl Dataset for Shard {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(ShardRows {
            before: self.before.dataset.rows(cx)?,
            others: self.shards - 1,
            skipped: self.index,
            empty: self.require_non_empty.then_some(self.shards),
        }))
    }

    fn cardinality(&self) -> Cardinality {
        let of = |n: u64| n / self.shards + u64::from(n % self.shards > self.index);
        self.before.dataset.cardinality().map(of)
    }
}

struct ShardRows {
    before: Box<dyn Rows>,
    /// Elements of other shards between two of this one.
    others: u64,
    /// Elements of other shards before the next one.
    skipped: u64,
    /// Number of shards, if there was no element yet and there must be one.
    empty: Option<u64>,
}

impl Rows for ShardRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let reached = self.before.pass(cx, self.skipped)? == self.skipped;
        let row = match reached {
            true => self.before.next(cx)?,
            false => None,
        };
        self.skipped = if row.is_some() { self.others } else { 0 };
        match (&row, self.empty.take()) {
            (None, Some(shards)) => Err(KernelError::Invalid(format!(
                "there are fewer elements than the {shards} shards: use fewer, or more files"
            ))),
            _ => Ok(row),
        }
    }

    fn pass(&mut self, cx: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        if count == 0 || self.empty.is_some() {
            return match count > 0 && self.next(cx)?.is_some() {
                true => Ok(1 + self.pass(cx, count - 1)?),
                false => Ok(0),
            };
        }
        let stride = self.others.saturating_add(1);
        let most = self
            .skipped
            .saturating_add((count - 1).saturating_mul(stride))
            .saturating_add(1);
        let passed = self.before.pass(cx, most)?;
        let own = passed.saturating_sub(self.skipped).div_ceil(stride);
        self.skipped = if own == count { self.others } else { 0 };
        Ok(own)
    }
}

struct Repeat {
    before: Before,
    times: Option<u64>,
}

impl Dataset for Repeat {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(RepeatRows {
            before: self.before.clone(),
            left: self.times,
            rows: None,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        match (self.before.dataset.cardinality(), self.times) {
            (_, Some(0)) => Cardinality::Finite(0),
            (Cardinality::Finite(0), _) => Cardinality::Finite(0),
            (_, None) => Cardinality::Infinite,
            (before, Some(times)) => before.map(|n| n.saturating_mul(times)),
        }
    }
}

struct RepeatRows {
    before: Before,
    /// Passes to start; `None` without end.
    left: Option<u64>,
    rows: Option<Box<dyn Rows>>,
}

/// A pass, with `true` if it has just started.
type Current<'a> = (&'a mut Box<dyn Rows>, bool);

impl RepeatRows {
    /// The pass that goes on, or the next one; with `true` if it has just started.
    fn current(&mut self, cx: &TensorCx<'_>) -> Result<Option<Current<'_>>, KernelError> {
        let starts = self.rows.is_none();
        if starts {
            match &mut self.left {
                Some(0) => return Ok(None),
                Some(left) => *left -= 1,
                None => {}
            }
            self.rows = Some(self.before.dataset.rows(cx)?);
        }
        Ok(self.rows.as_mut().map(|rows| (rows, starts)))
    }

    /// Ends the pass. One without elements ends all that repeat without end, as in TensorFlow.
    fn end(&mut self, empty: bool) {
        self.rows = None;
        if empty && self.left.is_none() {
            self.left = Some(0);
        }
    }
}

impl Rows for RepeatRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        loop {
            stop.tick()?;
            let Some((rows, starts)) = self.current(cx)? else {
                return Ok(None);
            };
            if let Some(row) = rows.next(cx)? {
                return Ok(Some(row));
            }
            self.end(starts);
        }
    }

    fn pass(&mut self, cx: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        let (mut passed, mut stop) = (0, cx.stop_check());
        while passed < count {
            stop.tick()?;
            let Some((rows, starts)) = self.current(cx)? else {
                break;
            };
            let more = rows.pass(cx, count - passed)?;
            passed += more;
            if passed < count {
                self.end(starts && more == 0);
            }
        }
        Ok(passed)
    }
}

struct Concatenate {
    first: Before,
    second: Before,
}

impl Dataset for Concatenate {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(ConcatenateRows {
            rows: self.first.dataset.rows(cx)?,
            second: Some(self.second.clone()),
        }))
    }

    fn cardinality(&self) -> Cardinality {
        let [a, b] = [&self.first, &self.second].map(|d| d.dataset.cardinality());
        a.sum(b)
    }
}

struct ConcatenateRows {
    rows: Box<dyn Rows>,
    second: Option<Before>,
}

impl Rows for ConcatenateRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        loop {
            let row = self.rows.next(cx)?;
            if row.is_some() {
                return Ok(row);
            }
            match self.second.take() {
                Some(second) => self.rows = second.dataset.rows(cx)?,
                None => return Ok(None),
            }
        }
    }
}

struct Zip(Vec<Before>);

impl Dataset for Zip {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        let all = self.0.iter().map(|before| before.dataset.rows(cx));
        Ok(Box::new(ZipRows {
            all: all.collect::<Result<_, _>>()?,
            ended: false,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        let all = self.0.iter().map(|before| before.dataset.cardinality());
        all.reduce(Cardinality::shorter)
            .unwrap_or(Cardinality::Finite(0))
    }
}

struct ZipRows {
    all: Vec<Box<dyn Rows>>,
    ended: bool,
}

impl Rows for ZipRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        if self.ended {
            return Ok(None);
        }
        let mut components = Row::new();
        // Each one is asked, so that a cache of it that has come to its end is written.
        for rows in &mut self.all {
            match rows.next(cx)? {
                Some(row) => components.extend(row),
                None => self.ended = true,
            }
        }
        self.ended |= self.all.is_empty();
        Ok((!self.ended).then_some(components))
    }
}

/// The first elements.
pub(crate) static TAKE: Op = Op {
    def: OpDef {
        name: "TakeDataset",
        summary: "The first elements of a dataset; all for a negative count.",
        inputs: &[INPUT, number("count")],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let most = count(cx)?;
        over(&[&before.clone()], Take { before, most }, &[])
    })],
};

/// All elements but the first.
pub(crate) static SKIP: Op = Op {
    def: OpDef {
        name: "SkipDataset",
        summary: "The elements of a dataset without the first ones; none for a negative count.",
        inputs: &[INPUT, number("count")],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let count = count(cx)?;
        over(&[&before.clone()], Skip { before, count }, &[])
    })],
};

/// Every so manieth element.
pub(crate) static SHARD: Op = Op {
    def: OpDef {
        name: "ShardDataset",
        summary: "Each num_shards-th element of a dataset, from number index on.",
        inputs: &[INPUT, number("num_shards"), number("index")],
        attrs: &[
            bool_attr("require_non_empty", false),
            TYPES,
            SHAPES,
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let shards = positive(cx, 1, "num_shards")? as u64;
        let index = u64::try_from(cx.int(2)?).ok().filter(|&i| i < shards);
        let index = index.ok_or_else(|| {
            KernelError::Invalid(format!(
                "index must be from 0 to {}, the number of shards less 1",
                shards - 1
            ))
        })?;
        let shard = Shard {
            before: before.clone(),
            shards,
            index,
            require_non_empty: cx.attrs().bool("require_non_empty"),
        };
        over(&[&before], shard, &[])
    })],
};

/// The elements several times.
pub(crate) static REPEAT: Op = Op {
    def: OpDef {
        name: "RepeatDataset",
        summary: "The elements of a dataset so many times; without end for a negative count.",
        inputs: &[INPUT, number("count")],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let times = count(cx)?;
        over(&[&before.clone()], Repeat { before, times }, &[])
    })],
};

/// One data set after the other.
pub(crate) static CONCATENATE: Op = Op {
    def: OpDef {
        name: "ConcatenateDataset",
        summary: "The elements of a dataset, then those of another one.",
        inputs: &[INPUT, arg_of("another_dataset", DType::Variant)],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (first, second) = (input(cx, 0)?, input(cx, 1)?);
        let both = Concatenate {
            first: first.clone(),
            second: second.clone(),
        };
        over(&[&first, &second], both, &[])
    })],
};

/// Elements side by side.
pub(crate) static ZIP: Op = Op {
    def: OpDef {
        name: "ZipDataset",
        summary: "The components of the elements of several datasets, side by side, up to the shortest.",
        inputs: &[arg_of("input_datasets", DType::Variant).list("N")],
        attrs: &[TYPES, SHAPES, count_attr("N"), METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let all = (0..cx.inputs()).map(|i| input(cx, i));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<&DatasetValue> = all.iter().map(|d| &**d).collect();
        over(&inputs, Zip(all.clone()), &[])
    })],
};
