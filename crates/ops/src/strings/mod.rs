//! Strings: text, numbers in it, hashes of it.

mod base64;
mod each;
mod farm_hash;
mod format;
mod hash;
mod join;
mod number;
mod printf;
mod raw;
mod regex;
mod segment_join;
mod split;
mod summarize;
mod text;

use thalweg_device::Op;

pub(crate) use summarize::summary;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &number::AS_STRING,
    &number::TO_NUMBER,
    &join::JOIN,
    &join::REDUCE_JOIN,
    &segment_join::UNSORTED_SEGMENT_JOIN,
    &split::SPLIT,
    &split::SPLIT_V2,
    &text::SUBSTR,
    &text::LENGTH,
    &text::LOWER,
    &text::UPPER,
    &text::STRIP,
    &hash::BUCKET,
    &hash::FAST,
    &hash::STRONG,
    &base64::ENCODE,
    &base64::DECODE,
    &raw::DECODE_RAW,
    &format::FORMAT,
    &regex::FULL_MATCH,
    &regex::STATIC_FULL_MATCH,
    &regex::REPLACE,
    &regex::STATIC_REPLACE,
];
