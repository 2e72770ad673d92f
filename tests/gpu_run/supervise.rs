//! The supervisor of a run: order and time limits of units, restarts of workers that die or hang.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use thalweg_examples::report::table;
use thalweg_tests::root;

use crate::RunFlags;
use crate::bench::Scale;
use crate::results::ResultsFile;
use crate::shares::unit_limit;
use crate::units::{Part, requested};

type RunResult<T> = Result<T, Box<dyn Error>>;

/// Begins the reason of a unit that was stopped at its limit.
const STOPPED: &str = "it was stopped after";

/// Units in a row that may hang before the run ends: the card does not answer.
const MAX_HANGS: usize = 3;

/// A process that runs units.
struct UnitProcess {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// `true` once it has run a unit that uses PyTorch.
    has_peer: bool,
}

impl UnitProcess {
    fn start(flags: &RunFlags) -> RunResult<UnitProcess> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(flags.out.join("workers.log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        if flags.scale() == Scale::Small {
            command.arg("--small");
        }
        let cubins = root().join("cubins");
        if cubins.is_dir() && std::env::var_os("THALWEG_CUBINS").is_none() {
            command.env("THALWEG_CUBINS", cubins);
        }
        let mut process = command
            .arg("serve")
            .env("REQUIRE_GPU", "1")
            // Its children end with it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or("a worker has pipes")?;
        let (send, lines) = channel();
        // It ends with the worker.
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            lines
                .map_while(Result::ok)
                .try_for_each(|line| send.send(line))
        });
        Ok(UnitProcess {
            process,
            input,
            lines,
            has_peer: false,
        })
    }

    /// Runs a unit and returns its line; an error is the reason why there is none.
    fn run(&mut self, unit: &str, limit: Duration) -> Result<Value, String> {
        if writeln!(self.input, "{unit}").is_err() {
            return Err(self.describe_end());
        }
        let deadline = Instant::now() + limit;
        loop {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                // Other output is no line of this unit.
                Ok(line) => match serde_json::from_str::<Value>(&line) {
                    Ok(line) if line["unit"] == unit => return Ok(line),
                    _ => {}
                },
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("{STOPPED} {:.0} s", limit.as_secs_f64()));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.describe_end()),
            }
        }
    }

    /// Describes the end of a worker.
    fn describe_end(&mut self) -> String {
        match self.process.wait() {
            Ok(status) => format!("the process ended with {status}; see workers.log"),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for UnitProcess {
    fn drop(&mut self) {
        // It may have ended already. Tools and peers that it has started are of its group.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).output();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The commit of the results: the one that `gpu_folder.sh` wrote, or the checkout's.
fn commit() -> RunResult<String> {
    let noted: PathBuf = root().join("commit");
    if let Ok(noted) = fs::read_to_string(noted) {
        return Ok(noted.trim().to_owned());
    }
    let git = [
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude",
        "*",
    ];
    let told = Command::new("git").args(git).current_dir(root()).output()?;
    match told.status.success() {
        true => Ok(String::from_utf8(told.stdout)?.trim().to_owned()),
        false => Err("there is no file `commit`, and no git checkout".into()),
    }
}

/// A run in progress.
struct Run<'f> {
    flags: &'f RunFlags,
    began: Instant,
    results: ResultsFile,
    /// Units in a row that were stopped at their limit.
    hangs: usize,
    worker: Option<UnitProcess>,
}

impl Run<'_> {
    fn remaining(&self) -> Duration {
        Duration::from_secs(self.flags.seconds).saturating_sub(self.began.elapsed())
    }

    /// Runs the units of a part that have no line, until its time is over or the run ends.
    fn part(
        &mut self,
        (part, units): &(Part, Vec<String>),
        most: Duration,
        bar: &ProgressBar,
    ) -> RunResult<()> {
        let (began, finished) = (Instant::now(), self.results.finished());
        for unit in units.iter().filter(|unit| !finished.contains(*unit)) {
            let is_over = self.remaining() < Duration::from_secs(1) || began.elapsed() >= most;
            if is_over || self.hangs >= MAX_HANGS {
                break;
            }
            bar.set_position(self.results.finished().len() as u64);
            bar.set_message(unit.clone());
            self.unit(unit, *part)?;
        }
        Ok(())
    }

    /// Runs a unit, and keeps its line.
    fn unit(&mut self, unit: &str, part: Part) -> RunResult<()> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => UnitProcess::start(self.flags)?,
        };
        let first = part.has_peer() && !worker.has_peer;
        worker.has_peer |= part.has_peer();
        let is_emulated = self.flags.scale() == Scale::Small;
        let most = unit_limit(part.limit(), first, self.flags.limit, is_emulated);
        let (began, limit) = (Instant::now(), most.min(self.remaining()));
        match worker.run(unit, limit) {
            Ok(line) => {
                self.hangs = 0;
                // A card may be in any state after an error of CUDA: the next worker opens it anew.
                let why = line["found"]["why"].as_str().unwrap_or_default();
                let of_card = line["result"] == "failed" && why.contains("the driver could not");
                self.worker = Some(worker).filter(|_| !of_card);
                self.results.add(line)
            }
            // The run has ended, and not the unit.
            Err(_) if limit < most && began.elapsed() >= limit => Ok(()),
            Err(why) => {
                self.hangs = match why.starts_with(STOPPED) {
                    true => self.hangs + 1,
                    false => 0,
                };
                self.results.add(json!({
                    "unit": unit, "result": "failed", "seconds": began.elapsed().as_secs_f64(),
                    "found": {"why": why},
                }))
            }
        }
    }
}

