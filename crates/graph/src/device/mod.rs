//! Devices as a graph names them: partial specs that fill in and match, scopes, functions that
//! choose a device for each node, and tables of the variables on each device.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::device::{ReplicaDeviceSetter, RoundRobin};
//!
//! let g = ops::graph();
//! // Variables go to two parameter servers in turn, and all else to the worker.
//! let setter = ReplicaDeviceSetter::new(2).strategy(RoundRobin::new(2));
//! g.device(setter, || {
//!     ops::handle(&g, "weights", [784, 10]);
//!     ops::handle(&g, "bias", [10]);
//!     ops::placeholder(&g, "images", [-1, 784]);
//! });
//! let data = g.snapshot();
//! let devices: Vec<String> = data.nodes().map(|(_, n)| n.device.to_string()).collect();
//! assert_eq!(devices, ["/job:ps/task:0", "/job:ps/task:1", "/job:worker"]);
//! ```

mod error;
mod load;
pub(crate) mod scope;
mod setter;
mod spec;
mod strategy;

pub use error::DeviceFnError;
pub use load::{DeviceLoad, LoadTable};
pub use scope::{DeviceFn, DeviceScope};
pub use setter::ReplicaDeviceSetter;
pub use spec::{DeviceSpec, SpecError};
pub use strategy::{
    Balanced, Greedy, LoadFn, PsStrategy, RoundRobin, WithinMemory, byte_size_load,
};
