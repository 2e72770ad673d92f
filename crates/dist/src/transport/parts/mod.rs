//! Parts of steps as messages.

pub(crate) mod codec;
mod decode;
mod decode_region;
mod encode;
pub(crate) mod ops;
