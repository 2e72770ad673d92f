//! WindowDataset: data sets of elements that follow each other.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::arg_of;
use thalweg_tensor::DType;

use super::cache::{Elements, KeptRows};
use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, Row, RowBuffer, Rows, flag, input,
    number, over, positive, source,
};

struct Window {
    before: Arc<DatasetValue>,
    size: usize,
    shift: usize,
    stride: usize,
    drop_remainder: bool,
}

impl Dataset for Window {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(WindowRows {
            before: Some(self.before.dataset.rows(cx)?),
            buffer: RowBuffer::new(cx),
            gap: 0,
            size: self.size,
            shift: self.shift,
            stride: self.stride,
            drop_remainder: self.drop_remainder,
        }))
    }
}

struct WindowRows {
    before: Option<Box<dyn Rows>>,
    /// The elements from the first one of the next window on.
    buffer: RowBuffer<VecDeque<Row>>,
    /// Elements to pass over before the next window.
    gap: u64,
    size: usize,
    shift: usize,
    stride: usize,
    drop_remainder: bool,
}

impl Rows for WindowRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let span = (self.size - 1)
            .saturating_mul(self.stride)
            .saturating_add(1);
        let mut stop = cx.stop_check();
        if let Some(before) = &mut self.before {
            let mut ended = before.pass(cx, self.gap)? < self.gap;
            self.gap = 0;
            while !ended && self.buffer.all().len() < span {
                stop.tick()?;
                match before.next(cx)? {
                    Some(row) => self.buffer.add(row, VecDeque::push_back)?,
                    None => ended = true,
                }
            }
            if ended {
                self.before = None;
            }
        }
        if self.buffer.all().is_empty() || (self.drop_remainder && self.buffer.all().len() < span) {
            self.buffer = RowBuffer::new(cx);
            return Ok(None);
        }
        let window: Vec<Row> = self
            .buffer
            .all()
            .iter()
            .step_by(self.stride)
            .take(self.size)
            .cloned()
            .collect();
        let dropped = self.shift.min(self.buffer.all().len());
        for _ in 0..dropped {
            self.buffer.remove(VecDeque::pop_front);
        }
        self.gap = (self.shift - dropped) as u64;
        let components = window.first().map_or(0, Vec::len);
        let mut row = Row::with_capacity(components);
        for i in 0..components {
            let mut column = RowBuffer::new(cx);
            for row in &window {
                column.add(vec![row[i].clone()], Vec::push)?;
            }
            let held: Row = window.iter().map(|row| row[i].clone()).collect();
            row.extend(source(InMemory(Arc::new(Elements::new(column))), &held)?);
        }
        Ok(Some(row))
    }
}

/// Elements in memory.
pub(super) struct InMemory(pub(super) Arc<Elements>);

impl Dataset for InMemory {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(KeptRows {
            all: self.0.clone(),
            next: 0,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(self.0.len() as u64)
    }
}

/// Windows of elements.
pub(crate) static WINDOW: Op = Op {
    def: OpDef {
        name: "WindowDataset",
        summary: "Datasets of size elements of a dataset, stride apart; each starts shift elements after the one before.",
        inputs: &[
            INPUT,
            number("size"),
            number("shift"),
            number("stride"),
            arg_of("drop_remainder", DType::Bool),
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let window = Window {
            before: before.clone(),
            size: positive(cx, 1, "size")?,
            shift: positive(cx, 2, "shift")?,
            stride: positive(cx, 3, "stride")?,
            drop_remainder: flag(cx, 4)?,
        };
        over(&[&before], window, &[])
    })],
};
