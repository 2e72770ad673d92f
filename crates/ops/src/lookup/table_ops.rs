//! InitializeTableV2, InitializeTableFromTextFileV2, InitializeTableFromDataset, LookupTableFindV2,
//! LookupTableInsertV2, LookupTableRemoveV2, LookupTableSizeV2, LookupTableExportV2, LookupTableImportV2.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, attr, int_attr, str_attr, type_attr,
};
use thalweg_graph::{AttrKind, InferError, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::table::Table;
use super::text_file::TextEntries;
use crate::data::dataset::for_each_row;
use crate::support::shapes::{expect_at_least, expect_scalar, scalar};

const HANDLE: Arg = arg_of("table_handle", DType::Resource);
/// Keys and values of the ops that change a table.
pub(super) const KEYS: Arg = arg("keys", "Tin");
pub(super) const VALUES: Arg = arg("values", "Tout");
/// Attributes of an op that takes keys and values.
pub(super) const DTYPES: &[AttrDef] = &[
    type_attr("Tin", &DType::ALL),
    type_attr("Tout", &DType::ALL),
];
/// Attributes of an op that gives keys and values.
pub(super) const EXPORTED_DTYPES: &[AttrDef] = &[
    type_attr("Tkeys", &DType::ALL),
    type_attr("Tvalues", &DType::ALL),
];
/// Attributes of an initializer.
pub(super) const INITIAL_DTYPES: &[AttrDef] = &[
    type_attr("Tkey", &DType::ALL),
    type_attr("Tval", &DType::ALL),
];

/// Attributes of an initializer from a file.
pub(super) const TEXT_FILE_ATTRS: &[AttrDef] = &[
    attr("key_index", AttrKind::Int),
    attr("value_index", AttrKind::Int),
    int_attr("vocab_size", -1),
    str_attr("delimiter", "\t", &[]),
    int_attr("offset", 0),
];

/// Base definition of an op on a table.
const TABLE_OP: OpDef = OpDef {
    inputs: &[HANDLE],
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

fn table(cx: &TensorCx<'_>) -> Result<Arc<Table>, KernelError> {
    cx.object::<Table>(0)
}

/// Fills a table from tensors.
pub(crate) static INITIALIZE: Op = Op {
    def: OpDef {
        name: "InitializeTableV2",
        summary: "Fills a HashTable with keys and values.",
        inputs: &[HANDLE, arg("keys", "Tkey"), arg("values", "Tval")],
        attrs: INITIAL_DTYPES,
        shape: |cx| {
            cx.ranked(1, 1)?;
            cx.same(1, 2).map(drop)
        },
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (table, keys, values) = (table(cx)?, cx.tensor(1)?, cx.tensor(2)?);
        if keys.dims().len() != 1 {
            return Err(KernelError::Invalid(format!(
                "Keys must be a vector, but have shape {}",
                keys.shape()
            )));
        }
        table.initialize_from(cx, keys, values)?;
        Ok(Vec::new())
    })],
};

/// Fills a table from a file.
pub(crate) static INITIALIZE_FROM_FILE: Op = Op {
    def: OpDef {
        name: "InitializeTableFromTextFileV2",
        summary: "Fills a HashTable with columns of a text file; -1 is the number of the line, -2 the whole line.",
        inputs: &[HANDLE, arg_of("filename", DType::String)],
        attrs: TEXT_FILE_ATTRS,
        shape: |cx| {
            expect_at_least(cx, "key_index", -2)?;
            expect_at_least(cx, "value_index", -2)?;
            expect_at_least(cx, "vocab_size", -1)?;
            expect_scalar(cx, 1)
        },
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let table = table(cx)?;
        let entries = TextEntries::of(cx, &table)?;
        // A table that is filled already stays as it is, as in TensorFlow.
        table.initialize(cx, |rows| entries.read(cx, rows))?;
        Ok(Vec::new())
    })],
};

