//! Soak test of elastic ranks: deep MNIST while ranks are killed or stopped one after another.
//!
//! ```text
//! cargo build --release -p thalweg-cli
//! KILLS=300 cargo test --release -p thalweg-examples --test elastic_kills -- --ignored --nocapture
//! ```
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The launcher's output so far.
#[derive(Clone, Default)]
struct LauncherOutput(Arc<Mutex<Vec<String>>>);

impl LauncherOutput {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Number of ranks of the last round that begins after `faults` workers have ended; 0 before that.
    fn ranks_after(&self, faults: usize) -> usize {
        let lines = self.lines();
        let ended = |l: &String| l.contains("ended by SIG") || l.contains("is let go: nothing");
        let all = lines.iter().enumerate().filter(|(_, l)| ended(l));
        let after = match faults {
            0 => Some(0),
            _ => all.map(|(at, _)| at).nth(faults - 1),
        };
        let ranks = |line: &String| match line.split(' ').collect::<Vec<_>>()[..] {
            ["round", _, ranks, "ranks,", ..] => ranks.parse().ok(),
            _ => None,
        };
        let rounds = after.map(|at| lines[at..].iter().rev().find_map(ranks));
        rounds.flatten().unwrap_or(0)
    }

    /// Number of rounds so far.
    fn rounds(&self) -> usize {
        let lines = self.lines();
        lines.iter().filter(|l| l.starts_with("round ")).count()
    }
}

struct Launch {
    child: Child,
    said: LauncherOutput,
}

impl Launch {
    fn start(log: &Path, steps: usize) -> Launch {
        let own = Path::new(env!("CARGO_BIN_EXE_hvd_elastic"));
        let thalweg = own.with_file_name("thalweg");
        assert!(
            thalweg.exists(),
            "{} is not there: build it first",
            thalweg.display()
        );
        let mut child = Command::new(thalweg)
            .args("launch hvd -np 3 --min-np 1 --blacklist-cooldown-range 0 0 --".split(' '))
            .arg(own)
            .args(["--steps", &steps.to_string(), "--log"])
            .arg(log)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = LauncherOutput::default();
        let outputs: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for output in outputs {
            let said = said.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    said.0.lock().unwrap().push(line);
                }
            });
        }
        Launch { child, said }
    }

    /// Process ids of the living workers.
    fn workers(&self) -> Vec<u32> {
        let pid = self.child.id();
        let all = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let all = all.unwrap_or_default();
        all.split_whitespace().map(|p| p.parse().unwrap()).collect()
    }

    /// Waits until a round of at least two ranks has begun after `faults` faults; `false` where the job ends first.
    fn trains_after(&mut self, faults: usize) -> bool {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if self.said.ranks_after(faults) >= 2 {
                return true;
            }
            let late = began.elapsed() > Duration::from_secs(60);
            assert!(!late, "after {faults} faults: {:#?}", self.said.lines());
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

/// Seconds of the longest pause between two steps, and the steps.
fn pauses(log: &Path) -> (f64, usize) {
    let text = fs::read_to_string(log).unwrap();
    let time = |line: &str| line.rsplit(',').next()?.parse::<f64>().ok();
    let times: Vec<f64> = text.lines().filter_map(time).collect();
    let longest = times.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
    (longest, times.len())
}

#[test]
#[ignore = "it takes minutes: a command of its own, with results in docs/results/allreduce.md"]
fn a_training_whose_ranks_are_killed_and_stopped_reaches_its_accuracy() {
    let kills: usize = std::env::var("KILLS").map_or(3, |k| k.parse().unwrap());
    let log =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kills-{}.csv", std::process::id()));
    let _ = fs::remove_file(&log);
    let mut launch = Launch::start(&log, 150 + 25 * kills);
    let (mut faults, mut seed) = (0, 7u64);
    // Two faults at once may hit all ranks that have the state: the job then ends, as it must.
    while faults < kills && launch.trains_after(faults) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis(300 + seed % 1_200));
        let workers = launch.workers();
        let Some(victim) = workers.get((seed >> 33) as usize % workers.len().max(1)) else {
            break;
        };
        let signal = if seed >> 62 & 1 == 0 { "KILL" } else { "STOP" };
        let sent = Command::new("kill")
            .args(["-s", signal, &victim.to_string()])
            .status();
        faults += usize::from(sent.unwrap().success());
    }
    let status = launch.child.wait().unwrap();
    let lines = launch.said.lines();
    assert!(status.success(), "{lines:#?}");
    assert_eq!(faults, kills, "the job was done too early");
    let accuracy = lines.iter().find_map(|l| {
        let (before, _) = l.split_once("% of 2000 test images")?;
        before.rsplit(' ').next()?.parse::<f64>().ok()
    });
    let accuracy = accuracy.unwrap_or_else(|| panic!("no accuracy: {lines:#?}"));
    let (pause, steps) = pauses(&log);
    thalweg_examples::output::line(format_args!(
        "{faults} faults, {} rounds, {steps} steps of rank 0, longest pause {pause:.2} s, {accuracy:.2}%",
        launch.said.rounds()
    ));
    assert!(
        accuracy > 97.5 || kills < 100 && accuracy > 85.0,
        "{accuracy}"
    );
    let _ = fs::remove_file(&log);
}
