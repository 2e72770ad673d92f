//! GroupByWindowDataset, GroupByReducerDataset: elements together by the number that a function gives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, args_of, attr, list_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::cache::Elements;
use super::dataset::{
    Captured, DATASET_OP, Dataset, DatasetValue, INPUT, METADATA, Row, RowBuffer, Rows, SHAPES,
    TYPES, input, of_tensor, over, source,
};
use super::window::InMemory;

/// Groups that may be open at once.
const MAX_GROUPS: usize = 1 << 20;

/// The number that a function returns.
fn number(returned: &[Tensor], what: &str) -> Result<i64, KernelError> {
    match returned {
        [one] if one.dtype() == DType::I64 && one.dims().is_empty() => Ok(one.to_scalar()?),
        _ => Err(KernelError::Invalid(format!(
            "{what} must return a scalar i64"
        ))),
    }
}

/// The functions of a node, whose captured values are its inputs behind the dataset.
fn functions<const N: usize>(
    cx: &TensorCx<'_>,
    names: [(&'static str, &'static str); N],
) -> Result<[Captured; N], KernelError> {
    let mut at = 1;
    let mut all = Vec::with_capacity(N);
    for (function, types) in names {
        let end = at + cx.attrs().types(types).len();
        all.push(Captured::new(cx, function, at..end)?);
        at = end;
    }
    all.try_into()
        .map_err(|_| KernelError::Argument("functions"))
}

/// The values that the functions hold.
fn held(functions: &[Captured]) -> Row {
    functions
        .iter()
        .flat_map(|f| f.values.iter().cloned())
        .collect()
}

struct ByWindow {
    before: Arc<DatasetValue>,
    /// The key, the dataset of a group, and the size of a group.
    functions: [Captured; 3],
}

impl Dataset for ByWindow {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(WindowRows {
            before: Some(self.before.dataset.rows(cx)?),
            functions: self.functions.clone(),
            groups: BTreeMap::new(),
            running: None,
        }))
    }
}

struct Group {
    rows: RowBuffer<Vec<Row>>,
    size: i64,
}

struct WindowRows {
    before: Option<Box<dyn Rows>>,
    functions: [Captured; 3],
    groups: BTreeMap<i64, Group>,
    /// The dataset of a group that is full.
    running: Option<Box<dyn Rows>>,
}

impl WindowRows {
    /// Lets the function make a dataset of a group.
    fn start(&mut self, cx: &TensorCx<'_>, key: i64, group: Group) -> Result<(), KernelError> {
        let held: Row = group.rows.all().iter().flatten().cloned().collect();
        let elements = InMemory(Arc::new(Elements::new(group.rows)));
        let mut arguments = vec![Tensor::scalar(key)];
        arguments.extend(source(elements, &held)?);
        let made = self.functions[1].call(cx, arguments)?;
        let one = if made.len() == 1 { made.first() } else { None };
        self.running = Some(of_tensor(one)?.dataset.rows(cx)?);
        Ok(())
    }

    /// Takes an element into its group, and starts that if it is full.
    fn take(&mut self, cx: &TensorCx<'_>, row: Row) -> Result<(), KernelError> {
        let key = number(&self.functions[0].call(cx, row.clone())?, "key_func")?;
        if !self.groups.contains_key(&key) {
            if self.groups.len() >= MAX_GROUPS {
                return Err(KernelError::Invalid(format!(
                    "more than {MAX_GROUPS} groups are open: give fewer keys, or smaller windows"
                )));
            }
            let size = self.functions[2].call(cx, vec![Tensor::scalar(key)])?;
            let size = number(&size, "window_size_func")?;
            if size <= 0 {
                return Err(KernelError::Invalid(format!(
                    "Window size must be greater than zero, but got {size}"
                )));
            }
            let rows = RowBuffer::new(cx);
            self.groups.insert(key, Group { rows, size });
        }
        let Some(group) = self.groups.get_mut(&key) else {
            return Ok(());
        };
        group.rows.add(row, Vec::push)?;
        if group.rows.all().len() as i64 >= group.size
            && let Some(group) = self.groups.remove(&key)
        {
            self.start(cx, key, group)?;
        }
        Ok(())
    }
}

impl Rows for WindowRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        loop {
            stop.tick()?;
            if let Some(running) = &mut self.running {
                if let Some(row) = running.next(cx)? {
                    return Ok(Some(row));
                }
                self.running = None;
            }
            let taken = match &mut self.before {
                Some(before) => before.next(cx)?,
                None => None,
            };
            if let Some(row) = taken {
                self.take(cx, row)?;
                continue;
            }
            self.before = None;
            match self.groups.pop_first() {
                Some((key, group)) => self.start(cx, key, group)?,
                None => return Ok(None),
            }
        }
    }
}