/// Fills a table from a dataset.
pub(crate) static INITIALIZE_FROM_DATASET: Op = Op {
    def: OpDef {
        name: "InitializeTableFromDataset",
        summary: "Fills a HashTable with the elements of a dataset: keys and values.",
        inputs: &[HANDLE, arg_of("dataset", DType::Variant)],
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let table = table(cx)?;
        // A table that is filled already stays as it is, as in TensorFlow.
        table.initialize(cx, |rows| {
            for_each_row(cx, 1, |row| match &row[..] {
                [keys, values] => table.add(cx, rows, keys, values),
                other => Err(KernelError::Invalid(format!(
                    "Expected two elements in each row of the dataset, a key and a value, and there are {}",
                    other.len()
                ))),
            })?;
            match rows.len() {
                0 => Err(KernelError::OutOfRange(
                    "end of iterator: the dataset has no elements".to_owned(),
                )),
                _ => Ok(()),
            }
        })?;
        Ok(Vec::new())
    })],
};

/// Looks keys up.
pub(crate) static FIND: Op = Op {
    def: OpDef {
        name: "LookupTableFindV2",
        summary: "The values of keys in a table, and the default value for the keys that it does not have.",
        inputs: &[HANDLE, KEYS, arg("default_value", "Tout")],
        outputs: &[VALUES],
        attrs: DTYPES,
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![table(cx)?.find(cx, cx.tensor(1)?, cx.tensor(2)?)?])
    })],
};

/// Adds entries.
pub(crate) static INSERT: Op = Op {
    def: OpDef {
        name: "LookupTableInsertV2",
        summary: "Adds entries to a table, or replaces their values.",
        inputs: &[HANDLE, KEYS, VALUES],
        attrs: DTYPES,
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        table(cx)?.insert(cx, cx.tensor(1)?, cx.tensor(2)?)?;
        Ok(Vec::new())
    })],
};

/// Removes entries.
pub(crate) static REMOVE: Op = Op {
    def: OpDef {
        name: "LookupTableRemoveV2",
        summary: "Removes the entries of keys from a table; keys that it does not have are passed over.",
        inputs: &[HANDLE, KEYS],
        attrs: &[type_attr("Tin", &DType::ALL)],
        shape: |cx| match cx.shape(1).rank() {
            Some(0) => Err(InferError::Value {
                input: 1,
                reason: "keys are a scalar: use a tensor of rank 1 or more".to_owned(),
            }),
            _ => Ok(()),
        },
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        table(cx)?.remove(cx, cx.tensor(1)?)?;
        Ok(Vec::new())
    })],
};

/// Number of entries.
pub(crate) static SIZE: Op = Op {
    def: OpDef {
        name: "LookupTableSizeV2",
        summary: "The number of entries of a table.",
        outputs: &[arg_of("size", DType::I64)],
        shape: scalar,
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(table(cx)?.len() as i64)])
    })],
};

/// All entries.
pub(crate) static EXPORT: Op = Op {
    def: OpDef {
        name: "LookupTableExportV2",
        summary: "All keys and values of a table; of a table of buckets, the buckets.",
        outputs: &[arg("keys", "Tkeys"), arg("values", "Tvalues")],
        attrs: EXPORTED_DTYPES,
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (table, attrs) = (table(cx)?, cx.attrs());
        let [key, value] = ["Tkeys", "Tvalues"].map(|attr| attrs.dtype(attr));
        table.check_dtypes(key.unwrap_or(table.key), value.unwrap_or(table.value))?;
        table.export(cx)
    })],
};

/// Replaces all entries.
pub(crate) static IMPORT: Op = Op {
    def: OpDef {
        name: "LookupTableImportV2",
        summary: "Replaces all entries of a table by those of LookupTableExportV2.",
        inputs: &[HANDLE, KEYS, VALUES],
        attrs: DTYPES,
        ..TABLE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        table(cx)?.import(cx, cx.tensor(1)?, cx.tensor(2)?)?;
        Ok(Vec::new())
    })],
};
