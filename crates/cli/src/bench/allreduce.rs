//! `thalweg bench allreduce`: time and bandwidth of all-reduces by size.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::json;
use thalweg_collective::{
    ALL_RANKS, Algorithm, Coordinator, Join, LinkCost, Ranks, ReduceOp, Reduction, variables,
};
use thalweg_launch::job_secret;
use thalweg_tensor::DType;

use super::plot;
use crate::failure::Failure;
use crate::figure::svg_file;
use crate::output;

/// Sums f32 values of all ranks, and prints a line for each size, as nccl-tests do: the median time of a rank, the bytes of a
/// value by that time (algbw), and the traffic of each link by that time (busbw: algbw times 2 (n-1)/n).
///
/// It starts the ranks itself. Under `thalweg launch hvd` it is one of them.
#[derive(Args)]
pub(super) struct AllReduce {
    /// Number of ranks.
    #[arg(short = 'n', long = "np", default_value_t = 2, value_name = "RANKS",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,
    /// The smallest size, in bytes.
    #[arg(long, default_value_t = 4)]
    from: usize,
    /// The largest size, in bytes.
    #[arg(long, default_value_t = 256 << 20)]
    to: usize,
    /// Ratio of each size to the one before.
    #[arg(long, default_value_t = 4)]
    factor: usize,
    /// Transport of the values.
    #[arg(long, value_enum, default_value_t = AllReduceEngine::Memory)]
    engine: AllReduceEngine,
    /// Algorithm over links, in place of the cheapest: doubling, halving, ring or tree.
    #[arg(long)]
    algorithm: Option<Algorithm>,
    /// Prints a line of JSON for each size.
    #[arg(long)]
    json: bool,
    /// Measures every engine and algorithm, one after another.
    #[arg(long, conflicts_with_all = ["engine", "algorithm"])]
    all: bool,
    /// Draws the bus bandwidth against the size into this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum AllReduceEngine {
    /// Shared memory.
    Memory,
    /// TCP.
    Tcp,
}

impl AllReduceEngine {
    fn name(self) -> &'static str {
        match self {
            AllReduceEngine::Memory => "memory",
            AllReduceEngine::Tcp => "tcp",
        }
    }
}

/// Processes of the other ranks, which are killed on drop.
struct OtherRanks(Vec<Child>);

impl Drop for OtherRanks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Transport and algorithm of a measurement.
#[derive(Clone, Copy)]
struct Method {
    engine: AllReduceEngine,
    /// The cheapest if `None`.
    algorithm: Option<Algorithm>,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.engine.name())?;
        match (self.engine, self.algorithm) {
            // Shared memory has one algorithm.
            (AllReduceEngine::Memory, _) => Ok(()),
            (_, Some(algorithm)) => write!(f, ", {algorithm}"),
            (_, None) => f.write_str(", the cheapest"),
        }
    }
}

/// Number of ranks, and for each size the bytes of a value and GB/s of the bus.
type Points = (usize, Vec<(usize, f64)>);

