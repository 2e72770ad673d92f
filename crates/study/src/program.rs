//! Runs of the studied program.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::outcome::{Outcome, Speed};
use crate::point::{Data, Point};

/// Interval at which a run is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum size of the output of a run that is read, in bytes.
const MAX_OUTPUT: u64 = 16 << 20;
/// Lines of a failed run that are its reason.
const SHOWN_LINES: usize = 3;

/// The studied program: `cnn_benchmarks`, or one that takes its flags and prints `total_images_per_sec` as it does.
#[derive(Clone, Debug)]
pub struct StudyProgram {
    /// The program `thalweg`, which launches jobs.
    pub thalweg: PathBuf,
    /// Front of `thalweg launch` and its flags: `local`, `--free-ports`.
    pub launch: Vec<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Steps that are not measured.
    pub warmup: u32,
    /// Steps that are measured.
    pub steps: u32,
    /// Folder of the files of [`Data::Real`].
    pub data_dir: Option<PathBuf>,
    /// Folder of the traces of a step; none are made without it.
    pub traces: Option<PathBuf>,
    /// Time after which a run has failed.
    pub timeout: Duration,
}

impl StudyProgram {
    /// Program and arguments of a run: the program itself if it trains alone, and otherwise the launcher.
    pub fn words(&self, point: &Point) -> Vec<String> {
        let mut words = Vec::new();
        if !point.is_alone() {
            words = self.launched(point.tasks, point.servers);
        }
        words.extend(self.command.iter().cloned());
        words.push(format!("--variable_update={}", point.mode));
        words.push(format!("--batch_size={}", point.batch));
        words.push(format!("--num_warmup_batches={}", self.warmup));
        words.push(format!("--num_batches={}", self.steps));
        words.push("--json".to_owned());
        if let (Data::Real, Some(folder)) = (point.data, &self.data_dir) {
            words.push(format!("--data_dir={}", folder.display()));
        }
        if let Some(path) = self.trace_file(point) {
            words.push(format!("--trace_file={}", path.display()));
        }
        words
    }

    /// Start of a command that launches ranks, or workers with servers: the program follows.
    fn launched(&self, tasks: u32, servers: u32) -> Vec<String> {
        let mut words = vec![
            self.thalweg.to_string_lossy().into_owned(),
            "launch".to_owned(),
        ];
        words.extend(self.launch.iter().cloned());
        let (tasks, servers_text) = (tasks.to_string(), servers.to_string());
        let shape: &[&str] = match servers {
            0 => &["--np", &tasks],
            _ => &["--ps", &servers_text, "--workers", &tasks],
        };
        words.extend(shape.iter().map(|word| (*word).to_owned()));
        words.push("--".to_owned());
        words
    }

    /// Runs a command of `thalweg` on two ranks; its output goes to `log`, and is the result.
    ///
    /// # Errors
    /// A text that says why it has failed.
    pub fn run_thalweg(&self, command: &[&str], log: &Path) -> Result<String, String> {
        let mut words = self.launched(2, 0);
        words.push(self.thalweg.to_string_lossy().into_owned());
        words.extend(command.iter().map(|word| (*word).to_owned()));
        self.output(&words, log)
    }

    /// File with the trace of a step of a point's last run. Each run writes it anew.
    pub fn trace_file(&self, point: &Point) -> Option<PathBuf> {
        let folder = self.traces.as_ref()?;
        Some(folder.join(format!("{}.json", point.file_stem())))
    }

    /// Runs the program at a point; its output goes to `log`. A run that fails has its reason in the outcome.
    pub fn run(&self, point: &Point, log: &Path) -> Outcome {
        match self.measured(point, log) {
            Ok(speed) => Outcome::Speed(speed),
            Err(error) => Outcome::Error { error },
        }
    }

    fn measured(&self, point: &Point, log: &Path) -> Result<Speed, String> {
        let text = self.output(&self.words(point), log)?;
        Speed::of_output(&text).ok_or_else(|| {
            "it printed neither total_images_per_sec nor the line `total images/sec: N`".to_owned()
        })
    }

