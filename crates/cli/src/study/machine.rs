//! Description of the machine of a study.

use std::fs;

use serde_json::{Value, json};

/// Machine of a study.
pub(super) struct Machine {
    /// Name of the processor, if the system tells.
    processor: Option<String>,
    /// Number of threads that run at once.
    cores: usize,
}

impl Machine {
    /// This machine.
    pub(super) fn here() -> Machine {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = text.lines().find_map(|l| l.strip_prefix("model name"));
        let name = name.and_then(|l| l.split_once(':'));
        Machine {
            processor: name.map(|(_, name)| name.trim().to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({ "processor": self.processor, "cores": self.cores, "system": std::env::consts::OS })
    }
}

/// Mean number of processes that wanted to run in the last minute, if the system tells.
pub(super) fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
