//! CPU benchmark, case by case: against the machine's peak rates, and against another program that runs the same cases
//! in alternation.
//!
//! `cargo run --release --example bench -- --peer "PYTHON benches/peers/pytorch.py" --only conv/`

mod case;
mod machine;
mod ours;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use thalweg::cpu::Isa;

use case::Case;
use machine::Machine;
use ours::{Result, Step};
use thalweg_examples::output;
use thalweg_examples::peer::Peer;
use thalweg_examples::report::{median, table};

/// Measures Thalweg on the processor.
#[derive(Parser)]
struct Flags {
    /// Only cases whose names have this in them.
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
    /// A program to compare with: it reads cases and answers times, by lines of JSON
    /// (`benches/peers`).
    #[arg(long, value_name = "COMMAND")]
    peer: Option<String>,
    /// Threads, where a case takes several.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Number of measurements of each side, in alternation.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// Prints the names of the cases.
    #[arg(long)]
    list: bool,
    /// Prints results as lines of JSON.
    #[arg(long)]
    json: bool,
}

/// Result of a case.
struct CaseResult {
    case: Case,
    /// Seconds of a step, the median of the rounds.
    own: f64,
    peer: Option<f64>,
    /// Speedup over the peer, the median of the rounds.
    ratio: Option<f64>,
}

/// Seconds of a step: the median of batches of steps that take a millisecond or more, for `limit` seconds.
fn seconds(step: &mut Step<'_>, limit: f64) -> Result<f64> {
    let began = Instant::now();
    step()?;
    let first = began.elapsed().as_secs_f64();
    let steps = (1e-3 / first.max(1e-9)).ceil() as u32;
    let (began, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || began.elapsed().as_secs_f64() < limit {
        let began = Instant::now();
        for _ in 0..steps {
            step()?;
        }
        times.push(began.elapsed().as_secs_f64() / f64::from(steps));
    }
    Ok(median(times).unwrap_or_default())
}

fn measured(case: &Case, flags: &Flags, peer: &mut Option<Peer>) -> Result<CaseResult> {
    let request = case.request();
    ours::with(case, |step| {
        let (mut own, mut other, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..flags.rounds {
            let ours = seconds(step, flags.seconds)?;
            own.push(ours);
            let Some(peer) = peer else { continue };
            if let Some(theirs) = peer.measure(&request, flags.seconds)? {
                other.push(theirs);
                ratios.push(theirs / ours);
            }
        }
        Ok(CaseResult {
            case: case.clone(),
            own: median(own).unwrap_or_default(),
            peer: median(other),
            ratio: median(ratios),
        })
    })
}

impl CaseResult {
    /// The share of the machine's operations, and of its memory's bytes, that a step reaches.
    fn shares(&self, machine: &Machine) -> [f64; 2] {
        let (floor, most) = (
            self.case.floor(),
            machine.flops[usize::from(self.case.threads > 1)],
        );
        [
            floor.flops / self.own / most,
            floor.bytes / self.own / machine.bytes,
        ]
    }

    fn json(&self, machine: &Machine) -> String {
        let [flops, bytes] = self.shares(machine);
        let images = self.case.images().map(|n| n as f64 / self.own);
        json!({
            "case": self.case.name(), "seconds": self.own, "images_per_second": images,
            "share_of_flops": flops, "share_of_bytes": bytes, "peer_seconds": self.peer,
            "ratio": self.ratio,
        })
        .to_string()
    }

    fn row(&self, machine: &Machine) -> [String; 6] {
        let time = |t: f64| match t {
            t if t < 1e-4 => format!("{:.2} us", t * 1e6),
            t => format!("{:.3} ms", t * 1e3),
        };
        let share = |s: f64| match s {
            0.0 => String::new(),
            s => format!("{:.0}%", s * 100.0),
        };
        let [flops, bytes] = self.shares(machine).map(share);
        let peer = self.peer.map_or(String::new(), time);
        let ratio = self.ratio.map_or(String::new(), |r| format!("{r:.2}"));
        [self.case.name(), time(self.own), flops, bytes, peer, ratio]
    }
}

fn run(flags: &Flags) -> Result<()> {
    // The reader may close the pipe: that is an error like others, and no panic.
    let mut out = std::io::stdout();
    let mut cases = case::all(flags.threads.into());
    cases.retain(|c| c.name().contains(&flags.only));
    if flags.list {
        for case in &cases {
            writeln!(out, "{}", case.name())?;
        }
        return Ok(());
    }
    let mut peer = flags.peer.as_deref().map(Peer::start).transpose()?;
    let machine = Machine::measure(Isa::detect(), flags.threads.into(), 5);
    if flags.json {
        let [one, all] = machine.flops;
        writeln!(
            out,
            "{}",
            json!({"isa": format!("{:?}", Isa::detect().level()), "flops_of_one": one,
                "threads": flags.threads, "flops": all, "bytes": machine.bytes})
        )?;
    }
    let bar = ProgressBar::new(cases.len() as u64);
    bar.set_style(ProgressStyle::with_template(
        "{bar:8.cyan/dim} {pos}/{len}  {eta} left  {wide_msg}",
    )?);
    let mut all = Vec::new();
    for case in &cases {
        bar.set_message(case.name());
        let found =
            measured(case, flags, &mut peer).map_err(|e| format!("{}: {e}", case.name()))?;
        if flags.json {
            writeln!(out, "{}", found.json(&machine))?;
        }
        all.push(found);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if flags.json {
        return Ok(());
    }
    let head = [
        "case",
        "a step",
        "of flops",
        "of bytes",
        "peer",
        "times as fast",
    ];
    writeln!(out, "{}", table(head, all.iter().map(|f| f.row(&machine))))?;
    let [one, many] = machine.flops.map(|f| f / 1e9);
    writeln!(
        out,
        "at most {one:.0} GFLOP/s on one thread, {many:.0} on {}, and {:.1} GB/s ({:?})",
        flags.threads,
        machine.bytes / 1e9,
        Isa::detect().level()
    )?;
    let ratios: Vec<f64> = all.iter().filter_map(|f| f.ratio).collect();
    if !ratios.is_empty() {
        let mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64;
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        writeln!(
            out,
            "{:.2} times as fast (geometric mean), {least:.2} at least",
            mean.exp()
        )?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
