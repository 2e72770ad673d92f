//! MapDataset, ParallelMapDataset, ParallelMapDatasetV2, FilterDataset, TakeWhileDataset, ScanDataset.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, arg_of, args_of, bool_attr, list_attr, str_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::DType;

use super::dataset::{
    ARGUMENT_TYPES, ARGUMENTS, Captured, Cardinality, DATASET_OP, Dataset, DatasetValue, F, INPUT,
    METADATA, PREDICATE, Row, Rows, SHAPES, TYPES, input, number, over,
};

struct Map {
    before: Arc<DatasetValue>,
    function: Captured,
}

impl Dataset for Map {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(MapRows {
            before: self.before.dataset.rows(cx)?,
            function: self.function.clone(),
        }))
    }

    fn cardinality(&self) -> Cardinality {
        self.before.dataset.cardinality()
    }
}

struct MapRows {
    before: Box<dyn Rows>,
    function: Captured,
}

impl Rows for MapRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        match self.before.next(cx)? {
            Some(row) => self.function.call(cx, row).map(Some),
            None => Ok(None),
        }
    }
}

fn map(cx: &TensorCx<'_>, after: usize) -> Result<Vec<thalweg_tensor::Tensor>, KernelError> {
    let before = input(cx, 0)?;
    let function = Captured::of_arguments(cx, "f", after)?;
    let held = function.values.clone();
    over(&[&before.clone()], Map { before, function }, &held)
}

/// The elements for which a function holds: all of them, or those before the first for which it does not.
struct Filter {
    before: Arc<DatasetValue>,
    predicate: Captured,
    ends: bool,
}

impl Dataset for Filter {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(FilterRows {
            before: Some(self.before.dataset.rows(cx)?),
            predicate: self.predicate.clone(),
            ends: self.ends,
        }))
    }
}

struct FilterRows {
    before: Option<Box<dyn Rows>>,
    predicate: Captured,
    ends: bool,
}

impl Rows for FilterRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        while let Some(before) = &mut self.before {
            let Some(row) = before.next(cx)? else {
                return Ok(None);
            };
            if self.predicate.test(cx, row.clone())? {
                return Ok(Some(row));
            }
            if self.ends {
                self.before = None;
            }
        }
        Ok(None)
    }
}

fn filter(cx: &TensorCx<'_>, ends: bool) -> Result<Vec<thalweg_tensor::Tensor>, KernelError> {
    let before = input(cx, 0)?;
    let predicate = Captured::of_arguments(cx, "predicate", 0)?;
    let held = predicate.values.clone();
    let filter = Filter {
        before: before.clone(),
        predicate,
        ends,
    };
    over(&[&before], filter, &held)
}

/// Elements that a function makes of a state and each element before it.
struct Scan {
    before: Arc<DatasetValue>,
    function: Captured,
    initial: Row,
}

impl Dataset for Scan {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(ScanRows {
            before: self.before.dataset.rows(cx)?,
            function: self.function.clone(),
            state: self.initial.clone(),
        }))
    }
}

struct ScanRows {
    before: Box<dyn Rows>,
    function: Captured,
    state: Row,
}

impl Rows for ScanRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let Some(row) = self.before.next(cx)? else {
            return Ok(None);
        };
        let arguments = self.state.iter().cloned().chain(row).collect();
        let mut state = self.function.call(cx, arguments)?;
        if state.len() < self.state.len() {
            return Err(KernelError::Invalid(
                "the function must return the new state, and then an element".to_owned(),
            ));
        }
        let row = state.split_off(self.state.len());
        self.state = state;
        Ok(Some(row))
    }
}

const USE_INTER_OP_PARALLELISM: AttrDef = bool_attr("use_inter_op_parallelism", true);
const PRESERVE_CARDINALITY: AttrDef = bool_attr("preserve_cardinality", false);
/// `true`, `false` or `default`: the order is always kept.
pub(super) const DETERMINISTIC: AttrDef = str_attr("deterministic", "default", &[]);

/// Elements that a function makes.
pub(crate) static MAP: Op = Op {
    def: OpDef {
        name: "MapDataset",
        summary: "What a function makes of each element of a dataset.",
        inputs: &[INPUT, ARGUMENTS],
        attrs: &[
            F,
            ARGUMENT_TYPES,
            TYPES,
            SHAPES,
            USE_INTER_OP_PARALLELISM,
            PRESERVE_CARDINALITY,
            bool_attr("force_synchronous", false),
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| map(cx, 0))],
};

/// As [`MAP`].
pub(crate) static PARALLEL_MAP: Op = Op {
    def: OpDef {
        name: "ParallelMapDataset",
        summary: "What a function makes of each element of a dataset.",
        inputs: &[INPUT, ARGUMENTS, arg_of("num_parallel_calls", DType::I32)],
        attrs: &[
            F,
            ARGUMENT_TYPES,
            TYPES,
            SHAPES,
            USE_INTER_OP_PARALLELISM,
            bool_attr("sloppy", false),
            PRESERVE_CARDINALITY,
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| map(cx, 1))],
};

/// As [`MAP`].
pub(crate) static PARALLEL_MAP_V2: Op = Op {
    def: OpDef {
        name: "ParallelMapDatasetV2",
        summary: "What a function makes of each element of a dataset.",
        inputs: &[INPUT, ARGUMENTS, number("num_parallel_calls")],
        attrs: &[
            F,
            ARGUMENT_TYPES,
            TYPES,
            SHAPES,
            USE_INTER_OP_PARALLELISM,
            DETERMINISTIC,
            PRESERVE_CARDINALITY,
            bool_attr("use_unbounded_threadpool", false),
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| map(cx, 1))],
};

const FILTER_ATTRS: &[AttrDef] = &[PREDICATE, ARGUMENT_TYPES, TYPES, SHAPES, METADATA];

/// Elements for which a function holds.
pub(crate) static FILTER: Op = Op {
    def: OpDef {
        name: "FilterDataset",
        summary: "The elements of a dataset for which a function returns true.",
        inputs: &[INPUT, ARGUMENTS],
        attrs: FILTER_ATTRS,
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| filter(cx, false))],
};

/// Elements before the first for which a function does not hold.
pub(crate) static TAKE_WHILE: Op = Op {
    def: OpDef {
        name: "TakeWhileDataset",
        summary: "The elements of a dataset before the first for which a function returns false.",
        inputs: &[INPUT, ARGUMENTS],
        attrs: FILTER_ATTRS,
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| filter(cx, true))],
};

/// Elements that a function makes with a state.
pub(crate) static SCAN: Op = Op {
    def: OpDef {
        name: "ScanDataset",
        summary: "What a function makes of a state, which it passes on, and each element of a dataset.",
        inputs: &[INPUT, args_of("initial_state", "Tstate"), ARGUMENTS],
        attrs: &[
            F,
            list_attr("Tstate", AttrKind::Types),
            ARGUMENT_TYPES,
            TYPES,
            SHAPES,
            PRESERVE_CARDINALITY,
            bool_attr("use_default_device", true),
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let states = cx.attrs().types("Tstate").len();
        let initial = (1..1 + states)
            .map(|i| cx.held(i))
            .collect::<Result<Row, _>>()?;
        let function = Captured::new(cx, "f", 1 + states..cx.inputs())?;
        let held: Row = initial.iter().chain(&function.values).cloned().collect();
        let scan = Scan {
            before: before.clone(),
            function,
            initial,
        };
        over(&[&before], scan, &held)
    })],
};
