//! Options of the placer.

use smallvec::SmallVec;

use super::placement::Placement;
use crate::device::DeviceSpec;
use crate::node::Node;

/// The device types that have a kernel for a node, best first.
pub type Kernels<'a> = dyn Fn(&Node) -> SmallVec<[&'static str; 2]> + 'a;

/// The options of [`place`](super::place()).
#[derive(Clone, Copy)]
pub struct PlaceOptions<'a> {
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
