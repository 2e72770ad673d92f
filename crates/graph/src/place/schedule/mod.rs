//! Placement by cost: the groups that may stand on several devices go where the step is shortest,
//! by what kernels were measured to take and by the links between the devices.

mod estimate;
mod heft;

pub use estimate::{Estimate, estimate};

use super::assign::Placer;
use super::{Place, PlaceError, Placement, place};
use crate::data::GraphData;
use crate::node::{Fact, NodeId, OutputId};

/// A link from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Nanoseconds until the first byte is there.
    pub latency: u64,
    /// Bytes a second; 0 where nothing gets through.
    pub bandwidth: u64,
}

impl Link {
    /// The nanoseconds until all of `bytes` are there.
    pub fn time(&self, bytes: u64) -> u64 {
        let nanos = match (u128::from(bytes) * 1_000_000_000).checked_div(self.bandwidth.into()) {
            Some(nanos) => u64::try_from(nanos).unwrap_or(u64::MAX),
            None if bytes == 0 => 0,
            None => u64::MAX,
        };
        nanos.saturating_add(self.latency)
    }
}

/// What a step costs. Devices are numbers in [`Place::devices`].
#[derive(Clone, Copy)]
pub struct Costs<'a> {
    /// The nanoseconds that a node takes on a device.
    pub node: &'a dyn Fn(NodeId, usize) -> u64,
    /// The bytes of an output; [`bytes`] knows those of full shapes.
    pub bytes: &'a dyn Fn(OutputId) -> u64,
    /// The link from one device to another; not asked for a device and itself.
    pub link: &'a dyn Fn(usize, usize) -> Link,
}

/// The bytes of a tensor, as far as is known before it runs; an unknown dimension counts as one.
pub fn bytes(fact: &Fact) -> u64 {
    let dims = fact.shape.dims().unwrap_or_default();
    let sizes = dims.iter().map(|d| d.map_or(1, |n| n as u64));
    sizes.fold(fact.dtype.size() as u64, u64::saturating_mul)
}

/// A placement by cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The better of the placement by cost and the plain one.
    pub placement: Placement,
    /// What a step takes with it.
    pub estimate: Estimate,
    /// What a step takes with the plain placement; never less.
    pub plain: Estimate,
}

/// Places every node of a graph so that a step is short: what is asked for, colocated, fixed or
/// bound to a variable stays so, and groups that may stand on several devices are assigned by
/// HEFT (Topcuoglu, Hariri, Wu: Performance-effective and low-complexity task scheduling for
/// heterogeneous computing, 2002), without insertion into gaps.
///
/// The outcome is compared with that of [`place()`] by [`estimate()`], and the plain one stands
/// unless the other is shorter.
///
/// Takes n log n of the nodes and edges, times the number of devices.
///
/// # Errors
/// As [`place()`].
pub fn schedule(
    data: &GraphData,
    options: &Place<'_>,
    costs: &Costs<'_>,
) -> Result<Schedule, PlaceError> {
    let plain_placement = place(data, options)?;
    let mut placer = Placer::new(data, options)?;
    heft::assign(&mut placer, costs)?;
    // What may stand on one device only is placed as ever.
    placer.assign()?;
    let by_cost = placer.finish()?;

    let plain = estimate(data, &plain_placement, costs);
    let shorter = estimate(data, &by_cost, costs);
    let (placement, estimate) = match shorter.step < plain.step {
        true => (by_cost, shorter),
        false => (plain_placement, plain.clone()),
    };
    Ok(Schedule {
        placement,
        estimate,
        plain,
    })
}
