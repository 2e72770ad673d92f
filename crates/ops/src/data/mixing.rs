//! DirectedInterleaveDataset, SlidingWindowDataset, RebatchDataset, SleepDataset, ChooseFastestDataset.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::AttrKind;
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, arg_of, attr, bool_attr, count_attr};
use thalweg_tensor::{DType, Tensor};

use super::batch::stacked;
use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, Row, RowBuffer, Rows, SHAPES, TYPES,
    input, number, over, positive,
};
use crate::flow::rows::slice_elements;

type Before = Arc<DatasetValue>;

struct Directed {
    selector: Before,
    all: Vec<Before>,
    stops: bool,
}

impl Dataset for Directed {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        let all = self.all.iter().map(|one| one.dataset.rows(cx).map(Some));
        Ok(Box::new(DirectedRows {
            selector: self.selector.dataset.rows(cx)?,
            all: all.collect::<Result<_, _>>()?,
            stops: self.stops,
        }))
    }
}

struct DirectedRows {
    selector: Box<dyn Rows>,
    /// `None` for a dataset that has ended.
    all: Vec<Option<Box<dyn Rows>>>,
    stops: bool,
}

impl Rows for DirectedRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        while self.all.iter().any(Option::is_some) {
            stop.tick()?;
            let Some(chosen) = self.selector.next(cx)? else {
                break;
            };
            let chosen = match &chosen[..] {
                [one] => one.to_ints().filter(|v| v.len() == 1).map(|v| v[0]),
                _ => None,
            };
            let count = self.all.len();
            let place = chosen.and_then(|i| usize::try_from(i).ok());
            let Some(rows) = place.and_then(|i| self.all.get_mut(i)) else {
                return Err(KernelError::Invalid(format!(
                    "Selector index out of range: {} of {count} datasets",
                    chosen.map_or("none".to_owned(), |i| i.to_string())
                )));
            };
            match rows {
                Some(before) => match before.next(cx)? {
                    Some(row) => return Ok(Some(row)),
                    None if self.stops => break,
                    None => *rows = None,
                },
                None if self.stops => break,
                None => {}
            }
        }
        self.all.clear();
        Ok(None)
    }
}

/// Elements of the datasets that another one selects.
pub(crate) static DIRECTED_INTERLEAVE: Op = Op {
    def: OpDef {
        name: "DirectedInterleaveDataset",
        summary: "The next element of the dataset whose number the selector gives, again and again.",
        inputs: &[
            arg_of("selector_input_dataset", DType::Variant),
            arg_of("data_input_datasets", DType::Variant).list("N"),
        ],
        attrs: &[
            TYPES,
            SHAPES,
            count_attr("N"),
            bool_attr("stop_on_empty_dataset", false),
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let all: Result<Vec<Before>, _> = (0..cx.inputs()).map(|i| input(cx, i)).collect();
        let mut all = all?;
        let held = all.clone();
        let selector = all.remove(0);
        let directed = Directed {
            selector,
            all,
            stops: cx.attrs().bool("stop_on_empty_dataset"),
        };
        let inputs: Vec<&DatasetValue> = held.iter().map(|value| &**value).collect();
        over(&inputs, directed, &[])
    })],
};

struct SlidingWindow {
    before: Before,
    size: usize,
    shift: usize,
    stride: usize,
    drop_remainder: bool,
}

impl Dataset for SlidingWindow {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(SlidingRows {
            before: self.before.dataset.rows(cx)?,
            buffer: RowBuffer::new(cx),
            gap: 0,
            ended: false,
            size: self.size,
            shift: self.shift,
            stride: self.stride,
            drop_remainder: self.drop_remainder,
        }))
    }
}

struct SlidingRows {
    before: Box<dyn Rows>,
    buffer: RowBuffer<VecDeque<Row>>,
    /// Elements to pass over before the next window.
    gap: u64,
    ended: bool,
    size: usize,
    shift: usize,
    stride: usize,
    drop_remainder: bool,
}

impl Rows for SlidingRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let span = (self.size - 1)
            .saturating_mul(self.stride)
            .saturating_add(1);
        let mut stop = cx.stop_check();
        if !self.ended {
            self.ended = self.before.pass(cx, self.gap)? < self.gap;
            self.gap = 0;
        }
        while !self.ended && self.buffer.all().len() < span {
            stop.tick()?;
            match self.before.next(cx)? {
                Some(row) => self.buffer.add(row, VecDeque::push_back)?,
                None => self.ended = true,
            }
        }
        let all = self.buffer.all();
        if all.is_empty() || (self.drop_remainder && all.len() < span) {
            return Ok(None);
        }
        let window = all.iter().step_by(self.stride).take(self.size);
        let window: Vec<Row> = window.cloned().collect();
        let dropped = self.shift.min(all.len());
        for _ in 0..dropped {
            self.buffer.remove(VecDeque::pop_front);
        }
        self.gap = (self.shift - dropped) as u64;
        stacked(cx, window)
    }
}

