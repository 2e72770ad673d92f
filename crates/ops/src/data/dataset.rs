//! Dataset, Rows: a data set as a value of a graph, and one pass over it.
//!
//! A dataset op makes a variant that holds a [`Dataset`]. An iterator asks it for [`Rows`], and takes a row each time its
//! node runs, on the thread of that node: functions of datasets are called in that step, and end with it. Nothing runs
//! between steps.

use std::sync::Arc;

use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg_of, args_of, attr, list_attr, str_attr, types_attr,
};
use thalweg_graph::{AttrKind, Func, OpDef};
use thalweg_tensor::{DType, Nesting, Reservation, Tensor};

/// Maximum number of datasets in a chain: each takes room on the thread's stack.
const MAX_DEPTH: usize = 400;

/// The components of an element.
pub(super) type Row = Vec<Tensor>;

/// Bytes of a component that is kept, beside the elements of its tensor: those of a small tensor count nowhere else.
const COMPONENT_BYTES: usize = 160;

/// Elements that a pass keeps for later: they count against the memory of the device.
pub(super) struct RowBuffer<C> {
    all: C,
    taken: Reservation,
}

impl<C: Default> RowBuffer<C> {
    /// No elements.
    pub(super) fn new(cx: &TensorCx<'_>) -> RowBuffer<C> {
        RowBuffer {
            all: C::default(),
            taken: Reservation::of(Some(cx.memory())),
        }
    }

    /// Adds an element by a function, once there is memory for it.
    pub(super) fn add(
        &mut self,
        row: Row,
        add: impl FnOnce(&mut C, Row),
    ) -> Result<(), KernelError> {
        let bytes = row_bytes(&row);
        if !self.taken.grow(bytes) {
            return Err(KernelError::Memory { bytes });
        }
        add(&mut self.all, row);
        Ok(())
    }

    /// Removes an element by a function.
    pub(super) fn remove(&mut self, remove: impl FnOnce(&mut C) -> Option<Row>) -> Option<Row> {
        let row = remove(&mut self.all)?;
        self.taken.shrink(row_bytes(&row));
        Some(row)
    }

    /// The elements.
    pub(super) fn all(&self) -> &C {
        &self.all
    }

    /// The elements, and what counts them: it is dropped after them.
    pub(super) fn into_parts(self) -> (C, Reservation) {
        (self.all, self.taken)
    }
}

fn row_bytes(row: &Row) -> usize {
    size_of::<Row>() + row.len() * COMPONENT_BYTES
}

/// A data set: it can be passed over any number of times.
pub(super) trait Dataset: Send + Sync {
    /// Starts a pass.
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError>;

    /// Number of its elements, as far as it is known without a pass.
    fn cardinality(&self) -> Cardinality {
        Cardinality::Unknown
    }
}

/// A pass over a data set.
pub(super) trait Rows: Send {
    /// The next element; `None` at the end, from then on.
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError>;

    /// Passes over so many elements, and returns how many there were.
    fn pass(&mut self, cx: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        let mut stop = cx.stop_check();
        for passed in 0..count {
            stop.tick()?;
            if self.next(cx)?.is_none() {
                return Ok(passed);
            }
        }
        Ok(count)
    }
}

/// Number of elements of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    /// So many.
    Finite(u64),
    /// No end.
    Infinite,
    /// Only a pass tells.
    Unknown,
}

impl Cardinality {
    /// The number that a function makes of a finite one.
    pub(super) fn map(self, function: impl FnOnce(u64) -> u64) -> Cardinality {
        match self {
            Cardinality::Finite(n) => Cardinality::Finite(function(n)),
            other => other,
        }
    }

    /// That of pairs: the smaller one.
    pub(super) fn shorter(self, other: Cardinality) -> Cardinality {
        match (self, other) {
            (Cardinality::Unknown, _) | (_, Cardinality::Unknown) => Cardinality::Unknown,
            (Cardinality::Infinite, other) | (other, Cardinality::Infinite) => other,
            (Cardinality::Finite(a), Cardinality::Finite(b)) => Cardinality::Finite(a.min(b)),
        }
    }

    /// That of one after the other.
    pub(super) fn sum(self, other: Cardinality) -> Cardinality {
        match (self, other) {
            (Cardinality::Infinite, _) | (_, Cardinality::Infinite) => Cardinality::Infinite,
            (Cardinality::Finite(a), Cardinality::Finite(b)) => {
                Cardinality::Finite(a.saturating_add(b))
            }
            _ => Cardinality::Unknown,
        }
    }
}

/// The object behind the variant that a dataset op makes.
#[derive(Clone)]
pub(super) struct DatasetValue {
    pub(super) dataset: Arc<dyn Dataset>,
    depth: usize,
}

/// The dataset at input `i`.
pub(super) fn input(cx: &TensorCx<'_>, i: usize) -> Result<Arc<DatasetValue>, KernelError> {
    cx.object::<DatasetValue>(i)
}

/// Passes over the dataset at input `i`.
pub(crate) fn for_each_row(
    cx: &TensorCx<'_>,
    i: usize,
    mut take: impl FnMut(Vec<Tensor>) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let mut rows = input(cx, i)?.dataset.rows(cx)?;
    let mut stop = cx.stop_check();
    while let Some(row) = rows.next(cx)? {
        stop.tick()?;
        take(row)?;
    }
    Ok(())
}

