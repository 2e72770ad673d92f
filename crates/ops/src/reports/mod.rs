//! What a step tells people and files: prints, assertions, summaries, checkpoints.

mod build;
mod checkpoint;
pub mod encode;
mod histogram;
mod image;
mod print;
mod summary;
mod wire;

use thalweg_device::Op;

pub use build::SummaryOps;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &print::ASSERT,
    &print::PRINT,
    &print::PRINT_V2,
    &summary::SCALAR,
    &summary::HISTOGRAM_SUMMARY,
    &summary::IMAGE,
    &summary::MERGE,
    &summary::TENSOR_SUMMARY,
    &summary::TENSOR_SUMMARY_V2,
    &summary::AUDIO,
    &summary::AUDIO_V2,
    &checkpoint::FILENAME,
    &checkpoint::FILESPEC,
    &checkpoint::SAVE_V2,
    &checkpoint::RESTORE_V2,
    &checkpoint::MERGE_V2,
    &checkpoint::SAVE,
    &checkpoint::SAVE_SLICES,
    &checkpoint::RESTORE,
    &checkpoint::RESTORE_SLICE,
];
