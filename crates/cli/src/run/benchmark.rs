//! `thalweg run --benchmark`: latency and throughput of a graph's steps.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_graph::{Graph, Output};
use thalweg_session::{Feed, Fetches, RunOptions, Session};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Tensor};

use crate::failure::Failure;
use crate::initializers::error_text;
use crate::progress::Progress;

/// Steps before the measurement: the first one plans, the next ones fill caches.
const WARM_UP_STEPS: u64 = 3;
/// The warm-up goes on for this long, so that a processor reaches its speed.
const WARM_UP: Duration = Duration::from_millis(300);

/// Most elements of an input that is generated.
const MAX_GENERATED: usize = 1 << 30;

/// Latencies of steps, and the memory that they took.
pub(super) struct Measured {
    /// Milliseconds of each step, sorted.
    latencies: Vec<f64>,
    /// Elements of the first dimension of the inputs: images of a batch.
    batch: Option<usize>,
    /// Largest memory of the process, in bytes.
    memory: Option<u64>,
}

/// Runs steps with batches of so many examples, and measures each. The values that they fetch are dropped.
pub(super) fn measure(
    graph: &Graph,
    session: &Session,
    fetches: &impl Fetches,
    (feeds, batch): (&[Feed<'_>], Option<usize>),
    (steps, quiet): (u64, bool),
) -> Result<Measured, Failure> {
    let options = RunOptions::new();
    let step = || {
        let start = Instant::now();
        let ran = session.step_with(fetches, feeds, &options);
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        ran.map_err(|e| error_text(graph, &e))?;
        Ok::<f64, Failure>(milliseconds)
    };
    let start = Instant::now();
    let mut warmed = 0;
    while warmed < WARM_UP_STEPS || start.elapsed() < WARM_UP {
        step()?;
        warmed += 1;
    }
    let progress = Progress::new("step", steps, quiet);
    let mut latencies = Vec::new();
    for number in 0..steps {
        latencies.push(step()?);
        progress.at(number + 1);
    }
    latencies.sort_by(f64::total_cmp);
    Ok(Measured {
        latencies,
        batch,
        memory: peak_memory(),
    })
}

/// The first dimension of all inputs that have one, where it is the same.
pub(super) fn batch<'a>(inputs: impl Iterator<Item = &'a Tensor>) -> Option<usize> {
    let mut sizes = inputs.filter_map(|t| t.dims().first().copied());
    let first = sizes.next()?;
    sizes.all(|n| n == first).then_some(first)
}

/// The largest resident memory of this process, in bytes, where the system tells it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

impl Measured {
    /// The latency that this share of the steps does not exceed, in milliseconds.
    fn percentile(&self, share: f64) -> f64 {
        let at = (share * self.latencies.len() as f64).ceil() as usize;
        self.latencies[at.clamp(1, self.latencies.len()) - 1]
    }

    fn mean(&self) -> f64 {
        self.latencies.iter().sum::<f64>() / self.latencies.len() as f64
    }

    pub(super) fn json(&self) -> Value {
        let rate = 1e3 / self.mean();
        json!({
            "steps": self.latencies.len(),
            "latency_ms": {
                "mean": self.mean(), "median": self.percentile(0.5), "p90": self.percentile(0.9),
                "p99": self.percentile(0.99), "least": self.percentile(0.0), "most": self.percentile(1.0),
            },
            "steps_per_second": rate,
            "batch": self.batch,
            "examples_per_second": self.batch.map(|n| n as f64 * rate),
            "peak_memory_bytes": self.memory,
        })
    }

    pub(super) fn text(&self) -> String {
        let rate = 1e3 / self.mean();
        let mut text = format!(
            "latency: median {:.3} ms, p90 {:.3} ms, p99 {:.3} ms, least {:.3} ms, most {:.3} ms ({})\n\
             throughput: {rate:.1} steps/s",
            self.percentile(0.5),
            self.percentile(0.9),
            self.percentile(0.99),
            self.percentile(0.0),
            self.percentile(1.0),
            counted(self.latencies.len() as u64, "step"),
        );
        if let Some(batch) = self.batch {
            let examples = batch as f64 * rate;
            text += &format!(", {examples:.1} examples/s in batches of {batch}");
        }
        if let Some(memory) = self.memory {
            text += &format!(
                "\npeak memory: {:.1} MiB",
                memory as f64 / f64::from(1 << 20)
            );
        }
        text
    }
}

/// Values for an input that no flag feeds: floats between 0 and 1, zeros of other dtypes. A first dimension that is not
/// known is the batch.
pub(super) fn generated(output: Output<'_>, name: &str, batch: usize) -> Result<Tensor, Failure> {
    let unknown = || {
        format!(
            "--feed {name}=FILE.npy: the input has no feed, and its shape is not known beyond the first dimension"
        )
    };
    let shape = output.shape();
    let rank = shape.rank().ok_or_else(unknown)?;
    let dims = (0..rank).map(|axis| match (shape.dim(axis), axis) {
        (Some(n), _) => Ok(n),
        (None, 0) => Ok(batch),
        _ => Err(unknown()),
    });
    let dims = dims.collect::<Result<Vec<usize>, String>>()?;
    let made = match output.dtype() {
        DType::F32 => Tensor::new(&dims, &pattern(&dims, |x| x as f32)?),
        DType::F64 => Tensor::new(&dims, &pattern(&dims, |x| x)?),
        other => Tensor::zeros(other, &dims),
    };
    made.map_err(|e| format!("--feed {name}: {e}").into())
}

/// Numbers in [0, 1) without a short cycle: no kernel meets equal values only.
fn pattern<T>(dims: &[usize], number: impl Fn(f64) -> T) -> Result<Vec<T>, Failure> {
    let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let count = count.filter(|&n| n <= MAX_GENERATED);
    let count = count.ok_or_else(|| format!("an input of shape {dims:?} is too large"))?;
    let at = |i: usize| i.wrapping_mul(2_654_435_761) >> 8 & 0xffff;
    Ok((0..count).map(|i| number(at(i) as f64 / 65536.0)).collect())
}
