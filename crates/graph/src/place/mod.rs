//! The placer: assigns a device to each node, and keeps the reason.
//!
//! It is a function of a graph and a list of devices and does not look at the machine. Its rules
//! are those of TensorFlow's placer (`placer.cc`, `colocation_graph.cc`):
//!
//! 1. Nodes form groups: those that take a variable's handle share the variable's device, and
//!    those that name one colocation group share a device. Groups intersect the device types that
//!    have kernels, and merge the requested devices; a node that requests another device than its
//!    variable's gives way.
//! 2. A group's request has to exist, with a kernel. With [`PlaceOptions::soft`], a device type or
//!    number that does not exist is dropped, never a job, replica or task.
//! 3. Of the remaining devices the first one of the best type is taken.
//! 4. A node that reads only its input's shape follows its input, and so does an Identity that
//!    requests nothing and has at most one consumer, if that requests the same as the input. A node
//!    without inputs and with one output follows its consumers, if they are all on one device.
//!
//! Two devices, and kernels for both of their types:
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::DeviceSpec;
//! use thalweg_graph::place::{PlaceOptions, place};
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", []);
//! let y = g.device("/cpu:0", || x + x);
//! let z = y * y;
//!
//! let name = |device| format!("/job:localhost/replica:0/task:0/device:{device}");
//! let devices: Vec<DeviceSpec> =
//!     ["CPU:0", "GPU:0"].iter().map(|d| DeviceSpec::parse(&name(d)).expect("a device")).collect();
//! let options = PlaceOptions {
//!     devices: &devices,
//!     kernels: &|_| ["GPU", "CPU"].into_iter().collect(),
//!     soft: false,
//!     deny_fallback: false,
//!     fixed: None,
//! };
//! let placement = place(&g.snapshot(), &options).unwrap();
//! assert_eq!(placement.name(y.id().node), &devices[0]);
//! assert_eq!(placement.name(z.id().node), &devices[1]);
//! // A node without inputs follows its consumers.
//! assert_eq!(placement.name(x.id().node), &devices[0]);
//! ```

mod assign;
mod constraint;
mod devices;
mod diagnostics;
mod error;
mod explain;
mod groups;
mod options;
mod placement;
mod requests;

pub use error::{Member, NamePart, PlaceError, PlaceReason};
pub use options::{Kernels, PlaceOptions};
pub use placement::{Placement, PlacementReason, Report, Row};

use crate::data::GraphData;

/// Places every node of a graph.
///
/// Takes time nearly linear in the nodes and edges, plus the number of devices for each distinct
/// request.
///
/// # Errors
/// If no device matches a node's request, or has a kernel for it; if nodes that must share a device
/// cannot; if `deny_fallback` forbids the outcome.
pub fn place(data: &GraphData, options: &PlaceOptions<'_>) -> Result<Placement, PlaceError> {
    let mut placer = assign::Placer::new(data, options)?;
    placer.assign()?;
    placer.finish()
}
