//! Numbers of one task: the samples of its metrics that `thalweg top` shows.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::error::PollError;
use super::limits::{MAX_LINE, MAX_PEERS};
use super::metrics::{Line, Sample, parse_line};

/// Numbers of a task at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskNumbers {
    /// `/job:ps/task:0`
    pub(super) name: Option<String>,
    pub(super) draining: bool,
    /// Steps of clients, and parts of other tasks' steps, that have succeeded so far.
    pub(super) steps: f64,
    pub(super) parts: f64,
    /// Loss of the newest training step, which may be NaN, and the global step before it.
    pub(super) loss: Option<f64>,
    pub(super) global_step: Option<f64>,
    /// Bytes in use on all devices.
    pub(super) memory: f64,
    /// Bytes that all devices may use, if one has a limit.
    pub(super) memory_limit: Option<f64>,
    /// Peers by name.
    pub(super) peers: BTreeMap<String, PeerNumbers>,
}

/// Numbers that a task has of one of its peers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PeerNumbers {
    /// Bytes sent to it and received from it over the network so far.
    pub(super) sent: f64,
    pub(super) received: f64,
    /// Bytes received from it through shared memory so far.
    pub(super) shared: f64,
    /// Seconds since something last came from it.
    pub(super) silent: Option<f64>,
    /// Receives that wait for it.
    pub(super) waiting: f64,
}

