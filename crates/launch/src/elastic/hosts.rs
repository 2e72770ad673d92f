//! Hosts of an elastic job: the slots of each, and those that are left out for a while after a failure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::script::Script;
use crate::error::Result;

/// Failures of a host: after each, it starts no worker for a while, twice as long each time.
#[derive(Default)]
struct Failures {
    count: u32,
    until: Option<Instant>,
}

/// Hosts of an elastic job and their slots.
pub(super) struct Hosts {
    slots: BTreeMap<String, usize>,
    /// Since when the script names no slot. The slots are those of the answer before it: workers go on meanwhile.
    empty_since: Option<Instant>,
    failures: BTreeMap<String, Failures>,
    cooldown: [Duration; 2],
    script: Option<Script>,
}

impl Hosts {
    /// This host alone, with so many slots.
    pub(super) fn local(slots: usize, cooldown: [Duration; 2]) -> Hosts {
        Hosts {
            slots: BTreeMap::from([("localhost".to_owned(), slots)]),
            empty_since: None,
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
        let mut script = Script::new(command);
        script.begin()?;
        let slots = loop {
            if let Some(slots) = script.poll() {
                break slots?;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Ok(Hosts {
            empty_since: has_no_slot(&slots).then(Instant::now),
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

    /// The script, and the time for which it has named no slot; `None` if it names some.
    pub(super) fn empty_for(&self) -> Option<(&str, Duration)> {
        let script = self.script.as_ref()?;
        Some((script.command(), self.empty_since?.elapsed()))
    }

    /// Hosts on which workers may be started now, with their slots. There are none while the script names none.
    pub(super) fn usable(&self) -> impl Iterator<Item = (&str, usize)> {
        let now = Instant::now();
        let cools_down = move |host: &str| {
            let failures = self.failures.get(host);
            failures.is_some_and(|f| f.until.is_some_and(|until| until > now))
        };
        let all = self.slots.iter().map(|(host, slots)| (&**host, *slots));
        let named = self.empty_since.is_none();
        all.filter(move |(host, _)| named && !cools_down(host))
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
        if !script.runs() {
            if !script.is_due() {
                return None;
            }
            if let Err(e) = script.begin() {
                return script.report(e.to_string());
            }
        }
        match script.poll()? {
            Ok(slots) => {
                script.forget_error();
                if has_no_slot(&slots) {
                    let known = self
                        .empty_since
                        .replace(self.empty_since.unwrap_or_else(Instant::now));
                    let line = "hosts: the host discovery script names none now: workers go on, and no others are started";
                    return known.is_none().then(|| line.to_owned());
                }
                let was_empty = self.empty_since.take().is_some();
                let changed = was_empty || slots != self.slots;
                self.slots = slots;
                let all: Vec<String> = self.slots.iter().map(|(h, s)| format!("{h}:{s}")).collect();
                changed.then(|| format!("hosts: {}", all.join(", ")))
            }
            Err(e) => script.report(e.to_string()),
        }
    }
}

fn has_no_slot(slots: &BTreeMap<String, usize>) -> bool {
    slots.values().all(|&slots| slots == 0)
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use super::super::script::shell_script;
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

    #[cfg(unix)]
    #[test]
    fn an_answer_without_hosts_keeps_the_slots_and_starts_none() {
        let path = shell_script("empty", r#"cat "$0.hosts""#);
        let list = std::path::PathBuf::from(format!("{}.hosts", path.display()));
        let mut hosts = {
            std::fs::write(&list, "localhost:2").unwrap();
            Hosts::of_script(path.to_str().unwrap(), [Duration::ZERO; 2]).unwrap()
        };
        assert!(hosts.empty_for().is_none());
        let mut told = |text: &str| {
            std::fs::write(&list, text).unwrap();
            hosts.script.as_mut().unwrap().make_due();
            let line = loop {
                let line = hosts.poll();
                if !hosts.script.as_ref().unwrap().runs() {
                    break line;
                }
            };
            let usable = hosts.usable().count();
            (
                line,
                hosts.slots("localhost"),
                usable,
                hosts.empty_for().is_some(),
            )
        };
        for empty in ["", "localhost:0"] {
            let (line, slots, usable, is_empty) = told(empty);
            assert_eq!((slots, usable, is_empty), (2, 0, true));
            assert_eq!(line.is_some(), empty.is_empty(), "{line:?}");
        }
        let back = told("localhost:2");
        assert_eq!(back, (Some("hosts: localhost:2".to_owned()), 2, 1, false));
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(list).unwrap();
    }
}
