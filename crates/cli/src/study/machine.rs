//! Description of the machine of a study.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use thalweg_study::{RunRecord, StudyProgram, printed_objects};

/// Machine of a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Machine {
    /// Name of the processor, if the system tells.
    pub(super) processor: Option<String>,
    /// Number of threads that run at once.
    pub(super) cores: Option<u64>,
    /// Name of the operating system.
    pub(super) system: Option<String>,
    /// Link between tasks, if it was measured.
    pub(super) link: Option<Link>,
}

/// Link between two tasks, over TCP.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// `hosts`, or `tasks of one host`.
    pub(super) between: String,
    /// Seconds of a short message.
    pub(super) latency: f64,
    /// Bytes per second, in both directions at once.
    pub(super) bandwidth: f64,
}

impl Machine {
    /// This machine.
    pub(super) fn here() -> Machine {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = text.lines().find_map(|l| l.strip_prefix("model name"));
        let name = name.and_then(|l| l.split_once(':'));
        let cores = std::thread::available_parallelism().ok();
        Machine {
            processor: name.map(|(_, name)| name.trim().to_owned()),
            cores: cores.map(|n| n.get() as u64),
            system: Some(std::env::consts::OS.to_owned()),
            link: None,
        }
    }

    pub(super) fn json(&self) -> Value {
        let link = self.link.as_ref().map(|link| {
            json!({
                "between": link.between, "latency_seconds": link.latency, "bytes_per_second": link.bandwidth,
            })
        });
        json!({
            "processor": self.processor, "cores": self.cores, "system": self.system, "link": link,
        })
    }

    /// The machine of a file of results, as far as it tells.
    pub(super) fn of_json(value: &Value) -> Machine {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let link = &value["link"];
        let link = || {
            Some(Link {
                between: text(&link["between"])?,
                latency: link["latency_seconds"].as_f64()?,
                bandwidth: link["bytes_per_second"].as_f64()?,
            })
        };
        Machine {
            processor: text(&value["processor"]),
            cores: value["cores"].as_u64(),
            system: text(&value["system"]),
            link: link(),
        }
    }
}

impl Link {
    /// Measures the link between the first two tasks that the study's launcher starts, by `thalweg bench allreduce`.
    ///
    /// # Errors
    /// A text that says why it has failed.
    pub(super) fn measure(program: &StudyProgram, log: &Path) -> Result<Link, String> {
        let words = [
            "bench",
            "allreduce",
            "--engine=tcp",
            "--from=4",
            "--to=4",
            "--json",
        ];
        let text = program.run_thalweg(&words, log)?;
        let objects = printed_objects(&text);
        let found = objects.iter().find_map(|object| {
            let link = &object["link"];
            Some(Link {
                between: link["between"].as_str()?.to_owned(),
                latency: link["message_seconds"].as_f64()?,
                bandwidth: 1.0 / link["byte_seconds"].as_f64().filter(|s| *s > 0.0)?,
            })
        });
        found.ok_or_else(|| "`bench allreduce` has told of no link".to_owned())
    }
}

/// Mean number of processes that wanted to run in the last minute, if the system tells.
pub(super) fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Least and greatest load before a run.
pub(super) fn loads(records: &[RunRecord]) -> Option<[f64; 2]> {
    let all = records.iter().filter_map(|record| record.load);
    all.fold(None, |ends, load| match ends {
        None => Some([load, load]),
        Some([least, most]) => Some([load.min(least), load.max(most)]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_as_it_was_written() {
        let machine = Machine {
            link: Some(Link {
                between: "hosts".to_owned(),
                latency: 2e-5,
                bandwidth: 1e9,
            }),
            ..Machine::here()
        };
        assert_eq!(Machine::of_json(&machine.json()), machine);
        assert_eq!(Machine::of_json(&json!("none")), Machine::default());
    }
}
