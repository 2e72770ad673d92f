//! `thalweg stats predict`: times of a regression or of K-means on a cluster.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use thalweg_simulate::{Cluster, DeviceSpeed, PassKernel, PassPrediction, StatisticsPass};

use super::kernel_speed;
use crate::failure::Failure;
use crate::output;
use crate::table::table;

/// Program whose times are predicted.
#[derive(Clone, Copy, ValueEnum)]
enum ProgramName {
    /// Linear regression by normal equations
    Linear,
    /// K-means from a k-means++ start
    Kmeans,
}

/// Predict the time of a linear regression or of K-means on a cluster, over rows of f64 in memory
///
/// The kernels of a rank and the messages of the all-reduces are simulated. The cluster file has the speeds, as for `thalweg
/// simulate`; a rank of a cluster of CPUs is a task, on one core or several.
#[derive(Args)]
pub(super) struct Predict {
    /// Program
    program: ProgramName,
    /// Rows of all ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000_000))]
    rows: u64,
    /// Number of features
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    columns: u32,
    /// Number of targets of a regression
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    targets: u32,
    /// Number of clusters of K-means
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clusters: u32,
    /// Iterations of K-means
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iterations: u32,
    /// Cluster file (TOML), or the name of a cluster: xeon-32x40, which has 32 hosts of 40 cores
    #[arg(long, value_name = "FILE|NAME")]
    cluster: String,
    /// Number of ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    ranks: u32,
    /// Speed of a rank in these kernels, in place of the cluster's: 10^9 operations a second
    #[arg(long, value_name = "G", value_parser = positive, conflicts_with = "measure")]
    gflops: Option<f64>,
    /// Take the speed of a core of this machine in these kernels, in place of the cluster's. Build with --release
    #[arg(long)]
    measure: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (1e-6..=1e12).contains(&number) => Ok(number),
        _ => Err("give a number above 0, up to 1e12".to_owned()),
    }
}

/// A pass, and the number of its repetitions.
struct Passes {
    name: &'static str,
    count: u32,
    pass: StatisticsPass,
}

/// Predicted passes.
struct PredictedPasses {
    passes: Passes,
    /// Operations a second of a rank.
    speed: f64,
    each: PassPrediction,
}

impl PredictedPasses {
    fn seconds(&self) -> f64 {
        f64::from(self.passes.count) * self.each.seconds
    }
}

impl Predict {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let cluster = match Cluster::named(&self.cluster) {
            Some(cluster) => cluster,
            None => Cluster::read(self.cluster.as_ref())?,
        };
        let all = self.passes().into_iter();
        let all = all.map(|passes| self.predict(passes, &cluster));
        let all = all.collect::<Result<Vec<PredictedPasses>, Failure>>()?;
        output::text(&match self.json {
            true => format!("{:#}\n", self.json_of(&all)),
            false => self.text_of(&all, &cluster),
        })
    }

    /// The passes of the program.
    fn passes(&self) -> Vec<Passes> {
        let passes = |name, count, kernel| Passes {
            name,
            count,
            pass: StatisticsPass {
                rows: self.rows,
                columns: self.columns,
                kernel,
            },
        };
        match self.program {
            ProgramName::Linear => {
                let targets = self.targets;
                vec![passes("products", 1, PassKernel::Products { targets })]
            }
            ProgramName::Kmeans => vec![
                // k-means++ has a pass for each centroid, over the distances to that one.
                passes("start", self.clusters, PassKernel::Clusters(1)),
                // The last pass has the inertia.
                passes(
                    "iterations",
                    self.iterations + 1,
                    PassKernel::Clusters(self.clusters),
                ),
            ],
        }
    }

    fn predict(&self, passes: Passes, cluster: &Cluster) -> Result<PredictedPasses, Failure> {
        let speed = match (self.measure, self.gflops) {
            (true, _) => kernel_speed::measured(&passes.pass)?,
            (false, Some(gflops)) => 1e9 * gflops,
            (false, None) => cluster.device.flops,
        };
        let cluster = Cluster {
            device: DeviceSpeed {
                flops: speed,
                ..cluster.device
            },
            ..cluster.clone()
        };
        let each = passes.pass.predict(&cluster, self.ranks);
        Ok(PredictedPasses {
            passes,
            speed,
            each,
        })
    }

    fn text_of(&self, all: &[PredictedPasses], cluster: &Cluster) -> String {
        let rows = all.iter().map(|own| {
            let bound = match own.each.memory_bound {
                true => "memory",
                false => "operations",
            };
            vec![
                own.passes.name.to_owned(),
                own.passes.count.to_string(),
                format!("{:.1}", own.speed / 1e9),
                format!("{:.3}", 1e3 * (own.each.seconds - own.each.all_reduce)),
                bound.to_owned(),
                format!("{:.3}", 1e3 * own.each.all_reduce),
                format!("{:.2}", 1e3 * own.seconds()),
            ]
        });
        let head = [
            "passes",
            "number",
            "GFLOP/s of a rank",
            "kernel, ms",
            "bound by",
            "all-reduce, ms",
            "all, ms",
        ];
        let sum: f64 = all.iter().map(PredictedPasses::seconds).sum();
        format!(
            "{} rows of {} columns on {} ranks of {}, predicted\n\n{}{:.4} s in all{}\n",
            self.rows,
            self.columns,
            self.ranks,
            cluster.name,
            table(&head, rows.collect(), &[1, 2, 3, 5, 6]),
            sum,
            match self.measure {
                true => "; the speed of a rank is that of a core of this machine",
                false => "",
            }
        )
    }

    fn json_of(&self, all: &[PredictedPasses]) -> Value {
        let passes = all.iter().map(|own| {
            json!({
                "name": own.passes.name,
                "number": own.passes.count,
                "operations_per_second": own.speed,
                "seconds": own.each.seconds,
                "all_reduce_seconds": own.each.all_reduce,
                "memory_bound": own.each.memory_bound,
            })
        });
        json!({
            "ranks": self.ranks,
            "measured": self.measure,
            "passes": passes.collect::<Vec<Value>>(),
            "seconds": all.iter().map(PredictedPasses::seconds).sum::<f64>(),
        })
    }
}