/// The dataset that a tensor holds.
pub(super) fn of_tensor(tensor: Option<&Tensor>) -> Result<Arc<DatasetValue>, KernelError> {
    let value = tensor.filter(|t| t.dtype() == DType::Variant && t.dims().is_empty());
    value
        .and_then(Tensor::object::<DatasetValue>)
        .ok_or_else(|| {
            KernelError::Invalid(
                "the function must return one dataset, and returns something else".to_owned(),
            )
        })
}

/// A source of elements as the only output of a kernel. It holds these tensors.
pub(super) fn source(
    dataset: impl Dataset + 'static,
    held: &[Tensor],
) -> Result<Vec<Tensor>, KernelError> {
    output(dataset, 0, held)
}

/// A dataset on top of others as the only output of a kernel. It holds these tensors beside them.
pub(super) fn over(
    inputs: &[&DatasetValue],
    dataset: impl Dataset + 'static,
    held: &[Tensor],
) -> Result<Vec<Tensor>, KernelError> {
    let depth = inputs.iter().map(|value| value.depth).max().unwrap_or(0);
    if depth >= MAX_DEPTH {
        return Err(KernelError::Invalid(format!(
            "more than {MAX_DEPTH} datasets stand on each other: join them with one concatenate or zip"
        )));
    }
    output(dataset, depth + 1, held)
}

fn output(
    dataset: impl Dataset + 'static,
    depth: usize,
    held: &[Tensor],
) -> Result<Vec<Tensor>, KernelError> {
    let mut nesting = Nesting::default();
    held.iter().try_for_each(|tensor| nesting.add(tensor))?;
    let dataset: Arc<dyn Dataset> = Arc::new(dataset);
    Ok(vec![Tensor::variant(
        Arc::new(DatasetValue { dataset, depth }),
        nesting,
    )?])
}

/// A function of the graph's library with the values that it has captured.
#[derive(Clone)]
pub(super) struct Captured {
    function: Func,
    pub(super) values: Vec<Tensor>,
}

impl Captured {
    /// Attribute `attr` of the node; the values are inputs `from` to `to`.
    pub(super) fn new(
        cx: &TensorCx<'_>,
        attr: &'static str,
        inputs: std::ops::Range<usize>,
    ) -> Result<Captured, KernelError> {
        let function = cx
            .attrs()
            .func(attr)
            .ok_or(KernelError::Argument("a function"))?;
        Ok(Captured {
            function: function.clone(),
            values: inputs.map(|i| cx.held(i)).collect::<Result<_, _>>()?,
        })
    }

    /// The function of the node's inputs behind the first, which is a dataset: `other_arguments`. `after` inputs follow
    /// them.
    pub(super) fn of_arguments(
        cx: &TensorCx<'_>,
        attr: &'static str,
        after: usize,
    ) -> Result<Captured, KernelError> {
        Captured::new(cx, attr, 1..cx.inputs().saturating_sub(after))
    }

    /// Calls it in the step of a node.
    pub(super) fn call(&self, cx: &TensorCx<'_>, mut arguments: Row) -> Result<Row, KernelError> {
        arguments.extend(self.values.iter().cloned());
        cx.environment().call(&self.function, arguments, None)
    }

    /// Calls it for one truth value.
    pub(super) fn test(&self, cx: &TensorCx<'_>, arguments: Row) -> Result<bool, KernelError> {
        match &self.call(cx, arguments)?[..] {
            [value] if value.dtype() == DType::Bool && value.dims().is_empty() => {
                Ok(value.to_scalar::<bool>()?)
            }
            _ => Err(KernelError::Invalid(format!(
                "function '{}' must return one bool for each element",
                self.function.name
            ))),
        }
    }
}

/// The value of a number that must be above 0, such as a batch size, at input `i`.
pub(super) fn positive(cx: &TensorCx<'_>, i: usize, name: &str) -> Result<usize, KernelError> {
    let value = cx.int(i)?;
    let value = usize::try_from(value).ok().filter(|&v| v > 0);
    value.ok_or_else(|| {
        KernelError::Invalid(format!(
            "{name} must be 1 or more, and is {}",
            cx.int(i).unwrap_or(0)
        ))
    })
}

/// The truth value at input `i`.
pub(super) fn flag(cx: &TensorCx<'_>, i: usize) -> Result<bool, KernelError> {
    Ok(cx.tensor(i)?.to_scalar::<bool>()?)
}

pub(super) const INPUT: Arg = arg_of("input_dataset", DType::Variant);
pub(super) const HANDLE: Arg = arg_of("handle", DType::Variant);
pub(super) const ARGUMENTS: Arg = args_of("other_arguments", "Targuments");
pub(super) const F: AttrDef = attr("f", AttrKind::Func);
pub(super) const PREDICATE: AttrDef = attr("predicate", AttrKind::Func);
pub(super) const ARGUMENT_TYPES: AttrDef = list_attr("Targuments", AttrKind::Types);
pub(super) const TYPES: AttrDef = types_attr("output_types");
pub(super) const SHAPES: AttrDef = list_attr("output_shapes", AttrKind::Shapes);
pub(super) const METADATA: AttrDef = str_attr("metadata", "", &[]);
/// Attributes of a dataset over another one.
pub(super) const OVER: &[AttrDef] = &[TYPES, SHAPES, METADATA];

/// Input that is one i64.
pub(super) const fn number(name: &'static str) -> Arg {
    arg_of(name, DType::I64)
}

/// Base definition of a dataset op.
pub(super) const DATASET_OP: OpDef = OpDef {
    inputs: &[INPUT],
    outputs: &[HANDLE],
    attrs: OVER,
    shape: crate::support::shapes::scalar,
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};
