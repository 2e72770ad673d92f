//! `thalweg bench`: how fast ranks of this machine exchange values.

use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use thalweg_collective::{
    ALL_RANKS, Algorithm, Coordinator, Join, Ranks, ReduceOp, Reduction, variables,
};
use thalweg_tensor::DType;

use crate::launch::secret;
use crate::{Failure, say};

/// Measures what ranks do together.
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Allreduce(AllReduce),
}

/// Sums f32 values of all ranks, and prints a line for each size, as nccl-tests do: the median time of a rank, the bytes of a
/// value by that time (algbw), and what each link must have carried by then (busbw: algbw times 2 (n-1)/n).
///
/// It starts the ranks itself. Under `thalweg launch hvd` it is one of them.
#[derive(Args)]
struct AllReduce {
    /// How many ranks.
    #[arg(short = 'n', long = "np", default_value_t = 2, value_name = "RANKS",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,
    /// The smallest size, in bytes.
    #[arg(long, default_value_t = 4)]
    from: usize,
    /// The largest size, in bytes.
    #[arg(long, default_value_t = 256 << 20)]
    to: usize,
    /// How much larger each size is than the one before.
    #[arg(long, default_value_t = 4)]
    factor: usize,
    /// What carries values.
    #[arg(long, value_enum, default_value_t = Engine::Memory)]
    engine: Engine,
    /// How values go over links, in place of what is cheapest: doubling, halving, ring or tree.
    #[arg(long)]
    algorithm: Option<Algorithm>,
    /// Prints a line of JSON for each size.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Engine {
    /// Memory that ranks share.
    Memory,
    /// TCP.
    Tcp,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Engine::Memory => "memory",
            Engine::Tcp => "tcp",
        }
    }
}

impl Bench {
    /// Measures and prints.
    pub fn run(&self) -> Result<(), Failure> {
        let What::Allreduce(all_reduce) = &self.what;
        all_reduce.run()
    }
}

/// Ranks that were started; they end with this.
struct Others(Vec<Child>);

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl AllReduce {
    fn run(&self) -> Result<(), Failure> {
        if self.factor < 2 || self.from < 4 || self.from > self.to {
            return Err("give --from 4 or more, --to no less, and --factor 2 or more".into());
        }
        if std::env::var_os(variables::RANK).is_some() {
            return self.measure(Join::from_env()?);
        }
        let secret = secret()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let coordinator = Coordinator::start(listener, self.ranks as usize, &secret)?;
        let address = coordinator.address();
        let mut others = Others(Vec::new());
        for rank in 1..self.ranks {
            let mut command = Command::new(std::env::current_exe()?);
            command
                .args(std::env::args_os().skip(1))
                .env(variables::RANK, rank.to_string())
                .env(variables::SIZE, self.ranks.to_string())
                .env(variables::ADDRESS, address.ip().to_string())
                .env(variables::PORT, address.port().to_string())
                .env(variables::SECRET, &secret);
            others.0.push(command.spawn()?);
        }
        self.measure(Join::at(address, 0, self.ranks as usize, &secret))?;
        for child in &mut others.0 {
            child.wait()?;
        }
        Ok(())
    }

    /// Measures as one of the ranks; the first one prints.
    fn measure(&self, join: Join) -> Result<(), Failure> {
        let mut ranks = Ranks::join(&join.memory(self.engine == Engine::Memory))?;
        ranks.choose(self.algorithm);
        let first = ranks.rank() == 0;
        if first && !self.json {
            let algorithm = self.algorithm.map_or("the cheapest", Algorithm::name);
            let engine = self.engine.name();
            say::line(format_args!(
                "# {} ranks, {engine}, {algorithm}",
                ranks.size()
            ))?;
            // Within a host it is not measured.
            if ranks.cross().1 > 1 {
                let cost = ranks.cost();
                say::line(format_args!(
                    "# between hosts {:.1} us a message and {:.3} GB/s",
                    cost.message * 1e6,
                    1e-9 / cost.byte
                ))?;
            }
            say::line(format_args!(
                "#{:>12} {:>13} {:>8} {:>7} {:>10} {:>8} {:>8} {:>7}",
                "size (B)", "count", "type", "redop", "time (us)", "algbw", "busbw", "#wrong"
            ))?;
        }
        let mut size = self.from;
        while size <= self.to {
            let (seconds, wrong) = timed(&mut ranks, size / 4)?;
            if first {
                self.print(&ranks, size / 4 * 4, seconds, wrong)?;
            }
            let Some(next) = size.checked_mul(self.factor) else {
                break;
            };
            size = next;
        }
        Ok(())
    }

    fn print(
        &self,
        ranks: &Ranks,
        bytes: usize,
        seconds: f64,
        wrong: usize,
    ) -> Result<(), Failure> {
        let n = ranks.size() as f64;
        let speed = bytes as f64 / seconds / 1e9;
        let bus = speed * 2.0 * (n - 1.0) / n;
        if self.json {
            let line = json!({
                "workload": "allreduce", "engine": self.engine.name(), "ranks": ranks.size(), "bytes": bytes,
                "algorithm": self.algorithm.map(Algorithm::name), "seconds": seconds, "value": bus,
                "unit": "GB/s bus", "wrong": wrong,
            });
            return say::line(format_args!("{line}"));
        }
        let time = seconds * 1e6;
        say::line(format_args!(
            " {bytes:>12} {:>13} {:>8} {:>7} {time:>10.2} {speed:>8.3} {bus:>8.3} {wrong:>7}",
            bytes / 4,
            "float",
            "sum"
        ))
    }
}

/// The median seconds of an all-reduce of so many elements, and how many elements were wrong.
fn timed(ranks: &mut Ranks, elements: usize) -> Result<(f64, usize), Failure> {
    let sum = Reduction::new(ReduceOp::Sum, DType::F32);
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
        ranks.all_reduce(ALL_RANKS, "bench", bytemuck::cast_slice_mut(&mut data), sum)?;
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