impl AllReduce {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.factor < 2 || self.from < 4 || self.from > self.to {
            return Err("give --from 4 or more, --to no less, and --factor 2 or more".into());
        }
        if let Some(path) = &self.plot {
            svg_file::check(path)?;
        }
        let launched = std::env::var_os(variables::RANK).is_some();
        if launched && self.all {
            return Err("--all starts its ranks itself: leave `launch` out".into());
        }
        let methods = self.methods();
        let (mut ranks, mut lines) = (0, Vec::new());
        for (i, &method) in methods.iter().enumerate() {
            if i > 0 && !self.json {
                output::line(format_args!(""))?;
            }
            let (size, points) = match launched {
                true => self.measure(method, Join::from_env()?)?,
                false => self.start(method)?,
            };
            ranks = size;
            lines.push((method.to_string(), points));
        }
        // Only the first rank has points.
        match &self.plot {
            Some(path) if lines.iter().any(|(_, points)| !points.is_empty()) => {
                plot::draw(path, ranks, &lines)
            }
            _ => Ok(()),
        }
    }

    fn methods(&self) -> Vec<Method> {
        let (engine, algorithm) = (self.engine, self.algorithm);
        if !self.all {
            return vec![Method { engine, algorithm }];
        }
        let engine = AllReduceEngine::Tcp;
        let algorithms = Algorithm::ALL.into_iter().map(Some);
        let tcp = algorithms.map(|algorithm| Method { engine, algorithm });
        let memory = Method {
            engine: AllReduceEngine::Memory,
            algorithm: None,
        };
        std::iter::once(memory).chain(tcp).collect()
    }

    /// Starts the other ranks, and measures as the first one.
    fn start(&self, method: Method) -> Result<Points, Failure> {
        let secret = job_secret()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let coordinator = Coordinator::start(listener, self.ranks as usize, &secret)?;
        let address = coordinator.address();
        let sizes = [
            ("--from", self.from),
            ("--to", self.to),
            ("--factor", self.factor),
        ];
        let mut others = OtherRanks(Vec::new());
        for rank in 1..self.ranks {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["bench", "allreduce", "--engine", method.engine.name()]);
            command.args(
                sizes
                    .iter()
                    .flat_map(|(flag, size)| [(*flag).to_owned(), size.to_string()]),
            );
            if let Some(algorithm) = method.algorithm {
                command.args(["--algorithm", algorithm.name()]);
            }
            command
                .env(variables::RANK, rank.to_string())
                .env(variables::SIZE, self.ranks.to_string())
                .env(variables::ADDRESS, address.ip().to_string())
                .env(variables::PORT, address.port().to_string())
                .env(variables::SECRET, &secret)
                // This job runs over loopback, without TLS.
                .env_remove(variables::PROTECTION);
            others.0.push(command.spawn()?);
        }
        let points = self.measure(method, Join::at(address, 0, self.ranks as usize, &secret))?;
        for child in &mut others.0 {
            child.wait()?;
        }
        Ok(points)
    }

    /// Measures as one of the ranks. The first one prints the results, and returns them.
    fn measure(&self, method: Method, join: Join) -> Result<Points, Failure> {
        let mut ranks = Ranks::join(&join.memory(method.engine == AllReduceEngine::Memory))?;
        ranks.set_algorithm(method.algorithm);
        let first = ranks.rank() == 0;
        let link = match ranks.size() {
            1 => None,
            _ => Some(ranks.measured_link()?),
        };
        if first && !self.json {
            print_header(method, &ranks, link)?;
        }
        let mut points = Vec::new();
        let mut size = self.from;
        while size <= self.to {
            let (seconds, wrong) = measure_size(&mut ranks, size / 4)?;
            if first {
                let bytes = size / 4 * 4;
                let bus = self.print(method, (&ranks, link), bytes, (seconds, wrong))?;
                points.push((bytes, bus));
            }
            let Some(next) = size.checked_mul(self.factor) else {
                break;
            };
            size = next;
        }
        Ok((ranks.size(), points))
    }

    /// Prints a line, and returns the GB/s of the bus.
    fn print(
        &self,
        method: Method,
        (ranks, link): (&Ranks, Option<LinkCost>),
        bytes: usize,
        (seconds, wrong): (f64, usize),
    ) -> Result<f64, Failure> {
        let n = ranks.size() as f64;
        let speed = bytes as f64 / seconds / 1e9;
        let bus = speed * 2.0 * (n - 1.0) / n;
        if self.json {
            let line = json!({
                "workload": "allreduce", "engine": method.engine.name(), "ranks": ranks.size(), "bytes": bytes,
                "algorithm": method.algorithm.map(Algorithm::name), "seconds": seconds, "value": bus,
                "unit": "GB/s bus", "wrong": wrong, "link": link.map(|link| json!({
                    "between": ends_of_link(ranks), "message_seconds": link.message, "byte_seconds": link.byte,
                })),
            });
            output::line(format_args!("{line}"))?;
            return Ok(bus);
        }
        let time = seconds * 1e6;
        output::line(format_args!(
            " {bytes:>12} {:>13} {:>8} {:>7} {time:>10.2} {speed:>8.3} {bus:>8.3} {wrong:>7}",
            bytes / 4,
            "float",
            "sum"
        ))?;
        Ok(bus)
    }
}

/// The ends of the link that is measured.
fn ends_of_link(ranks: &Ranks) -> &'static str {
    match ranks.cross().1 {
        1 => "tasks of one host",
        _ => "hosts",
    }
}

fn print_header(method: Method, ranks: &Ranks, link: Option<LinkCost>) -> Result<(), Failure> {
    output::line(format_args!("# {} ranks, {method}", ranks.size()))?;
    if let Some(link) = link {
        output::line(format_args!(
            "# between {} {:.1} us a message and {:.3} GB/s, over TCP",
            ends_of_link(ranks),
            link.message * 1e6,
            1e-9 / link.byte
        ))?;
    }
    output::line(format_args!(
        "#{:>12} {:>13} {:>8} {:>7} {:>10} {:>8} {:>8} {:>7}",
        "size (B)", "count", "type", "redop", "time (us)", "algbw", "busbw", "#wrong"
    ))
}

/// Returns the median seconds of an all-reduce of so many elements, and the number of wrong elements.
fn measure_size(ranks: &mut Ranks, elements: usize) -> Result<(f64, usize), Failure> {
    let sum = Reduction::of(ReduceOp::Sum);
    let mut data = vec![0f32; elements];
    let runs = match elements {
        0..=262_143 => 200,
        262_144..=16_777_215 => 20,
        _ => 5,
    };
    let mut times: Vec<Duration> = Vec::new();
    let mut wrong = 0;
    for run in 0..runs + 3 {
        data.fill(ranks.rank() as f32 + 1.0);
        ranks.barrier(ALL_RANKS, "ready")?;
        let began = Instant::now();
        ranks.all_reduce(
            ALL_RANKS,
            "bench",
            bytemuck::cast_slice_mut(&mut data),
            DType::F32,
            sum,
        )?;
        if run >= 3 {
            times.push(began.elapsed());
        }
        let n = ranks.size() as f32;
        let expected = n * (n + 1.0) / 2.0;
        wrong += data.iter().filter(|&&x| x != expected).count();
    }
    times.sort_unstable();
    Ok((times[times.len() / 2].as_secs_f64(), wrong))
}
