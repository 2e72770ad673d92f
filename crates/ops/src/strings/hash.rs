//! StringToHashBucket, StringToHashBucketFast, StringToHashBucketStrong.

#![allow(
    deprecated,
    reason = "SipHash with a key of one's own stands in std under a deprecated name"
)]

use std::hash::{Hasher, SipHasher};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Allowed, Arg, AttrDef, Gradient, arg_of, attr};
use thalweg_graph::{AttrKind, InferError, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::map_strings::map_to_numbers;
use crate::support::shapes::unchanged;

const OUTPUT: &[Arg] = &[arg_of("output", DType::I64)];
const BUCKETS: AttrDef = AttrDef {
    allowed: Allowed::Any,
    ..attr("num_buckets", AttrKind::Int)
};

fn shape(cx: &mut thalweg_graph::Infer<'_>) -> Result<(), InferError> {
    if cx.attrs().int("num_buckets") < 1 {
        return Err(InferError::Attr {
            attr: "num_buckets",
            reason: "there must be at least one".to_owned(),
        });
    }
    unchanged(cx)
}

fn buckets(cx: &TensorCx<'_>, hash: impl Fn(&[u8]) -> u64) -> Result<Vec<Tensor>, KernelError> {
    let count = u64::try_from(cx.attrs().int("num_buckets"))
        .unwrap_or(1)
        .max(1);
    // Below the number of buckets, which is an i64.
    map_to_numbers(cx, |s| Ok((hash(s) % count) as i64))
}

/// Hashes as TensorFlow's first versions do.
pub(crate) static BUCKET: Op = Op {
    def: OpDef {
        name: "StringToHashBucket",
        summary: "For each string its hash modulo the number of buckets.",
        inputs: &[arg_of("string_tensor", DType::String)],
        outputs: OUTPUT,
        attrs: &[BUCKETS],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| buckets(cx, murmur))],
};

/// Hashes by FarmHash.
pub(crate) static FAST: Op = Op {
    def: OpDef {
        name: "StringToHashBucketFast",
        summary: "For each string its FarmHash fingerprint modulo the number of buckets.",
        inputs: &[arg_of("input", DType::String)],
        outputs: OUTPUT,
        attrs: &[BUCKETS],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| buckets(cx, super::farm_hash::fingerprint))],
};

/// Hashes by SipHash with a key.
pub(crate) static STRONG: Op = Op {
    def: OpDef {
        name: "StringToHashBucketStrong",
        summary: "For each string its SipHash with a key modulo the number of buckets.",
        inputs: &[arg_of("input", DType::String)],
        outputs: OUTPUT,
        attrs: &[BUCKETS, attr("key", AttrKind::Ints)],
        shape: |cx| {
            if cx.attrs().ints("key").len() != 2 {
                return Err(InferError::Attr {
                    attr: "key",
                    reason: "it must have two numbers".to_owned(),
                });
            }
            shape(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let [a, b] = *cx.attrs().ints("key") else {
            return Err(KernelError::Argument("a key of two numbers"));
        };
        buckets(cx, |s| sip_hash([a as u64, b as u64], s))
    })],
};

/// SipHash of a string with a key.
pub(crate) fn sip_hash([a, b]: [u64; 2], s: &[u8]) -> u64 {
    let mut hasher = SipHasher::new_with_keys(a, b);
    hasher.write(s);
    hasher.finish()
}

/// A fingerprint of two fingerprints in order, as TensorFlow joins them.
pub(crate) fn joined_fingerprints(a: u64, b: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mixed = |v: u64| v ^ v >> 47;
    let joined = (a ^ M ^ mixed(b.wrapping_mul(M)).wrapping_mul(M)).wrapping_mul(M);
    mixed(mixed(joined).wrapping_mul(M))
}

/// MurmurHash64A, with TensorFlow's seed.
pub(crate) fn murmur(s: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const SEED: u64 = 0x00de_cafc_affe;
    let mut h = SEED ^ (s.len() as u64).wrapping_mul(M);
    let (whole, rest) = s.as_chunks::<8>();
    for chunk in whole {
        let k = u64::from_le_bytes(*chunk).wrapping_mul(M);
        h = (h ^ (k ^ k >> 47).wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (i, &byte) in rest.iter().enumerate() {
            h ^= u64::from(byte) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h = (h ^ h >> 47).wrapping_mul(M);
    h ^ h >> 47
}
