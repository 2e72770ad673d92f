//! Lookup tables on string references, as in TensorFlow's first graphs: HashTable, LookupTableFind and others.
//! Each runs as its counterpart on resource handles.

use thalweg_device::Op;
use thalweg_graph::op::{Arg, arg, arg_of};
use thalweg_tensor::DType;

use super::table_ops::{DTYPES, EXPORTED_DTYPES, INITIAL_DTYPES, KEYS, TEXT_FILE_ATTRS, VALUES};
use super::tables::{ATTRS, TENSOR_ATTRS};
use super::{table_ops, tables};
use crate::support::references::{creator, on_reference};

const HANDLE: Arg = arg_of("table_handle", DType::String).reference();
const HANDLE_ONLY: &[Arg] = &[HANDLE];
const ENTRIES: &[Arg] = &[HANDLE, KEYS, VALUES];

pub(crate) static HASH: Op = creator("HashTable", HANDLE_ONLY, ATTRS, &tables::HASH);
pub(crate) static MUTABLE: Op = creator("MutableHashTable", HANDLE_ONLY, ATTRS, &tables::MUTABLE);
pub(crate) static OF_TENSORS: Op = creator(
    "MutableHashTableOfTensors",
    HANDLE_ONLY,
    TENSOR_ATTRS,
    &tables::OF_TENSORS,
);
pub(crate) static INITIALIZE: Op = on_reference(
    "InitializeTable",
    &[HANDLE, arg("keys", "Tkey"), arg("values", "Tval")],
    &[],
    INITIAL_DTYPES,
    &table_ops::INITIALIZE,
);
pub(crate) static INITIALIZE_FROM_FILE: Op = on_reference(
    "InitializeTableFromTextFile",
    &[HANDLE, arg_of("filename", DType::String)],
    &[],
    TEXT_FILE_ATTRS,
    &table_ops::INITIALIZE_FROM_FILE,
);
pub(crate) static FIND: Op = on_reference(
    "LookupTableFind",
    &[HANDLE, KEYS, arg("default_value", "Tout")],
    &[VALUES],
    DTYPES,
    &table_ops::FIND,
);
pub(crate) static INSERT: Op = on_reference(
    "LookupTableInsert",
    ENTRIES,
    &[],
    DTYPES,
    &table_ops::INSERT,
);
pub(crate) static SIZE: Op = on_reference(
    "LookupTableSize",
    HANDLE_ONLY,
    &[arg_of("size", DType::I64)],
    &[],
    &table_ops::SIZE,
);
pub(crate) static EXPORT: Op = on_reference(
    "LookupTableExport",
    HANDLE_ONLY,
    &[arg("keys", "Tkeys"), arg("values", "Tvalues")],
    EXPORTED_DTYPES,
    &table_ops::EXPORT,
);
pub(crate) static IMPORT: Op = on_reference(
    "LookupTableImport",
    ENTRIES,
    &[],
    DTYPES,
    &table_ops::IMPORT,
);
