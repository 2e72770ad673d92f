//! The placer: assigns a device to each node, and keeps the reason.
//!
//! It is a function of a graph and a list of devices and does not look at the machine. Its rules
//! are those of TensorFlow's placer (`placer.cc`, `colocation_graph.cc`):
//!
//! 1. Nodes form groups: those that take a variable's handle share the variable's device, and
//!    those that name one colocation group share a device. Groups intersect the device types that
//!    have kernels, and merge the requested devices; a node that requests another device than its
//!    variable's gives way.
//! 2. A group's request has to exist, with a kernel. With [`Place::soft`], a device type or
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
//! use thalweg_graph::place::{Place, place};
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", []);
//! let y = g.device("/cpu:0", || x + x);
//! let z = y * y;
//!
//! let name = |device| format!("/job:localhost/replica:0/task:0/device:{device}");
//! let devices: Vec<DeviceSpec> =
//!     ["CPU:0", "GPU:0"].iter().map(|d| DeviceSpec::parse(&name(d)).expect("a device")).collect();
//! let options = Place {
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
mod blame;
mod constraint;
mod devices;
mod error;
mod explain;
mod groups;
mod placement;

pub use error::{Member, NamePart, PlaceError, PlaceReason};
pub use placement::{Placement, Report, Row, Why};

use smallvec::SmallVec;

use crate::data::GraphData;
use crate::device::DeviceSpec;
use crate::node::Node;

/// The device types that have a kernel for a node, best first.
pub type Kernels<'a> = dyn Fn(&Node) -> SmallVec<[&'static str; 2]> + 'a;

/// The options of [`place`].
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The devices by their full names. Of the allowed devices of one type the first is taken;
    /// TensorFlow lists the devices of its own process first, and then goes by name.
    pub devices: &'a [DeviceSpec],
    /// The device types that have a kernel for a node, best first (`["GPU", "CPU"]`); empty if none
    /// has. If the nodes of a group differ in the order, one of their orders is used.
    pub kernels: &'a Kernels<'a>,
    /// `true` if a device type or number that does not exist is dropped, and an impossible
    /// colocation is given up; never a job, replica or task, and never a node's variable.
    pub soft: bool,
    /// `true` if it is an error that a node gets
    /// - another device than it requested, be it by `soft` or because its variable is elsewhere;
    /// - a type that is not its best one, though neither it nor its group requested that type. Types
    ///   without devices count: a program for GPUs then does not run on a machine without. A node
    ///   that follows its input or its consumers is where it should be.
    pub deny_fallback: bool,
    /// An earlier placement of the first nodes of this graph, which stays as it is: graphs only
    /// grow.
    pub fixed: Option<&'a Placement>,
}

/// Places every node of a graph.
///
/// Takes time nearly linear in the nodes and edges, plus the number of devices for each distinct
/// request.
///
/// # Errors
/// If no device matches a node's request, or has a kernel for it; if nodes that must share a device
/// cannot; if `deny_fallback` forbids the outcome.
pub fn place(data: &GraphData, options: &Place<'_>) -> Result<Placement, PlaceError> {
    let mut placer = assign::Placer::new(data, options)?;
    placer.assign()?;
    placer.finish()
}
