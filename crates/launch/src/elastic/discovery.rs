//! Host discovery of an elastic job: the slots of each host, and hosts that are left out for a while after a failure.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg_launch_env::host::is_local;

use crate::error::Result;
use crate::process;

/// Interval between two runs of the script.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(1);
/// Time that the script may take.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the script's output, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Maximum number of slots of a host.
const MAX_SLOTS: usize = 4096;

/// Failures of a host: after each, it starts no worker for a while, twice as long each time.
#[derive(Default)]
struct Failures {
    count: u32,
    until: Option<Instant>,
}

/// Hosts of an elastic job and their slots.
pub(super) struct Hosts {
    slots: BTreeMap<String, usize>,
    failures: BTreeMap<String, Failures>,
    cooldown: [Duration; 2],
    script: Option<Script>,
}

struct Script {
    command: String,
    running: Option<(Child, Instant)>,
    last: Instant,
    /// Last error, so that it is reported once.
    error: Option<String>,
}

impl Hosts {
    /// This host alone, with so many slots.
    pub(super) fn local(slots: usize, cooldown: [Duration; 2]) -> Hosts {
        Hosts {
            slots: BTreeMap::from([("localhost".to_owned(), slots)]),
            failures: BTreeMap::new(),
            cooldown,
            script: None,
        }
    }