/// Batches that overlap.
pub(crate) static SLIDING_WINDOW: Op = Op {
    def: OpDef {
        name: "SlidingWindowDataset",
        summary: "Batches of elements that follow each other at a stride; each begins so many elements after the one before.",
        inputs: &[
            INPUT,
            number("window_size"),
            number("window_shift"),
            number("window_stride"),
        ],
        attrs: &[bool_attr("drop_remainder", true), TYPES, SHAPES],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let window = SlidingWindow {
            before: before.clone(),
            size: positive(cx, 1, "window_size")?,
            shift: positive(cx, 2, "window_shift")?,
            stride: positive(cx, 3, "window_stride")?,
            drop_remainder: cx.attrs().bool("drop_remainder"),
        };
        over(&[&before], window, &[])
    })],
};

struct Rebatch {
    before: Before,
    replicas: usize,
}

impl Dataset for Rebatch {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(RebatchedRows {
            before: self.before.dataset.rows(cx)?,
            replicas: self.replicas,
            size: None,
            batch: Row::new(),
            next: 0,
        }))
    }
}

struct RebatchedRows {
    before: Box<dyn Rows>,
    replicas: usize,
    /// Elements of a part, which follow from the first batch.
    size: Option<usize>,
    batch: Row,
    next: usize,
}

/// Rows of a batch.
fn length(batch: &Row) -> usize {
    let dims = batch.first().map(Tensor::dims);
    dims.and_then(|dims| dims.first().copied()).unwrap_or(0)
}

impl Rows for RebatchedRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        while self.next >= length(&self.batch) {
            stop.tick()?;
            let Some(batch) = self.before.next(cx)? else {
                return Ok(None);
            };
            let rows = length(&batch);
            if batch.iter().any(|t| t.dims().first() != Some(&rows)) {
                return Err(KernelError::Invalid(
                    "components of a batch must have as many rows each".to_owned(),
                ));
            }
            (self.batch, self.next) = (batch, 0);
        }
        let rows = length(&self.batch);
        let size = *self.size.get_or_insert(rows.div_ceil(self.replicas));
        let count = size.min(rows - self.next);
        let part = self.batch.iter().map(|tensor| {
            let mut dims = tensor.dims().to_vec();
            dims[0] = count;
            let each = tensor.len().checked_div(rows).unwrap_or(0);
            slice_elements(cx.memory(), tensor, self.next * each, &dims)
        });
        let part = part.collect::<Result<Row, _>>()?;
        self.next += count;
        Ok(Some(part))
    }
}

/// Smaller batches.
pub(crate) static REBATCH: Op = Op {
    def: OpDef {
        name: "RebatchDataset",
        summary: "The batches of a dataset, each cut into so many parts.",
        inputs: &[INPUT, number("num_replicas")],
        attrs: &[TYPES, SHAPES, bool_attr("use_fallback", true)],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let rebatch = Rebatch {
            before: before.clone(),
            replicas: positive(cx, 1, "num_replicas")?,
        };
        over(&[&before], rebatch, &[])
    })],
};

/// Between two looks whether the step was stopped.
const NAP: Duration = Duration::from_millis(10);

struct Sleep {
    before: Before,
    time: Duration,
}

impl Dataset for Sleep {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(SleepingRows {
            before: self.before.dataset.rows(cx)?,
            time: self.time,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        self.before.dataset.cardinality()
    }
}

struct SleepingRows {
    before: Box<dyn Rows>,
    time: Duration,
}

impl Rows for SleepingRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let start = Instant::now();
        while let Some(left) = self
            .time
            .checked_sub(start.elapsed())
            .filter(|t| !t.is_zero())
        {
            if cx.environment().is_stopped() {
                return Err(KernelError::Stopped);
            }
            std::thread::sleep(left.min(NAP));
        }
        self.before.next(cx)
    }
}

/// Elements that take their time.
pub(crate) static SLEEP: Op = Op {
    def: OpDef {
        name: "SleepDataset",
        summary: "The elements of a dataset, each after so many microseconds.",
        inputs: &[INPUT, number("sleep_microseconds")],
        attrs: &[TYPES, SHAPES],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let time = u64::try_from(cx.int(1)?).unwrap_or(0);
        let sleep = Sleep {
            before: before.clone(),
            time: Duration::from_micros(time),
        };
        over(&[&before], sleep, &[])
    })],
};

const DATASETS: Arg = arg_of("input_datasets", DType::Variant).list("N");

/// One of several datasets of the same elements.
pub(crate) static CHOOSE_FASTEST: Op = Op {
    def: OpDef {
        name: "ChooseFastestDataset",
        summary: "The elements of the first of several datasets, which have the same ones. No time is taken.",
        inputs: &[DATASETS],
        attrs: &[
            count_attr("N"),
            attr("num_experiments", AttrKind::Int),
            TYPES,
            SHAPES,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        input(cx, 0)?;
        Ok(vec![cx.value(0)?])
    })],
};
