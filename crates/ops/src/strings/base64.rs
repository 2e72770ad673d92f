//! EncodeBase64, DecodeBase64: the URL-safe alphabet (RFC 4648, section 5).

use thalweg_device::{Op, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, Gradient, arg_of, bool_attr};
use thalweg_tensor::DType;

use super::map_strings::{map_strings, try_map_strings};
use crate::support::shapes::unchanged;

const INPUT: &[Arg] = &[arg_of("input", DType::String)];
const OUTPUT: &[Arg] = &[arg_of("output", DType::String)];
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn encode(s: &[u8], pad: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len().div_ceil(3) * 4);
    for group in s.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            match i <= group.len() {
                true => out.push(ALPHABET[(bits >> (18 - 6 * i)) as usize & 63]),
                false if pad => out.push(b'='),
                false => {}
            }
        }
    }
    out
}

/// The bytes that web-safe Base64 stands for, padded or not.
pub(crate) fn decode(s: &[u8]) -> Result<Vec<u8>, String> {
    // Padding must be complete or absent.
    let padding = s.iter().rev().take_while(|&&b| b == b'=').count();
    if padding > 2 || (padding > 0 && !s.len().is_multiple_of(4)) {
        return Err("its padding does not fit its length".to_owned());
    }
    let s = &s[..s.len() - padding];
    if s.len() % 4 == 1 {
        return Err("a length of one more than a multiple of 4 is none of Base64".to_owned());
    }
    let mut out = Vec::with_capacity(s.len() / 4 * 3 + 2);
    for group in s.chunks(4) {
        let mut bits = 0u32;
        for (i, byte) in group.iter().enumerate() {
            let value = ALPHABET.iter().position(|b| b == byte);
            let value = value.ok_or_else(|| {
                format!(
                    "'{}' is no character of web-safe Base64",
                    byte.escape_ascii()
                )
            })?;
            bits |= (value as u32) << (18 - 6 * i);
        }
        let bytes = bits.to_be_bytes();
        out.extend_from_slice(&bytes[1..group.len()]);
    }
    Ok(out)
}

/// Encodes as Base64.
pub(crate) static ENCODE: Op = Op {
    def: OpDef {
        name: "EncodeBase64",
        summary: "Each string in web-safe Base64, with or without padding.",
        inputs: INPUT,
        outputs: OUTPUT,
        attrs: &[bool_attr("pad", false)],
        shape: unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let pad = cx.attrs().bool("pad");
        map_strings(cx, |s| encode(s, pad))
    })],
};

/// Decodes Base64.
pub(crate) static DECODE: Op = Op {
    def: OpDef {
        name: "DecodeBase64",
        summary: "Each string decoded from web-safe Base64, padded or not.",
        inputs: INPUT,
        outputs: OUTPUT,
        shape: unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| try_map_strings(cx, decode))],
};