    /// Hosts that a script prints.
    ///
    /// # Errors
    /// The first run of the script fails.
    pub(super) fn of_script(command: &str, cooldown: [Duration; 2]) -> Result<Hosts> {
        let mut script = Script {
            command: command.to_owned(),
            running: None,
            last: Instant::now(),
            error: None,
        };
        script.begin()?;
        let slots = loop {
            if let Some(slots) = script.poll() {
                break slots?;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Ok(Hosts {
            slots,
            failures: BTreeMap::new(),
            cooldown,
            script: Some(script),
        })
    }

    /// Number of workers that a host may have.
    pub(super) fn slots(&self, host: &str) -> usize {
        self.slots.get(host).copied().unwrap_or(0)
    }

    /// Hosts on which workers may be started now, with their slots.
    pub(super) fn usable(&self) -> impl Iterator<Item = (&str, usize)> {
        let now = Instant::now();
        let cools_down = move |host: &str| {
            let failures = self.failures.get(host);
            failures.is_some_and(|f| f.until.is_some_and(|until| until > now))
        };
        let all = self.slots.iter().map(|(host, slots)| (&**host, *slots));
        all.filter(move |(host, _)| !cools_down(host))
    }

    /// Counts a failed worker of a host. Returns the time for which the host starts no other one.
    pub(super) fn failed(&mut self, host: &str) -> Duration {
        let failures = self.failures.entry(host.to_owned()).or_default();
        let [min, max] = self.cooldown;
        let doubled = min.saturating_mul(1 << failures.count.min(16)).min(max);
        // Jitter: hosts that have failed together do not all come back together.
        let mut byte = [0];
        let _ = getrandom::fill(&mut byte);
        let rest = doubled.mul_f64(1.0 + 0.25 * f64::from(byte[0]) / 255.0);
        failures.count += 1;
        failures.until = Some(Instant::now() + rest);
        rest
    }

    /// Polls the script for changed hosts. Returns a line for the user.
    pub(super) fn poll(&mut self) -> Option<String> {
        let script = self.script.as_mut()?;
        if script.running.is_none() {
            if script.last.elapsed() < DISCOVERY_INTERVAL {
                return None;
            }
            if let Err(e) = script.begin() {
                return script.report(e.to_string());
            }
        }
        match script.poll()? {
            Ok(slots) => {
                script.error = None;
                let changed = slots != self.slots;
                self.slots = slots;
                let all: Vec<String> = self.slots.iter().map(|(h, s)| format!("{h}:{s}")).collect();
                changed.then(|| format!("hosts: {}", all.join(", ")))
            }
            Err(e) => script.report(e.to_string()),
        }
    }
}

impl Script {
    fn begin(&mut self) -> Result<()> {
        let mut command = Command::new(&self.command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        process::isolate(&mut command);
        let child = command
            .spawn()
            .map_err(|e| format!("the host discovery script '{}': {e}", self.command))?;
        self.running = Some((child, Instant::now()));
        Ok(())
    }

    /// Returns the hosts that the script has printed, once it has ended. Kills the script after a timeout.
    fn poll(&mut self) -> Option<Result<BTreeMap<String, usize>>> {
        let (mut child, since) = self.running.take()?;
        let name = &self.command;
        let result = match process::try_wait(&mut child) {
            Ok(None) if since.elapsed() < SCRIPT_TIMEOUT => {
                self.running = Some((child, since));
                return None;
            }
            Ok(None) => {
                process::kill(&mut child);
                let _ = child.wait();
                Err(format!(
                    "the host discovery script '{name}' took longer than {SCRIPT_TIMEOUT:?}"
                )
                .into())
            }
            Ok(Some(status)) if status.success() => {
                let mut text = String::new();
                let output = child.stdout.take();
                let read = output.map(|o| o.take(MAX_OUTPUT).read_to_string(&mut text));
                match read {
                    Some(Err(e)) => Err(e.into()),
                    _ => parse_hosts(&text)
                        .map_err(|e| format!("the host discovery script '{name}': {e}").into()),
                }
            }
            Ok(Some(status)) => {
                Err(format!("the host discovery script '{name}' ended with {status}").into())
            }
            Err(e) => Err(e.into()),
        };
        self.last = Instant::now();
        Some(result)
    }

    /// Returns a line about an error, unless it is the same as the last one.
    fn report(&mut self, error: String) -> Option<String> {
        self.last = Instant::now();
        let repeated = self.error.as_ref() == Some(&error);
        self.error = Some(error.clone());
        (!repeated).then(|| format!("{error}: the hosts stay as they were"))
    }
}

/// Parses lines of `host:slots`; `host` alone has one slot.
fn parse_hosts(text: &str) -> Result<BTreeMap<String, usize>> {
    let mut all = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (host, slots) = line.rsplit_once(':').unwrap_or((line, "1"));
        let slots = slots.parse().ok().filter(|&s: &usize| s <= MAX_SLOTS);
        let slots = slots.ok_or_else(|| format!("'{line}' is not host:slots"))?;
        if !is_local(host) {
            return Err(format!(
                "'{host}' is another host: workers are started on this one, named localhost, 127.* or as it calls itself, alone"
            )
            .into());
        }
        all.insert(host.to_owned(), slots);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cooldown_of_a_host_doubles_up_to_a_limit() {
        let hour = Duration::from_secs(3600);
        let mut hosts = Hosts::local(2, [hour, 3 * hour]);
        assert_eq!(hosts.usable().count(), 1);
        let rests: Vec<Duration> = (0..4).map(|_| hosts.failed("localhost")).collect();
        assert!(rests[1] >= 2 * hour && rests[3] <= 4 * hour, "{rests:?}");
        assert_eq!(hosts.usable().count(), 0);
    }

    #[test]
    fn a_host_is_usable_after_its_cooldown() {
        let mut hosts = Hosts::local(2, [Duration::ZERO; 2]);
        hosts.failed("localhost");
        assert_eq!(hosts.usable().count(), 1);
    }

    #[test]
    fn malformed_lines_and_remote_hosts_are_refused() {
        let hosts = parse_hosts("localhost:2\n\n127.0.0.2\n").unwrap();
        assert_eq!(
            hosts,
            BTreeMap::from([("localhost".to_owned(), 2), ("127.0.0.2".to_owned(), 1)])
        );
        for (text, why) in [
            ("localhost:x", "is not host:slots"),
            ("node7:2", "another host"),
        ] {
            let error = parse_hosts(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
