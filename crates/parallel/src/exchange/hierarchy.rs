//! Hierarchical all-reduce: sums in two groups of devices, and then between the groups.

use std::str::FromStr;

use thalweg_graph::{Graph, Output};
use thalweg_ops::SumOps;

use crate::error::ParallelError;
use crate::placement::Placement;

/// Connections between the devices of a machine: tf_cnn_benchmarks' `network_topology`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// Two groups with fast connections inside: the first half of the devices and the second.
    #[default]
    Dgx1,
    /// Eight devices with connections across the groups: 0 and 5, 2 and 7.
    GcpV100,
}

impl Topology {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Topology::Dgx1 => "dgx1",
            Topology::GcpV100 => "gcp_v100",
        }
    }

    /// # Errors
    /// There are too few towers for groups.
    pub(crate) fn check(self, towers: usize) -> Result<(), ParallelError> {
        let wrong = |range| ParallelError::Range {
            what: "the number of towers of a hierarchical copy",
            found: towers.to_string(),
            range,
        };
        match self {
            Topology::Dgx1 if towers < 2 || towers % 2 == 1 => {
                Err(wrong("an even number from 2 on"))
            }
            Topology::GcpV100 if towers != 8 => Err(wrong("8, or the topology dgx1")),
            _ => Ok(()),
        }
    }

    /// Devices of the two groups for tensor `number`; the first of each sums.
    fn groups(self, number: usize, towers: usize) -> [Vec<usize>; 2] {
        let half = towers / 2;
        let mains = match self {
            Topology::Dgx1 => {
                let first = number % towers;
                [first, (first + half) % towers]
            }
            Topology::GcpV100 => [[0, 5], [2, 7], [5, 0], [7, 2]][number % 4],
        };
        mains.map(|main| {
            let begin = if main < half { 0 } else { half };
            let others = (begin..begin + half).filter(|&d| d != main);
            std::iter::once(main).chain(others).collect()
        })
    }
}

impl FromStr for Topology {
    type Err = ParallelError;

    fn from_str(text: &str) -> Result<Topology, ParallelError> {
        let mut all = [Topology::Dgx1, Topology::GcpV100].into_iter();
        all.find(|t| t.name() == text)
            .ok_or_else(|| ParallelError::Range {
                what: "the network topology",
                found: text.to_owned(),
                range: "dgx1 or gcp_v100",
            })
    }
}

/// Builds the sum on each tower: in each group on its main device, then of both groups on both main devices, from where
/// the others copy it.
pub(super) fn sum<'g>(
    g: &'g Graph,
    placement: &Placement,
    topology: Topology,
    number: usize,
    all: &[Output<'g>],
) -> Vec<Output<'g>> {
    let groups = topology.groups(number, all.len());
    let partial = |group: &Vec<usize>| {
        let inside: Vec<Output<'g>> = group.iter().map(|&d| all[d]).collect();
        placement.on_tower(g, group[0], || match inside.len() {
            1 => inside[0],
            _ => g.add_n(&inside),
        })
    };
    let [first, second] = [partial(&groups[0]), partial(&groups[1])];
    let mut sums = all.to_vec();
    for group in &groups {
        // The order is the same on both sides, so that all have the same bits.
        let both = placement.on_tower(g, group[0], || first + second);
        for &device in group {
            sums[device] = both;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_groups_cover_each_device_once_for_every_tensor() {
        for (topology, towers) in [
            (Topology::Dgx1, 2),
            (Topology::Dgx1, 6),
            (Topology::GcpV100, 8),
        ] {
            for number in 0..20 {
                let groups = topology.groups(number, towers);
                let mut all = groups.concat();
                all.sort_unstable();
                assert_eq!(
                    all,
                    (0..towers).collect::<Vec<_>>(),
                    "{topology:?} {number}"
                );
            }
        }
    }
}
