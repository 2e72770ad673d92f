//! Wire format of the parts of a step: the graph that a master sends to each task.

pub(crate) mod codec;
mod decode;
mod decode_region;
mod encode;
pub(crate) mod ops;
