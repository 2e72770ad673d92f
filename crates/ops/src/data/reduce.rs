//! ReduceDataset, DatasetToSingleElement, DatasetCardinality: values that are computed of a whole dataset.

use thalweg_device::{KernelError, Op, cpu_tensors};
use thalweg_graph::op::{Calls, arg_of, args_of, bool_attr, list_attr, str_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::dataset::{
    ARGUMENT_TYPES, ARGUMENTS, Captured, Cardinality, DATASET_OP, F, INPUT, METADATA, Row, SHAPES,
    TYPES, input,
};
use super::iterator_ops::declared_shapes;

/// A fold over the elements.
pub(crate) static REDUCE: Op = Op {
    def: OpDef {
        name: "ReduceDataset",
        summary: "What a function makes of a state and each element of a dataset, from the first to the last.",
        inputs: &[INPUT, args_of("initial_state", "Tstate"), ARGUMENTS],
        outputs: &[args_of("components", "output_types")],
        attrs: &[
            F,
            list_attr("Tstate", AttrKind::Types),
            ARGUMENT_TYPES,
            TYPES,
            SHAPES,
            bool_attr("use_inter_op_parallelism", true),
            METADATA,
        ],
        shape: declared_shapes,
        calls: Calls::Held,
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let states = cx.attrs().types("Tstate").len();
        let mut state = (1..1 + states)
            .map(|i| cx.value(i))
            .collect::<Result<Row, _>>()?;
        let function = Captured::new(cx, "f", 1 + states..cx.inputs())?;
        let mut rows = input(cx, 0)?.dataset.rows(cx)?;
        let mut stop = cx.stop_check();
        while let Some(row) = rows.next(cx)? {
            stop.tick()?;
            state.extend(row);
            state = function.call(cx, state)?;
        }
        Ok(state)
    })],
};

/// The only element.
pub(crate) static SINGLE: Op = Op {
    def: OpDef {
        name: "DatasetToSingleElement",
        summary: "The only element of a dataset.",
        inputs: &[arg_of("dataset", DType::Variant)],
        outputs: &[args_of("components", "output_types")],
        shape: declared_shapes,
        calls: Calls::Held,
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let mut rows = input(cx, 0)?.dataset.rows(cx)?;
        let wrong = |found: &str| {
            KernelError::Invalid(format!(
                "the dataset must have one element, and has {found}"
            ))
        };
        let row = rows.next(cx)?.ok_or_else(|| wrong("none"))?;
        match rows.next(cx)? {
            None => Ok(row),
            Some(_) => Err(wrong("more")),
        }
    })],
};

/// The number of elements.
pub(crate) static CARDINALITY: Op = Op {
    def: OpDef {
        name: "DatasetCardinality",
        summary: "The number of a dataset's elements: -1 without end, -2 if only a pass tells.",
        outputs: &[arg_of("cardinality", DType::I64)],
        attrs: &[str_attr("cardinality_options", "", &[])],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let number = match input(cx, 0)?.dataset.cardinality() {
            Cardinality::Finite(n) => i64::try_from(n).unwrap_or(i64::MAX),
            Cardinality::Infinite => -1,
            Cardinality::Unknown => -2,
        };
        Ok(vec![Tensor::scalar(number)])
    })],
};