impl TaskNumbers {
    /// Reads the text of an endpoint, one line at a time.
    ///
    /// # Errors
    /// The text cannot be read, is no OpenMetrics text, is not that of a Thalweg server, or ends early.
    pub(super) fn read(text: &mut impl BufRead) -> Result<TaskNumbers, PollError> {
        let (mut numbers, mut known) = (TaskNumbers::default(), false);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let mut limited = std::io::Read::take(&mut *text, MAX_LINE);
            limited.read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Err(PollError::Truncated);
            }
            let malformed = |reason| PollError::Malformed { number, reason };
            if line.len() as u64 == MAX_LINE {
                return Err(malformed("it is too long"));
            }
            let line = str::from_utf8(&line).map_err(|_| malformed("it is not UTF-8"))?;
            match parse_line(line).map_err(malformed)? {
                Line::End => break,
                Line::Comment => {}
                Line::Sample(sample) if sample.name.starts_with("thalweg_") => {
                    known = true;
                    numbers.add(&sample).map_err(malformed)?;
                }
                Line::Sample(_) => {}
            }
        }
        match known {
            true => Ok(numbers),
            false => Err(PollError::OtherProgram),
        }
    }

    fn add(&mut self, sample: &Sample<'_>) -> Result<(), &'static str> {
        let value = sample.value;
        let target = match sample.name {
            "thalweg_draining" => {
                self.draining = value > 0.0;
                return Ok(());
            }
            "thalweg_loss" => {
                // A training that diverges has any number.
                self.loss = Some(value);
                return Ok(());
            }
            "thalweg_global_step" => self.global_step.get_or_insert(0.0),
            "thalweg_step_seconds_count" => &mut self.steps,
            "thalweg_part_seconds_count" => &mut self.parts,
            "thalweg_memory_bytes" => {
                if let Some(task) = sample.label("device").and_then(task_of) {
                    self.name.get_or_insert(task);
                }
                &mut self.memory
            }
            "thalweg_memory_limit_bytes" => self.memory_limit.get_or_insert(0.0),
            "thalweg_link_sent_bytes_total" => &mut self.peer(sample)?.sent,
            "thalweg_link_received_bytes_total" => &mut self.peer(sample)?.received,
            "thalweg_link_shared_bytes_total" => &mut self.peer(sample)?.shared,
            "thalweg_receives_waiting" => &mut self.peer(sample)?.waiting,
            "thalweg_peer_silent_seconds" => self.peer(sample)?.silent.get_or_insert(0.0),
            _ => return Ok(()),
        };
        if !value.is_finite() || value < 0.0 {
            return Err("its value is negative or not finite");
        }
        // Devices add up; every other sample comes once.
        *target += value;
        Ok(())
    }

    fn peer(&mut self, sample: &Sample<'_>) -> Result<&mut PeerNumbers, &'static str> {
        let name = sample.label("peer").ok_or("it has no label 'peer'")?;
        if !self.peers.contains_key(name) && self.peers.len() == MAX_PEERS {
            return Err("it names more peers than a task may have");
        }
        Ok(self.peers.entry(name.to_owned()).or_default())
    }
}

/// Returns the task of a device: `/job:ps/task:0` of `/job:ps/replica:0/task:0/device:CPU:0`.
fn task_of(device: &str) -> Option<String> {
    let part = |prefix| device.split('/').find(|part| part.starts_with(prefix));
    Some(format!("/{}/{}", part("job:")?, part("task:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TaskNumbers, PollError> {
        TaskNumbers::read(&mut text.as_bytes())
    }

    /// Text of a parameter server while two workers trained.
    const SERVER: &str = include_str!("ps.metrics.txt");

    #[test]
    fn the_text_of_a_server_has_the_numbers_of_its_task() {
        let numbers = read(SERVER).unwrap();
        let worker = |received, silent| PeerNumbers {
            sent: 0.0,
            received,
            shared: 2_473_392.0,
            silent: Some(silent),
            waiting: 1.0,
        };
        let peer = |name: &str, sent, peer| (name.to_owned(), PeerNumbers { sent, ..peer });
        let other = PeerNumbers {
            received: 4129.0,
            silent: Some(0.137177556),
            waiting: 2.0,
            ..PeerNumbers::default()
        };
        let expected = TaskNumbers {
            name: Some("/job:ps/task:0".to_owned()),
            draining: false,
            steps: 0.0,
            parts: 39.0,
            loss: None,
            global_step: None,
            memory: 1_928_152.0,
            memory_limit: Some(25_276_502_016.0),
            peers: [
                peer("/job:ps/task:1", 52_234.0, other),
                peer("/job:worker/task:0", 29_094.0, worker(44_986.0, 0.31464328)),
                peer(
                    "/job:worker/task:1",
                    29_643.0,
                    worker(48_171.0, 0.313857823),
                ),
            ]
            .into(),
        };
        assert_eq!(numbers, expected);
    }

    #[test]
    fn a_loss_may_be_any_number_and_a_step_is_finite() {
        let text = |loss| format!("thalweg_loss {loss}\nthalweg_global_step 7\n# EOF\n");
        for (loss, expected) in [("0.25", 0.25), ("-2.5", -2.5), ("inf", f64::INFINITY)] {
            let numbers = read(&text(loss)).unwrap();
            assert_eq!(
                (numbers.loss, numbers.global_step),
                (Some(expected), Some(7.0))
            );
        }
        assert!(read(&text("NaN")).unwrap().loss.unwrap().is_nan());
        let error = read("thalweg_global_step NaN\n").unwrap_err().to_string();
        assert!(error.contains("line 1: its value is negative"), "{error}");
    }

    #[test]
    fn devices_add_up() {
        let device = |kind, bytes| {
            format!(
                "thalweg_memory_bytes{{device=\"/job:a/replica:0/task:1/device:{kind}:0\"}} {bytes}\n"
            )
        };
        let numbers = read(&format!("{}{}# EOF\n", device("CPU", 1), device("GPU", 2))).unwrap();
        assert_eq!((numbers.memory, numbers.memory_limit), (3.0, None));
        assert_eq!(numbers.name.as_deref(), Some("/job:a/task:1"));
    }

    #[test]
    fn other_texts_are_errors() {
        let many: String = (0..=MAX_PEERS)
            .map(|i| format!("thalweg_link_sent_bytes_total{{peer=\"{i}\"}} 1\n"))
            .collect();
        for (text, message) in [
            ("", "ends before its end"),
            ("thalweg_sessions 0\n", "ends before its end"),
            ("go_threads 7\n# EOF\n", "no metrics of a Thalweg server"),
            ("<html>\n", "line 1: it does not begin with"),
            (
                "# x\nthalweg_sessions many\n",
                "line 2: its value is no number",
            ),
            (
                "thalweg_step_seconds_count NaN\n",
                "line 1: its value is negative or not finite",
            ),
            (
                "thalweg_part_seconds_count -1\n",
                "line 1: its value is negative",
            ),
            (
                "thalweg_memory_bytes +Inf\n",
                "line 1: its value is negative or",
            ),
            (
                "thalweg_link_shared_bytes_total 1\n",
                "line 1: it has no label 'peer'",
            ),
            (&many, "line 1025: it names more peers"),
            (&"x".repeat(1 << 17), "line 1: it is too long"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let binary = TaskNumbers::read(&mut &b"\xff\xfe\n"[..]).unwrap_err();
        assert!(binary.to_string().contains("not UTF-8"), "{binary}");
    }
}
