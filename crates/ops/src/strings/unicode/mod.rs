//! UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeScript, UnicodeTranscode: strings as code points, and back.

mod decode;
mod encode;
mod encoding;
mod malformed;
mod script;
mod transcode;

pub(super) use decode::{DECODE, DECODE_WITH_OFFSETS};
pub(super) use encode::ENCODE;
pub(super) use script::SCRIPT;
pub(super) use transcode::TRANSCODE;
