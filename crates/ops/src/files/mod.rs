//! Checkpoints: ops that name, write and read their files. Files that ops read record by record. A step uses the files
//! that its session allows ([`thalweg_device::Files`]).

mod checkpoint_inputs;
mod checkpoint_v1;
pub(crate) mod iterator_position;
mod load_and_remap;
mod merge;
pub(crate) mod patterns;
pub(crate) mod record_files;
mod restore;
mod save;
mod sharded_filename;

pub(crate) use checkpoint_inputs::disk;
use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &sharded_filename::FILENAME,
    &sharded_filename::FILESPEC,
    &save::SAVE_V2,
    &restore::RESTORE_V2,
    &merge::MERGE_V2,
    &checkpoint_v1::SAVE,
    &checkpoint_v1::SAVE_SLICES,
    &checkpoint_v1::RESTORE,
    &checkpoint_v1::RESTORE_SLICE,
    &load_and_remap::LOAD,
    &patterns::MATCHING,
    &patterns::READ,
    &patterns::WRITE,
];
