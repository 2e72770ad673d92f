//! Samples of the tasks' memory, descriptors and threads, and a check that they do not grow.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use thalweg_examples::plot::{Curve, Panel, panels};
use thalweg_examples::report::{median, table};

use super::cluster::Cluster;

/// Age up to which a process is not sampled, because its memory still grows.
const MIN_AGE: Duration = Duration::from_secs(10);

/// Resources of a process.
#[derive(Clone, Copy)]
struct Resources {
    /// Seconds since the start of the soak.
    at: f64,
    /// Memory in MiB.
    memory: f64,
    descriptors: f64,
    threads: f64,
}

/// Name of a resource, its value, and the growth that is allowed beyond a tenth.
type Resource = (&'static str, fn(&Resources) -> f64, f64);

const RESOURCES: [Resource; 3] = [
    ("memory, MiB", |h| h.memory, 16.0),
    ("descriptors", |h| h.descriptors, 8.0),
    ("threads", |h| h.threads, 4.0),
];

/// All samples, by task.
pub struct Samples {
    tasks: Vec<(String, Vec<Resources>)>,
}

impl Samples {
    pub fn new() -> Samples {
        Samples { tasks: Vec::new() }
    }

    /// Samples each task that is old enough and not affected by a fault.
    pub fn take(&mut self, at: Duration, cluster: &Cluster) {
        for (number, task) in cluster.tasks.iter().enumerate() {
            if self.tasks.len() <= number {
                self.tasks.push((task.name(), Vec::new()));
            }
            if task.started.elapsed() < MIN_AGE || task.disturbed {
                continue;
            }
            if let Some(read_resources) = read_resources(task.id(), at.as_secs_f64()) {
                self.tasks[number].1.push(read_resources);
            }
        }
    }

    /// The median of each kind in each third of the time.
    fn thirds(samples: &[Resources], value: fn(&Resources) -> f64) -> Option<[f64; 3]> {
        let end = samples.last()?.at;
        let third = |i: usize| {
            let part = samples
                .iter()
                .filter(|h| ((h.at / end * 3.0) as usize).min(2) == i);
            median(part.map(value).collect())
        };
        Some([third(0)?, third(1)?, third(2)?])
    }

    /// The medians of each task in each third of the time.
    pub fn table(&self) -> String {
        let mut rows = Vec::new();
        for (name, samples) in &self.tasks {
            for (kind, value, _) in RESOURCES {
                let Some(thirds) = Samples::thirds(samples, value) else {
                    continue;
                };
                let most = samples.iter().map(value).fold(0.0, f64::max);
                let [a, b, c] = thirds.map(|v| format!("{v:.0}"));
                rows.push([name.clone(), kind.to_owned(), a, b, c, format!("{most:.0}")]);
            }
        }
        table(["task", "what", "first", "middle", "last", "most"], rows)
    }

    /// Panics where the last third is above the middle one.
    pub fn assert_flat(&self) {
        let mut grown = Vec::new();
        for (name, samples) in &self.tasks {
            for (kind, value, more) in RESOURCES {
                let Some([_, middle, last]) = Samples::thirds(samples, value) else {
                    grown.push(format!("{name}: {kind}: a third of the time has no sample"));
                    continue;
                };
                if last > middle * 1.1 + more {
                    grown.push(format!("{name}: {kind}: {middle:.0}, then {last:.0}"));
                }
            }
        }
        assert!(grown.is_empty(), "what tasks hold grows: {grown:?}");
    }

    /// Draws all samples into an SVG file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn plot(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        type Points = Vec<(f64, f64)>;
        let mut all: Vec<Vec<Points>> = Vec::new();
        for (_, value, _) in RESOURCES {
            let points = |samples: &[Resources]| samples.iter().map(|h| (h.at, value(h))).collect();
            all.push(self.tasks.iter().map(|(_, s)| points(s)).collect());
        }
        let mut shown = Vec::new();
        for ((name, ..), points) in RESOURCES.iter().zip(&all) {
            let labelled = self.tasks.iter().zip(points);
            let curves = labelled.map(|((label, _), points)| Curve { label, points });
            let curves = curves.collect();
            shown.push(Panel { name, curves });
        }
        panels(path, "seconds", &shown)
    }
}

/// Reads the resources of a process; `None` where it has ended.
fn read_resources(process: u32, at: f64) -> Option<Resources> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let number = |name: &str| -> Option<f64> {
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    Some(Resources {
        at,
        memory: number("VmRSS:")? / 1024.0,
        descriptors: descriptors.count() as f64,
        threads: number("Threads:")?,
    })
}
