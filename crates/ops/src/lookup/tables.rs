//! HashTableV2, MutableHashTableV2, MutableHashTableOfTensorsV2, MutableDenseHashTableV2, AnonymousHashTable,
//! AnonymousMutableHashTable, AnonymousMutableHashTableOfTensors, AnonymousMutableDenseHashTable.

use std::sync::{Arc, RwLock};

use thalweg_device::{Kernel, KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Default, Effect, Gradient, arg, arg_of, attr, bool_attr, float_attr, int_attr,
    str_attr, type_attr,
};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::dense_rows::{BucketSettings, DenseRows};
use super::hash_rows::HashRows;
use super::table::{Entries, Table};
use crate::queue::{resource_handle, shared_name};

/// Dtypes of keys, and those of the values that a table of such keys has kernels for.
type Dtypes = &'static [(&'static str, &'static [DType])];

/// TensorFlow's pairs of HashTable.
const FIXED: [Dtypes; 3] = [
    &[
        ("key_dtype", &[DType::I32]),
        (
            "value_dtype",
            &[DType::F64, DType::F32, DType::I32, DType::String],
        ),
    ],
    &[
        ("key_dtype", &[DType::I64]),
        (
            "value_dtype",
            &[
                DType::F64,
                DType::F32,
                DType::I32,
                DType::I64,
                DType::String,
            ],
        ),
    ],
    &[
        ("key_dtype", &[DType::String]),
        (
            "value_dtype",
            &[
                DType::Bool,
                DType::F64,
                DType::F32,
                DType::I32,
                DType::I64,
                DType::String,
            ],
        ),
    ],
];

/// Those of MutableHashTable and MutableHashTableOfTensors.
const CHANGING: [Dtypes; 3] = [NUMBERS_OF_I32, FIXED[1], NUMBERS_OF_STRINGS];

/// Those of MutableDenseHashTable.
const BUCKETED: [Dtypes; 3] = [
    NUMBERS_OF_I32,
    &[
        ("key_dtype", &[DType::I64]),
        (
            "value_dtype",
            &[DType::Bool, DType::F64, DType::F32, DType::I32, DType::I64],
        ),
    ],
    NUMBERS_OF_STRINGS,
];

const NUMBERS_OF_I32: Dtypes = &[
    ("key_dtype", &[DType::I32]),
    ("value_dtype", &[DType::F64, DType::F32, DType::I32]),
];

const NUMBERS_OF_STRINGS: Dtypes = &[
    ("key_dtype", &[DType::String]),
    (
        "value_dtype",
        &[DType::Bool, DType::F64, DType::F32, DType::I32, DType::I64],
    ),
];

const CONTAINER: AttrDef = str_attr("container", "", &[]);
const SHARED_NAME: AttrDef = str_attr("shared_name", "", &[]);
const BY_NODE_NAME: AttrDef = bool_attr("use_node_name_sharing", false);
const KEY_DTYPE: AttrDef = type_attr("key_dtype", &DType::ALL);
const VALUE_DTYPE: AttrDef = type_attr("value_dtype", &DType::ALL);
const VALUE_SHAPE: AttrDef = AttrDef {
    default: Default::ScalarShape,
    ..attr("value_shape", AttrKind::Shape)
};
const BUCKETS: AttrDef = int_attr("initial_num_buckets", 1 << 17);
const MAX_LOAD: AttrDef = float_attr("max_load_factor", 0.8);

/// Attributes of a table by name whose values are scalars.
pub(super) const ATTRS: &[AttrDef] =
    &[CONTAINER, SHARED_NAME, BY_NODE_NAME, KEY_DTYPE, VALUE_DTYPE];
/// Attributes of a table by name whose values are tensors.
pub(super) const TENSOR_ATTRS: &[AttrDef] = &[
    CONTAINER,
    SHARED_NAME,
    BY_NODE_NAME,
    KEY_DTYPE,
    VALUE_DTYPE,
    VALUE_SHAPE,
];
const DENSE_ATTRS: &[AttrDef] = &[
    CONTAINER,
    SHARED_NAME,
    BY_NODE_NAME,
    KEY_DTYPE,
    VALUE_DTYPE,
    VALUE_SHAPE,
    BUCKETS,
    MAX_LOAD,
];

