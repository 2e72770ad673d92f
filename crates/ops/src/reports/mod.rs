//! Output for users and log files: prints, assertions, summaries.

mod audio;
mod build;
pub mod encode;
mod histogram;
mod image;
mod print_assert;
mod summary;
mod timestamp;
mod wav;
mod wire;

use thalweg_device::Op;

pub use build::SummaryOps;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &print_assert::ASSERT,
    &print_assert::PRINT,
    &print_assert::PRINT_V2,
    &summary::SCALAR,
    &summary::HISTOGRAM_SUMMARY,
    &summary::IMAGE,
    &summary::MERGE,
    &summary::TENSOR_SUMMARY,
    &summary::TENSOR_SUMMARY_V2,
    &audio::AUDIO,
    &audio::AUDIO_V2,
    &wav::DECODE_WAV,
    &wav::ENCODE_WAV,
    &timestamp::TIMESTAMP,
];