/// Runs the units that have no line yet; returns `true` if none has failed.
pub fn run(flags: &RunFlags) -> RunResult<bool> {
    let began = Instant::now();
    fs::create_dir_all(&flags.out)?;
    let commit = commit()?;
    let results = ResultsFile::open(&flags.out.join("results.jsonl"), &commit)?;
    let mut run = Run {
        flags,
        began,
        results,
        hangs: 0,
        worker: None,
    };
    let units = requested(flags);
    let count: usize = units.iter().map(|(_, names)| names.len()).sum();
    let bar = ProgressBar::new(count as u64);
    let style = "{bar:8.cyan/dim} {pos}/{len}  {elapsed}  {wide_msg}";
    bar.set_style(ProgressStyle::with_template(style)?);
    for of_part in &units {
        run.part(of_part, of_part.0.share(flags.seconds), &bar)?;
    }
    // The remaining units of the parts whose time was over.
    for of_part in &units {
        run.part(of_part, Duration::MAX, &bar)?;
    }
    bar.finish_and_clear();
    report(flags, &run.results, &commit, &units)
}

/// Writes the results as Markdown and prints them; returns `true` if nothing has failed.
fn report(
    flags: &RunFlags,
    results: &ResultsFile,
    commit: &str,
    units: &[(Part, Vec<String>)],
) -> RunResult<bool> {
    let count = |part: Part, result: &str| {
        let prefix = format!("{}/", part.name());
        let of = |l: &&Value| {
            l["unit"].as_str().is_some_and(|u| u.starts_with(&prefix)) && l["result"] == result
        };
        results.lines.iter().filter(of).count()
    };
    let finished = results.finished();
    let row = |(part, names): &(Part, Vec<String>)| {
        let left = names.iter().filter(|u| !finished.contains(*u)).count();
        let counts = ["passed", "fell back", "failed", "skipped"].map(|r| count(*part, r));
        let [passed, fell_back, failed, skipped] = counts.map(|n| n.to_string());
        [
            part.name().to_owned(),
            passed,
            fell_back,
            failed,
            skipped,
            left.to_string(),
        ]
    };
    let head = [
        "part",
        "passed",
        "fell back",
        "failed",
        "skipped",
        "not run",
    ];
    let rows: Vec<[String; 6]> = units.iter().map(row).collect();
    let mut text = format!("# On a GPU, commit {commit}\n\n| {} |\n", head.join(" | "));
    text += "| --- | ---: | ---: | ---: | ---: | ---: |\n";
    rows.iter()
        .for_each(|row| text += &format!("| {} |\n", row.join(" | ")));
    let failed: Vec<&Value> = results
        .lines
        .iter()
        .filter(|l| l["result"] == "failed")
        .collect();
    for line in &failed {
        let why = line["found"]["why"].as_str().unwrap_or_default();
        text += &format!(
            "\n`{}` failed: {why}\n",
            line["unit"].as_str().unwrap_or_default()
        );
    }
    fs::write(flags.out.join("results.md"), &text)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", table(head, rows))?;
    for line in &failed {
        writeln!(out, "{}: {}", line["unit"], line["found"]["why"])?;
    }
    Ok(failed.is_empty())
}
