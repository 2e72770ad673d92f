//! Readers of the golden files.

// Each program of tests uses some of it.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};

use serde_json::Value;
use thalweg_image::Size;

/// The lines of a golden file.
pub fn lines(name: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let file = std::fs::File::open(format!("{folder}/{name}.jsonl.gz")).unwrap();
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

/// Bytes in base64.
pub fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|&c| c != b'=').map(value).collect();
    let word = |four: &[u8]| {
        four.iter().fold(0u32, |sum, &d| sum << 6 | u32::from(d)) << (6 * (4 - four.len()))
    };
    digits
        .chunks(4)
        .flat_map(|four| word(four).to_be_bytes()[1..four.len()].to_vec())
        .collect()
}

/// A list of numbers.
pub fn numbers(value: &Value) -> Vec<usize> {
    let all = value.as_array().into_iter().flatten();
    all.map(|n| n.as_u64().unwrap() as usize).collect()
}

/// An array of a case: `u8` or `f32`, as `f32`.
pub fn array(value: &Value) -> (Size, Vec<f32>) {
    let bytes = base64(value["data"].as_str().unwrap());
    let values = match value["bits"].as_u64().unwrap() {
        8 => bytes.iter().map(|&x| f32::from(x)).collect(),
        _ => {
            let words = bytes.chunks_exact(4);
            words
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect()
        }
    };
    let [height, width, channels] = numbers(&value["dims"])[..] else {
        panic!("{}", value["dims"]);
    };
    (Size::new(height, width, channels), values)
}
