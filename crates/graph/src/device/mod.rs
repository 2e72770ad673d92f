//! Devices as a graph names them: specs that fill in and match, scopes, and functions that choose a
//! device for each node.

pub(crate) mod scope;
mod spec;

pub use scope::{DeviceFn, DeviceScope};
pub use spec::{DeviceSpec, SpecError};
