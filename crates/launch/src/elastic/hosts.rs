//! Hosts of an elastic job: the slots of each, and those that are left out for a while after a failure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::script::Script;
use crate::error::Result;

/// Minimum time between two attempts to reach a host.
const MIN_RETRY: Duration = Duration::from_secs(1);

/// Failures of a host: after each, it starts no worker for a while, twice as long each time.
#[derive(Default)]
struct Failures {
    count: u32,
    until: Option<Instant>,
    /// Reason why the host cannot be used, until it can.
    reason: Option<String>,
}

impl Failures {
    fn rests(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until > now)
    }
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
    /// Hosts that stay, and their slots.
    pub(super) fn fixed(slots: BTreeMap<String, usize>, cooldown: [Duration; 2]) -> Hosts {
        Hosts {
            slots,
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
            script: Some(script),
            ..Hosts::fixed(slots, cooldown)
        })
    }

    /// Hosts that have slots.
    pub(super) fn named(&self) -> impl Iterator<Item = &str> {
        let all = self.slots.iter().filter(|(_, slots)| **slots > 0);
        all.map(|(host, _)| &**host)
    }

    /// Number of slots of all hosts.
    pub(super) fn all_slots(&self) -> usize {
        self.slots.values().sum()
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
        let rests = move |host: &str| self.failures.get(host).is_some_and(|f| f.rests(now));
        let all = self.slots.iter().map(|(host, slots)| (&**host, *slots));
        let named = self.empty_since.is_none();
        all.filter(move |&(host, slots)| named && slots > 0 && !rests(host))
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
        failures.count = failures.count.saturating_add(1);
        failures.until = Some(Instant::now() + rest);
        rest
    }

    /// Counts the failure of a host itself. Returns the time until it is tried again.
    pub(super) fn lost(&mut self, host: &str, reason: &str) -> Duration {
        let rest = self.failed(host).max(MIN_RETRY);
        if let Some(failures) = self.failures.get_mut(host) {
            failures.until = Some(Instant::now() + rest);
            failures.reason = Some(reason.to_owned());
        }
        rest
    }

    /// Notes that a host can be used. Returns `true` if it could not be used before.
    pub(super) fn joined(&mut self, host: &str) -> bool {
        let failures = self.failures.get_mut(host);
        failures.and_then(|f| f.reason.take()).is_some()
    }

    /// Named hosts that cannot be used, each with the reason.
    pub(super) fn unusable(&self) -> Vec<String> {
        let reason = |host: &str| {
            let reason = self.failures.get(host)?.reason.as_ref()?;
            Some(format!("the host '{host}': {reason}"))
        };
        self.named().filter_map(reason).collect()
    }

    /// Forgets the failures of hosts that are named no more, once their time is over.
    fn forget_failures(&mut self) {
        let now = Instant::now();
        let slots = &self.slots;
        self.failures
            .retain(|host, failures| slots.contains_key(host) || failures.rests(now));
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
                self.forget_failures();
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

    /// This host, with two slots.
    fn two_slots(cooldown: [Duration; 2]) -> Hosts {
        Hosts::fixed(BTreeMap::from([("localhost".to_owned(), 2)]), cooldown)
    }

    #[test]
    fn the_cooldown_of_a_host_doubles_up_to_a_limit() {
        let hour = Duration::from_secs(3600);
        let mut hosts = two_slots([hour, 3 * hour]);
        assert_eq!(hosts.usable().count(), 1);
        let rests: Vec<Duration> = (0..4).map(|_| hosts.failed("localhost")).collect();
        assert!(rests[1] >= 2 * hour && rests[3] <= 4 * hour, "{rests:?}");
        assert_eq!(hosts.usable().count(), 0);
    }

    #[test]
    fn a_host_is_usable_after_its_cooldown() {
        let mut hosts = two_slots([Duration::ZERO; 2]);
        hosts.failed("localhost");
        assert_eq!(hosts.usable().count(), 1);
    }

    #[test]
    fn a_host_that_is_lost_is_named_with_the_reason_until_it_has_joined() {
        let mut hosts = two_slots([Duration::ZERO; 2]);
        hosts.lost("localhost", "no route");
        assert_eq!(hosts.unusable(), ["the host 'localhost': no route"]);
        // A host that is not reached is not tried without a pause.
        assert_eq!(hosts.usable().count(), 0);
        assert!(hosts.joined("localhost"));
        assert!(!hosts.joined("localhost"));
        assert_eq!(hosts.unusable(), [""; 0]);
        // The cooldown of the next failure is longer all the same.
        assert_eq!(hosts.failures["localhost"].count, 1);
    }

    #[test]
    fn failures_of_hosts_that_are_gone_are_forgotten_after_their_cooldown() {
        for (cooldown, kept) in [(Duration::ZERO, 0), (Duration::from_secs(3600), 1)] {
            let mut hosts = two_slots([cooldown; 2]);
            hosts.failed("localhost");
            hosts.slots.clear();
            hosts.forget_failures();
            assert_eq!(hosts.failures.len(), kept);
        }
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
