//! The placer: which device each node runs on, and why.
//!
//! It is a function of a graph and a list of devices and knows of no machine. Its rules are those
//! of TensorFlow's placer (`placer.cc`, `colocation_graph.cc`):
//!
//! 1. Nodes stand in groups: those that take a variable's handle stand with the variable, and
//!    those that name one colocation group stand together. Groups intersect the device types that
//!    have kernels, and merge the devices that were asked for; a node that asks for another device
//!    than its variable's gives way.
//! 2. What a group asks for has to exist, with a kernel. With [`Place::soft`], a device type or
//!    number that cannot be had is dropped, never a job, replica or task.
//! 3. Of the devices that are left the first one is taken, of the best type.
//! 4. A node that reads only its input's shape follows its input, and so does an Identity that
//!    asks for nothing and has no more than one consumer, if that asks for what the input asks
//!    for. A node without inputs and with one output follows its consumers, if they are all on one
//!    device.
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

/// How to place a graph.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The devices by their full names. Of those of one type that may be taken, the first is;
    /// TensorFlow lists the devices of its own process first, and then goes by name.
    pub devices: &'a [DeviceSpec],
    /// The device types that have a kernel for a node, best first (`["GPU", "CPU"]`); empty if
    /// none has. Where nodes that stand together differ in the order, one of their orders stands.
    pub kernels: &'a Kernels<'a>,
    /// Whether a device type or number that cannot be had is dropped, and a colocation that
    /// cannot be is given up; never a job, replica or task, and never a node's variable.
    pub soft: bool,
    /// Whether it is an error that a node gets
    /// - another device than it asked for, be it by `soft` or because its variable is elsewhere;
    /// - a type that is not its best one, though neither it nor what it stands with asked for that
    ///   type. Types that no device has count: a program for GPUs then does not run on a machine
    ///   without. A node that follows its input or its consumers is where it should be.
    pub deny_fallback: bool,
    /// An earlier placement of the first nodes of this graph, which stays as it is: graphs only
    /// grow.
    pub fixed: Option<&'a Placement>,
}

/// Placements every node of a graph.
///
/// Takes time nearly linear in the nodes and edges, with the number of devices on top for each
/// different thing that is asked for.
///
/// # Errors
/// Where no device is what a node asks for, or has a kernel for it; where nodes that must stand
/// together cannot; where `deny_fallback` forbids the outcome.
pub fn place(data: &GraphData, options: &Place<'_>) -> Result<Placement, PlaceError> {
    let mut placer = assign::Placer::new(data, options)?;
    placer.assign()?;
    placer.finish()
}
