//! Encoding and decoding of parts of steps.

pub(crate) mod codec;
mod decode;
mod decode_region;
mod encode;
pub(crate) mod ops;
