//! Passes of statistics programs: kernels over the rows of each rank, and the all-reduce of their sums.

use crate::cluster::{Cluster, DeviceSpeed};
use crate::step::{Item, ItemWork, NodeCost, StepTemplate, Stream, TemplateTask};

use super::all_reduce::{self, AllReduceOptions};
use super::hosts::ResourceUse;

/// Bytes of a number: rows and sums are f64.
const NUMBER: f64 = 8.0;

/// A pass over rows of f64 that all ranks share.
///
/// ```
/// use thalweg_simulate::{Cluster, PassKernel, StatisticsPass};
///
/// let cluster = Cluster::named("xeon-32x40").expect("a known cluster");
/// let pass = StatisticsPass {
///     rows: 36_000_000,
///     columns: 256,
///     kernel: PassKernel::Products { targets: 1 },
/// };
/// let one = pass.predict(&cluster, 1);
/// let all = pass.predict(&cluster, 1280);
/// assert!(all.seconds > one.seconds / 1280.0);
/// assert!(all.all_reduce > 0.0 && one.all_reduce == 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatisticsPass {
    /// Rows of all ranks.
    pub rows: u64,
    /// Columns of features.
    pub columns: u32,
    /// Kernel.
    pub kernel: PassKernel,
}

/// Kernel of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKernel {
    /// Products of all columns: a column of ones, the features, and so many targets. A linear regression has one such pass.
    Products {
        /// Columns of targets.
        targets: u32,
    },
    /// Distances of rows to so many centroids, and the sums of their clusters. Each iteration of K-means has one such pass.
    Clusters(u32),
}

/// Predicted seconds of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassPrediction {
    /// Seconds of the pass.
    pub seconds: f64,
    /// Seconds of its all-reduce.
    pub all_reduce: f64,
    /// `true` if the bandwidth of memory bounds the kernel.
    pub memory_bound: bool,
}

impl StatisticsPass {
    /// Floating-point operations of the kernel over so many rows, and their bytes.
    pub fn cost(&self, rows: u64) -> NodeCost {
        let columns = f64::from(self.columns);
        let (operations, width) = match self.kernel {
            PassKernel::Products { targets } => {
                let width = columns + f64::from(targets);
                // Half of the products, since they are symmetric, each with its sum.
                ((width + 1.0) * (width + 2.0), width)
            }
            PassKernel::Clusters(clusters) => {
                ((2.0 * f64::from(clusters) + 1.0) * columns, columns)
            }
        };
        NodeCost {
            flops: rows as f64 * operations,
            bytes: rows as f64 * width * NUMBER,
        }
    }

    /// Bytes of the sums that are reduced.
    pub fn sum_bytes(&self) -> f64 {
        let columns = f64::from(self.columns);
        NUMBER
            * match self.kernel {
                PassKernel::Products { targets } => {
                    let width = columns + f64::from(targets) + 1.0;
                    width * width
                }
                PassKernel::Clusters(clusters) => f64::from(clusters) * (columns + 1.0) + 1.0,
            }
    }

    /// Predicts the pass on so many ranks, each with its share of the rows.
    ///
    /// A device's operations a second are those over rows in memory, so that they include the reading, unless its bandwidth
    /// takes longer.
    pub fn predict(&self, cluster: &Cluster, ranks: u32) -> PassPrediction {
        let (cost, memory_bound) = self.bound_of_rank(&cluster.device, ranks);
        let item = |work, after: &[usize]| Item {
            task: TemplateTask::Worker,
            work,
            after: after.to_vec(),
            follows_worker: false,
            nodes: Vec::new(),
        };
        let sums = ItemWork::Message(TemplateTask::Server(0), self.sum_bytes());
        let template = StepTemplate {
            items: vec![
                item(ItemWork::Compute(Stream::Device(0), cost), &[]),
                item(sums, &[0]),
            ],
            devices: 1,
            servers: 1,
        };
        // Rows are in memory.
        let cluster = Cluster {
            input: None,
            ..cluster.clone()
        };
        let options = AllReduceOptions::default();
        let step = all_reduce::simulate(&template, &cluster, ranks, 1, &options);
        let reducing = step.path.iter().find(|(of, _)| *of == ResourceUse::Sending);
        PassPrediction {
            seconds: step.seconds,
            all_reduce: reducing.map_or(0.0, |(_, seconds)| *seconds),
            memory_bound,
        }
    }

    /// The part of a rank's cost that bounds it, and `true` if that is memory.
    fn bound_of_rank(&self, device: &DeviceSpeed, ranks: u32) -> (NodeCost, bool) {
        let cost = self.cost(self.rows.div_ceil(u64::from(ranks.max(1))));
        match cost.bytes / device.bandwidth > cost.flops / device.flops {
            true => (NodeCost { flops: 0.0, ..cost }, true),
            false => (NodeCost { bytes: 0.0, ..cost }, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        Cluster::named("xeon-32x40").unwrap()
    }

    fn products(rows: u64) -> StatisticsPass {
        StatisticsPass {
            rows,
            columns: 256,
            kernel: PassKernel::Products { targets: 1 },
        }
    }

    #[test]
    fn a_pass_takes_the_operations_of_a_rank_and_an_all_reduce() {
        let pass = products(36_000_000);
        let predicted = pass.predict(&cluster(), 1280);
        let computing = 28_125.0 * 258.0 * 259.0 / 30e9;
        let rest = predicted.seconds - computing;
        assert!((rest - predicted.all_reduce).abs() < 1e-9, "{predicted:?}");
        // Each host sends and receives the sums once at least, and no all-reduce takes them to all hosts one by one.
        let once = pass.sum_bytes() / 12.5e9;
        assert!(
            (once..32.0 * once).contains(&predicted.all_reduce),
            "{predicted:?}"
        );
        assert!(!predicted.memory_bound);
    }

    #[test]
    fn memory_bounds_a_pass_with_few_operations() {
        let pass = StatisticsPass {
            rows: 1_280_000,
            columns: 300,
            kernel: PassKernel::Clusters(1),
        };
        let predicted = pass.predict(&cluster(), 1280);
        assert!(predicted.memory_bound);
        let reading = predicted.seconds - predicted.all_reduce;
        assert!(
            (reading - 1000.0 * 300.0 * 8.0 / 5e9).abs() < 1e-9,
            "{predicted:?}"
        );
    }

    #[test]
    fn the_all_reduce_does_not_depend_on_the_rows() {
        let [few, many] = [1280, 36_000_000].map(|rows| products(rows).predict(&cluster(), 1280));
        assert!((few.all_reduce - many.all_reduce).abs() < 1e-9);
    }
}
