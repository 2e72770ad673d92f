//! Devices as a graph names them: specs that fill in and match, scopes, functions that choose a
//! device for each node, and tables of what went where.

mod error;
mod load;
pub(crate) mod scope;
mod setter;
mod spec;
mod strategy;

pub use error::ChoiceError;
pub use load::{Load, LoadTable};
pub use scope::{DeviceFn, DeviceScope};
pub use setter::{PS_OPS, ReplicaDeviceSetter};
pub use spec::{DeviceSpec, SpecError};
pub use strategy::{
    Balanced, Greedy, LoadFn, PsStrategy, RoundRobin, WithinMemory, byte_size_load,
};
