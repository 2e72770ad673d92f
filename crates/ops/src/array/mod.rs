//! Ops that create, reshape, slice, index, join, rearrange and sort tensors: a folder for each family, and builder
//! methods.

mod array_ops;
mod box_copies;
pub(crate) mod index;
mod index_tables;
pub(crate) mod join;
pub(crate) mod layout;
pub(crate) mod matrix;
pub(crate) mod segment;
pub(crate) mod sets;
pub(crate) mod shape;
pub(crate) mod slicing;
pub(crate) mod sort;
mod source_ops;
pub(crate) mod value;

pub use array_ops::ArrayOps;
pub use slicing::index::{Index, NewAxis, Part, Rest};
pub use source_ops::SourceOps;