/// Inputs of a table that marks unused buckets by keys.
const MARKS: &[Arg] = &[
    arg("empty_key", "key_dtype"),
    arg("deleted_key", "key_dtype"),
];

/// Base definition of an op that makes a table.
const TABLE_OP: OpDef = OpDef {
    outputs: &[arg_of("table_handle", DType::Resource)],
    attrs: ATTRS,
    shape: crate::support::shapes::scalar,
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Makes the table that a node asks for, under a name.
type Make = fn(&TensorCx<'_>, &str) -> Result<Table, KernelError>;

/// Dtypes of keys and values that a node asks for.
fn dtypes(cx: &TensorCx<'_>) -> [DType; 2] {
    ["key_dtype", "value_dtype"].map(|attr| cx.attrs().dtype(attr).unwrap_or(DType::I64))
}

/// Dimensions of values that a node asks for.
fn value_dims(cx: &TensorCx<'_>) -> Result<Vec<usize>, KernelError> {
    let shape = cx.attrs().shape("value_shape");
    match shape.to_dims() {
        Some(dims) => Ok(dims.to_vec()),
        None => Err(KernelError::Invalid(format!(
            "value_shape must be known, and is {shape}"
        ))),
    }
}

/// A table of scalars whose entries are in a hash map.
fn scalars(
    cx: &TensorCx<'_>,
    name: &str,
    entries: fn(HashRows) -> Entries,
    value_dims: Vec<usize>,
) -> Result<Table, KernelError> {
    let [key, value] = dtypes(cx);
    let width = value_dims.iter().product();
    Ok(Table {
        name: name.to_owned(),
        key,
        value,
        key_dims: Vec::new(),
        value_dims,
        entries: entries(HashRows::new(key, value, width, cx.memory())?),
    })
}

fn fixed(cx: &TensorCx<'_>, name: &str) -> Result<Table, KernelError> {
    scalars(cx, name, |_| Entries::Fixed(RwLock::default()), Vec::new())
}

fn mutable(cx: &TensorCx<'_>, name: &str) -> Result<Table, KernelError> {
    scalars(
        cx,
        name,
        |rows| Entries::Mutable(RwLock::new(rows)),
        Vec::new(),
    )
}

fn of_tensors(cx: &TensorCx<'_>, name: &str) -> Result<Table, KernelError> {
    let dims = value_dims(cx)?;
    if dims.len() != 1 {
        return Err(KernelError::Invalid(format!(
            "Default value must be a vector, got shape {}",
            cx.attrs().shape("value_shape")
        )));
    }
    scalars(cx, name, |rows| Entries::Mutable(RwLock::new(rows)), dims)
}

fn dense(cx: &TensorCx<'_>, name: &str) -> Result<Table, KernelError> {
    let ([key, value], value_dims) = (dtypes(cx), value_dims(cx)?);
    if value_dims.len() > 1 {
        return Err(KernelError::Invalid(format!(
            "Empty value must be a scalar or a vector, got shape {}",
            cx.attrs().shape("value_shape")
        )));
    }
    let settings = BucketSettings {
        empty_key: cx.value(0)?,
        deleted_key: cx.value(1)?,
        max_load_factor: cx.attrs().float("max_load_factor"),
        value,
        value_width: value_dims.iter().product(),
        memory: cx.memory().clone(),
    };
    settings.check()?;
    let buckets = usize::try_from(cx.attrs().int("initial_num_buckets")).unwrap_or(0);
    let rows = DenseRows::new(&settings, buckets, cx.stop_check())?;
    Ok(Table {
        name: name.to_owned(),
        key,
        value,
        key_dims: settings.empty_key.dims().to_vec(),
        value_dims,
        entries: Entries::Dense(settings, RwLock::new(rows)),
    })
}

/// The handle of the table of the node's name, made on first use.
fn named(cx: &TensorCx<'_>, make: Make) -> Result<Vec<Tensor>, KernelError> {
    let handle = resource_handle(cx, &|name| Ok(Arc::new(make(cx, name)?)))?;
    let name = shared_name(cx);
    let Some(table) = handle.first().and_then(Tensor::object::<Table>) else {
        return Err(KernelError::Invalid(format!(
            "'{name}' is no lookup table: give this one another shared_name"
        )));
    };
    let [key, value] = dtypes(cx);
    match (table.key, table.value) == (key, value) {
        true => Ok(handle),
        false => Err(KernelError::Invalid(format!(
            "Conflicting key/value dtypes {key}->{value} with {}->{} for table '{name}': give it another shared_name",
            table.key, table.value
        ))),
    }
}

/// The handle of a new table, which lives as long as its handle.
fn anonymous(cx: &TensorCx<'_>, make: Make) -> Result<Vec<Tensor>, KernelError> {
    let table = make(cx, &cx.node().name)?;
    Ok(vec![Tensor::handle(DType::Resource, Arc::new(table))?])
}

/// Kernels of a table, for pairs of dtypes.
const fn kernels(
    run: fn(&TensorCx<'_>) -> Result<Vec<Tensor>, KernelError>,
    pairs: [Dtypes; 3],
) -> [Kernel; 3] {
    let [a, b, c] = pairs;
    [
        cpu_tensors(run).only(a),
        cpu_tensors(run).only(b),
        cpu_tensors(run).only(c),
    ]
}

/// Table that an initializer fills.
pub(crate) static HASH: Op = Op {
    def: OpDef {
        name: "HashTableV2",
        summary: "A lookup table that an initializer fills.",
        ..TABLE_OP
    },
    kernels: &kernels(|cx| named(cx, fixed), FIXED),
};

/// Table whose entries change.
pub(crate) static MUTABLE: Op = Op {
    def: OpDef {
        name: "MutableHashTableV2",
        summary: "A lookup table whose entries change; values are scalars.",
        ..TABLE_OP
    },
    kernels: &kernels(|cx| named(cx, mutable), CHANGING),
};

/// Table whose entries change and have vectors as values.
pub(crate) static OF_TENSORS: Op = Op {
    def: OpDef {
        name: "MutableHashTableOfTensorsV2",
        summary: "A lookup table whose entries change; values are vectors.",
        attrs: TENSOR_ATTRS,
        ..TABLE_OP
    },
    kernels: &kernels(|cx| named(cx, of_tensors), CHANGING),
};

/// Table of buckets.
pub(crate) static DENSE: Op = Op {
    def: OpDef {
        name: "MutableDenseHashTableV2",
        summary: "A lookup table of buckets, in which two keys mark empty and deleted ones; keys may be vectors.",
        inputs: MARKS,
        attrs: DENSE_ATTRS,
        ..TABLE_OP
    },
    kernels: &kernels(|cx| named(cx, dense), BUCKETED),
};

/// As [`HASH`], without a name.
pub(crate) static ANONYMOUS_HASH: Op = Op {
    def: OpDef {
        name: "AnonymousHashTable",
        summary: "A new lookup table that an initializer fills.",
        attrs: &[KEY_DTYPE, VALUE_DTYPE],
        ..TABLE_OP
    },
    kernels: &kernels(|cx| anonymous(cx, fixed), FIXED),
};

/// As [`MUTABLE`], without a name.
pub(crate) static ANONYMOUS_MUTABLE: Op = Op {
    def: OpDef {
        name: "AnonymousMutableHashTable",
        summary: "A new lookup table whose entries change; values are scalars.",
        attrs: &[KEY_DTYPE, VALUE_DTYPE],
        ..TABLE_OP
    },
    kernels: &kernels(|cx| anonymous(cx, mutable), CHANGING),
};

/// As [`OF_TENSORS`], without a name.
pub(crate) static ANONYMOUS_OF_TENSORS: Op = Op {
    def: OpDef {
        name: "AnonymousMutableHashTableOfTensors",
        summary: "A new lookup table whose entries change; values are vectors.",
        attrs: &[KEY_DTYPE, VALUE_DTYPE, VALUE_SHAPE],
        ..TABLE_OP
    },
    kernels: &kernels(|cx| anonymous(cx, of_tensors), CHANGING),
};

/// As [`DENSE`], without a name.
pub(crate) static ANONYMOUS_DENSE: Op = Op {
    def: OpDef {
        name: "AnonymousMutableDenseHashTable",
        summary: "A new lookup table of buckets, in which two keys mark empty and deleted ones.",
        inputs: MARKS,
        attrs: &[KEY_DTYPE, VALUE_DTYPE, VALUE_SHAPE, BUCKETS, MAX_LOAD],
        ..TABLE_OP
    },
    kernels: &kernels(|cx| anonymous(cx, dense), BUCKETED),
};
