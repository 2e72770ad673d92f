//! Strings: text, conversions to and from numbers, regular expressions, hashes.

mod as_string_to_number;
mod base64;
mod farm_hash;
mod fingerprints;
mod format;
mod hash;
mod join;
mod length_case_substr;
mod map_strings;
mod ngrams;
mod numbers;
mod printf;
mod ragged_rows;
mod raw;
mod regex;
mod segment_join;
mod split;
mod summarize;
mod unicode;

use thalweg_device::Op;

pub(crate) use base64::decode as decode_base64;
pub(crate) use farm_hash::fingerprint;
pub(crate) use hash::{joined_fingerprints, murmur, sip_hash};
pub(crate) use numbers::{FromText, parse};
pub(crate) use summarize::summary;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &as_string_to_number::AS_STRING,
    &as_string_to_number::TO_NUMBER,
    &join::JOIN,
    &join::REDUCE_JOIN,
    &segment_join::UNSORTED_SEGMENT_JOIN,
    &split::SPLIT,
    &split::SPLIT_V2,
    &length_case_substr::SUBSTR,
    &length_case_substr::LENGTH,
    &length_case_substr::LOWER,
    &length_case_substr::UPPER,
    &length_case_substr::STRIP,
    &hash::BUCKET,
    &hash::FAST,
    &hash::STRONG,
    &fingerprints::FINGERPRINT,
    &base64::ENCODE,
    &base64::DECODE,
    &raw::DECODE_RAW,
    &format::FORMAT,
    &ngrams::STRING_N_GRAMS,
    &unicode::DECODE,
    &unicode::DECODE_WITH_OFFSETS,
    &unicode::ENCODE,
    &unicode::SCRIPT,
    &unicode::TRANSCODE,
    &regex::FULL_MATCH,
    &regex::STATIC_FULL_MATCH,
    &regex::REPLACE,
    &regex::STATIC_REPLACE,
];
