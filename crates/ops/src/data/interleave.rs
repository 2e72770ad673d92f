//! FlatMapDataset, InterleaveDataset, ParallelInterleaveDataset and its V2, V3, V4,
//! LegacyParallelInterleaveDatasetV2.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, arg_of, bool_attr};
use thalweg_tensor::{DType, Tensor};

use super::dataset::{
    ARGUMENT_TYPES, ARGUMENTS, Captured, DATASET_OP, Dataset, DatasetValue, F, INPUT, METADATA,
    Row, Rows, SHAPES, TYPES, input, number, of_tensor, over, positive,
};
use super::functions::DETERMINISTIC;

/// The cycle's length where the graph leaves it open with -1. In TensorFlow it is the number of the machine's threads, so
/// that the order differs between machines.
const CHOSEN_CYCLE: usize = 10;

/// Maximum number of data sets that are passed over at once.
const MAX_CYCLE: usize = 1 << 16;

/// The data sets that a function makes of elements: `cycle` at once, by turns of `block` elements.
struct Interleave {
    before: Arc<DatasetValue>,
    function: Captured,
    cycle: usize,
    block: usize,
}

impl Dataset for Interleave {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(InterleaveRows {
            before: Some(self.before.dataset.rows(cx)?),
            function: self.function.clone(),
            open: Vec::new(),
            cycle: self.cycle,
            block: self.block,
            turn: 0,
            taken: 0,
        }))
    }
}

struct InterleaveRows {
    /// The elements to come; `None` once there are no more.
    before: Option<Box<dyn Rows>>,
    function: Captured,
    /// By place in the cycle: the pass that has it. It is filled from the front as turns come.
    open: Vec<Option<Box<dyn Rows>>>,
    cycle: usize,
    block: usize,
    /// The place whose turn it is.
    turn: usize,
    /// Elements that were taken in this turn.
    taken: usize,
}

impl InterleaveRows {
    fn end_turn(&mut self) {
        self.taken = 0;
        self.turn = (self.turn + 1) % self.cycle;
    }

    /// Opens the next data set at the place whose turn it is; `false` if there is none.
    fn open(&mut self, cx: &TensorCx<'_>) -> Result<bool, KernelError> {
        let Some(before) = &mut self.before else {
            return Ok(false);
        };
        let Some(row) = before.next(cx)? else {
            self.before = None;
            return Ok(false);
        };
        let made = self.function.call(cx, row)?;
        let rows = of_tensor(made.first())?.dataset.rows(cx)?;
        if self.open.len() <= self.turn {
            self.open.resize_with(self.turn + 1, || None);
        }
        self.open[self.turn] = Some(rows);
        Ok(true)
    }
}

impl Rows for InterleaveRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        loop {
            stop.tick()?;
            if let Some(Some(rows)) = self.open.get_mut(self.turn) {
                if let Some(row) = rows.next(cx)? {
                    self.taken += 1;
                    if self.taken == self.block {
                        self.end_turn();
                    }
                    return Ok(Some(row));
                }
                // The place is taken by the next data set at its next turn.
                self.open[self.turn] = None;
                self.end_turn();
            } else if !self.open(cx)? {
                if self.open.iter().all(Option::is_none) {
                    return Ok(None);
                }
                self.end_turn();
            }
        }
    }
}

/// The op's kernel: the cycle's and the block's length are at the inputs behind the captured ones.
fn interleave(cx: &TensorCx<'_>, after: usize) -> Result<Vec<Tensor>, KernelError> {
    let first = cx.inputs().saturating_sub(after);
    let cycle = match cx.int(first)? {
        -1 => CHOSEN_CYCLE,
        _ => positive(cx, first, "cycle_length")?,
    };
    if cycle > MAX_CYCLE {
        return Err(KernelError::Invalid(format!(
            "cycle_length is {cycle}: it may be {MAX_CYCLE}"
        )));
    }
    let block = positive(cx, first + 1, "block_length")?;
    made(cx, after, cycle, block)
}