    /// Output of a command that ends well, which goes to `log` too.
    fn output(&self, words: &[String], log: &Path) -> Result<String, String> {
        let file = |e| format!("{}: {e}", log.display());
        let output = File::create(log).map_err(file)?;
        let errors = output.try_clone().map_err(file)?;
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        let child = child.map_err(|e| format!("'{}' cannot be started: {e}", words[0]))?;
        let status = self.wait(child)?;
        let text = text_of(log).map_err(file)?;
        if !status.success() {
            return Err(format!("{status}: {}", last_lines(&text)));
        }
        Ok(text)
    }

    /// Waits for the end of a run. A launcher that is killed takes its tasks along.
    fn wait(&self, mut child: Child) -> Result<ExitStatus, String> {
        let began = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if began.elapsed() < self.timeout => std::thread::sleep(POLL_INTERVAL),
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("it did not end within {:?}", self.timeout));
                }
                Err(e) => return Err(e.to_string()),
            }
        }
    }
}

/// The first bytes of a file, as text.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(command: &[&str]) -> StudyProgram {
        StudyProgram {
            thalweg: "thalweg".into(),
            launch: ["local", "--free-ports"].map(str::to_owned).to_vec(),
            command: command.iter().map(|w| (*w).to_owned()).collect(),
            warmup: 10,
            steps: 100,
            data_dir: Some("records".into()),
            traces: None,
            timeout: Duration::from_secs(60),
        }
    }

    fn point(mode: &str, tasks: u32, servers: u32, data: Data) -> Point {
        Point {
            mode: mode.to_owned(),
            data,
            batch: 32,
            tasks,
            servers,
        }
    }

    #[test]
    fn a_point_is_a_command_of_the_launcher_or_of_the_program() {
        let words = |point| {
            program(&["bench", "--model=resnet20"])
                .words(&point)
                .join(" ")
        };
        let steps = "--batch_size=32 --num_warmup_batches=10 --num_batches=100 --json";
        assert_eq!(
            words(point("independent", 1, 0, Data::Synthetic)),
            format!("bench --model=resnet20 --variable_update=independent {steps}")
        );
        assert_eq!(
            words(point("horovod", 4, 0, Data::Real)),
            format!(
                "thalweg launch local --free-ports --np 4 -- bench --model=resnet20 --variable_update=horovod {steps} \
                 --data_dir=records"
            )
        );
        let servers = words(point("parameter_server", 2, 1, Data::Synthetic));
        let traced = StudyProgram {
            traces: Some("traces".into()),
            ..program(&["bench"])
        };
        let traced = traced.words(&point("horovod", 2, 0, Data::Synthetic));
        let file = "--trace_file=traces/horovod-2-tasks-0-servers-batch-32-synthetic.json";
        assert_eq!(traced.last().unwrap(), file);
        assert!(
            servers.contains(" --ps 1 --workers 2 -- bench "),
            "{servers}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_failed_run_has_its_reason() {
        let folder = std::env::temp_dir().join(format!("thalweg-study-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let alone = point("independent", 1, 0, Data::Synthetic);
        let run = |command: &[&str], timeout| {
            let program = StudyProgram {
                timeout,
                ..program(command)
            };
            program.run(&alone, &folder.join("log"))
        };
        let minute = Duration::from_secs(60);
        let error = |outcome| match outcome {
            Outcome::Error { error } => error,
            Outcome::Speed(speed) => panic!("{speed:?}"),
        };
        let failed = error(run(&["sh", "-c", "echo no memory >&2; exit 3"], minute));
        assert_eq!(failed, "exit status: 3: no memory");
        assert!(error(run(&["true"], minute)).contains("neither total_images_per_sec"));
        assert!(error(run(&["no_such_program"], minute)).contains("cannot be started"));
        let late = error(run(
            &["sh", "-c", "exec sleep 100"],
            Duration::from_millis(50),
        ));
        assert!(late.contains("did not end within"), "{late}");
        let prints = r#"echo '{"total_images_per_sec":5.5}'"#;
        let speed = run(&["sh", "-c", prints], minute);
        assert!(matches!(speed, Outcome::Speed(s) if s.images_per_second == 5.5));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
