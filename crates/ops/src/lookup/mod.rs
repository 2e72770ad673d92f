//! Lookup tables: maps from keys to values that outlive a step.

mod cells;
mod dense_rows;
mod hash_rows;
mod key_map;
mod table;
mod table_ops;
mod table_references;
mod tables;
mod text_file;
mod vocab_remapping;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &tables::HASH,
    &tables::MUTABLE,
    &tables::OF_TENSORS,
    &tables::DENSE,
    &tables::ANONYMOUS_HASH,
    &tables::ANONYMOUS_MUTABLE,
    &tables::ANONYMOUS_OF_TENSORS,
    &tables::ANONYMOUS_DENSE,
    &table_ops::INITIALIZE,
    &table_ops::INITIALIZE_FROM_FILE,
    &table_ops::INITIALIZE_FROM_DATASET,
    &table_ops::FIND,
    &table_ops::INSERT,
    &table_ops::REMOVE,
    &table_ops::SIZE,
    &table_ops::EXPORT,
    &table_ops::IMPORT,
    &table_references::HASH,
    &table_references::MUTABLE,
    &table_references::OF_TENSORS,
    &table_references::INITIALIZE,
    &table_references::INITIALIZE_FROM_FILE,
    &table_references::FIND,
    &table_references::INSERT,
    &table_references::SIZE,
    &table_references::EXPORT,
    &table_references::IMPORT,
    &vocab_remapping::GENERATE,
];