fn made(
    cx: &TensorCx<'_>,
    after: usize,
    cycle: usize,
    block: usize,
) -> Result<Vec<Tensor>, KernelError> {
    let before = input(cx, 0)?;
    let function = Captured::of_arguments(cx, "f", after)?;
    let held = function.values.clone();
    let dataset = Interleave {
        before: before.clone(),
        function,
        cycle,
        block,
    };
    over(&[&before], dataset, &held)
}

const ATTRS: &[AttrDef] = &[F, ARGUMENT_TYPES, TYPES, SHAPES, METADATA];

/// The elements of data sets, one after the other.
pub(crate) static FLAT_MAP: Op = Op {
    def: OpDef {
        name: "FlatMapDataset",
        summary: "The elements of the datasets that a function makes, one dataset after the other.",
        inputs: &[INPUT, ARGUMENTS],
        attrs: ATTRS,
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| made(cx, 0, 1, 1))],
};

/// The elements of data sets by turns.
pub(crate) static INTERLEAVE: Op = Op {
    def: OpDef {
        name: "InterleaveDataset",
        summary: "The elements of the datasets that a function makes, cycle_length datasets by turns.",
        inputs: &[
            INPUT,
            ARGUMENTS,
            number("cycle_length"),
            number("block_length"),
        ],
        attrs: ATTRS,
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| interleave(cx, 2))],
};

/// As [`INTERLEAVE`].
pub(crate) static PARALLEL_INTERLEAVE: Op = Op {
    def: OpDef {
        name: "ParallelInterleaveDataset",
        inputs: &[
            INPUT,
            ARGUMENTS,
            number("cycle_length"),
            number("block_length"),
            arg_of("sloppy", DType::Bool),
            number("buffer_output_elements"),
            number("prefetch_input_elements"),
        ],
        ..INTERLEAVE.def
    },
    kernels: &[cpu_tensors(|cx| interleave(cx, 5))],
};

/// As [`INTERLEAVE`].
pub(crate) static PARALLEL_INTERLEAVE_V2: Op = Op {
    def: OpDef {
        name: "ParallelInterleaveDatasetV2",
        inputs: &[
            INPUT,
            ARGUMENTS,
            number("cycle_length"),
            number("block_length"),
            number("num_parallel_calls"),
        ],
        attrs: &[
            F,
            ARGUMENT_TYPES,
            TYPES,
            SHAPES,
            bool_attr("sloppy", false),
            METADATA,
        ],
        ..INTERLEAVE.def
    },
    kernels: &[cpu_tensors(|cx| interleave(cx, 3))],
};

/// As [`INTERLEAVE`].
pub(crate) static PARALLEL_INTERLEAVE_V3: Op = Op {
    def: OpDef {
        name: "ParallelInterleaveDatasetV3",
        attrs: &[F, DETERMINISTIC, ARGUMENT_TYPES, TYPES, SHAPES, METADATA],
        ..PARALLEL_INTERLEAVE_V2.def
    },
    kernels: &[cpu_tensors(|cx| interleave(cx, 3))],
};

/// As [`INTERLEAVE`].
pub(crate) static PARALLEL_INTERLEAVE_V4: Op = Op {
    def: OpDef {
        name: "ParallelInterleaveDatasetV4",
        inputs: &[
            INPUT,
            ARGUMENTS,
            number("cycle_length"),
            number("block_length"),
            number("buffer_output_elements"),
            number("prefetch_input_elements"),
            number("num_parallel_calls"),
        ],
        attrs: PARALLEL_INTERLEAVE_V3.def.attrs,
        ..INTERLEAVE.def
    },
    kernels: &[cpu_tensors(|cx| interleave(cx, 5))],
};

/// As [`INTERLEAVE`].
pub(crate) static LEGACY_PARALLEL_INTERLEAVE_V2: Op = Op {
    def: OpDef {
        name: "LegacyParallelInterleaveDatasetV2",
        // Without the number of parallel calls.
        inputs: PARALLEL_INTERLEAVE_V4.def.inputs.split_at(6).0,
        attrs: PARALLEL_INTERLEAVE_V3.def.attrs,
        ..INTERLEAVE.def
    },
    kernels: &[cpu_tensors(|cx| interleave(cx, 4))],
};