const KEY_TYPES: AttrDef = list_attr("Tkey_func_other_arguments", AttrKind::Types);
const REDUCE_TYPES: AttrDef = list_attr("Treduce_func_other_arguments", AttrKind::Types);
const SIZE_TYPES: AttrDef = list_attr("Twindow_size_func_other_arguments", AttrKind::Types);
const INIT_TYPES: AttrDef = list_attr("Tinit_func_other_arguments", AttrKind::Types);
const FINAL_TYPES: AttrDef = list_attr("Tfinalize_func_other_arguments", AttrKind::Types);

/// Groups of a size.
pub(crate) static GROUP_BY_WINDOW: Op = Op {
    def: OpDef {
        name: "GroupByWindowDataset",
        summary: "The elements of the datasets that a function makes of groups: elements of one key, so many at a time.",
        inputs: &[
            INPUT,
            args_of("key_func_other_arguments", KEY_TYPES.name),
            args_of("reduce_func_other_arguments", REDUCE_TYPES.name),
            args_of("window_size_func_other_arguments", SIZE_TYPES.name),
        ],
        attrs: &[
            attr("key_func", AttrKind::Func),
            attr("reduce_func", AttrKind::Func),
            attr("window_size_func", AttrKind::Func),
            KEY_TYPES,
            REDUCE_TYPES,
            SIZE_TYPES,
            TYPES,
            SHAPES,
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let functions = functions(
            cx,
            [
                ("key_func", KEY_TYPES.name),
                ("reduce_func", REDUCE_TYPES.name),
                ("window_size_func", SIZE_TYPES.name),
            ],
        )?;
        let held = held(&functions);
        let groups = ByWindow {
            before: before.clone(),
            functions,
        };
        over(&[&before], groups, &held)
    })],
};

struct ByReducer {
    before: Arc<DatasetValue>,
    /// The key, the first state of a group, the next state, and the element that a state gives.
    functions: [Captured; 4],
}

impl Dataset for ByReducer {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(ReducedRows {
            before: Some(self.before.dataset.rows(cx)?),
            functions: self.functions.clone(),
            states: BTreeMap::new(),
        }))
    }
}

struct ReducedRows {
    before: Option<Box<dyn Rows>>,
    functions: [Captured; 4],
    states: BTreeMap<i64, RowBuffer<Vec<Row>>>,
}

impl ReducedRows {
    /// Takes an element into the state of its group.
    fn take(&mut self, cx: &TensorCx<'_>, row: Row) -> Result<(), KernelError> {
        let [key, init, reduce, _] = &self.functions;
        let key = number(&key.call(cx, row.clone())?, "key_func")?;
        let state = match self.states.remove(&key) {
            Some(mut state) => state.remove(Vec::pop).unwrap_or_default(),
            None if self.states.len() >= MAX_GROUPS => {
                return Err(KernelError::Invalid(format!(
                    "more than {MAX_GROUPS} groups are open: give fewer keys"
                )));
            }
            None => init.call(cx, vec![Tensor::scalar(key)])?,
        };
        let arguments = state.into_iter().chain(row).collect();
        let mut kept = RowBuffer::new(cx);
        kept.add(reduce.call(cx, arguments)?, Vec::push)?;
        self.states.insert(key, kept);
        Ok(())
    }
}

impl Rows for ReducedRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        while let Some(before) = &mut self.before {
            stop.tick()?;
            match before.next(cx)? {
                Some(row) => self.take(cx, row)?,
                None => self.before = None,
            }
        }
        let Some((_, mut state)) = self.states.pop_first() else {
            return Ok(None);
        };
        let state = state.remove(Vec::pop).unwrap_or_default();
        self.functions[3].call(cx, state).map(Some)
    }
}

/// Groups of all their elements.
pub(crate) static GROUP_BY_REDUCER: Op = Op {
    def: OpDef {
        name: "GroupByReducerDataset",
        summary: "One element for each key: what functions make of all elements of that key, one after the other.",
        inputs: &[
            INPUT,
            args_of("key_func_other_arguments", KEY_TYPES.name),
            args_of("init_func_other_arguments", INIT_TYPES.name),
            args_of("reduce_func_other_arguments", REDUCE_TYPES.name),
            args_of("finalize_func_other_arguments", FINAL_TYPES.name),
        ],
        attrs: &[
            attr("key_func", AttrKind::Func),
            attr("init_func", AttrKind::Func),
            attr("reduce_func", AttrKind::Func),
            attr("finalize_func", AttrKind::Func),
            KEY_TYPES,
            INIT_TYPES,
            REDUCE_TYPES,
            FINAL_TYPES,
            TYPES,
            SHAPES,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let functions = functions(
            cx,
            [
                ("key_func", KEY_TYPES.name),
                ("init_func", INIT_TYPES.name),
                ("reduce_func", REDUCE_TYPES.name),
                ("finalize_func", FINAL_TYPES.name),
            ],
        )?;
        let held = held(&functions);
        let groups = ByReducer {
            before: before.clone(),
            functions,
        };
        over(&[&before], groups, &held)
    })],
};
