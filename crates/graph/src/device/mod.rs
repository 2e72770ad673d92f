//! Devices as a graph names them: specs that fill in and match, and functions that choose one for
//! each node.

mod spec;

pub use spec::DeviceSpec;
