//! The hosts of an elastic job: how many workers each may have, and which have failed lately.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::launch::hosts::is_here;

/// How often hosts are looked for.
const POLL: Duration = Duration::from_secs(1);
/// How long the script may take.
const SCRIPT: Duration = Duration::from_secs(30);
/// The most bytes that a script may print.
const MOST_TEXT: u64 = 1 << 20;
/// The most workers of a host.
const MOST_SLOTS: usize = 4096;

/// A host whose worker has failed starts no other one for a while: twice as long each time.
#[derive(Default)]
struct Failures {
    count: u32,
    until: Option<Instant>,
}

/// Which hosts there are.
pub struct Hosts {
    slots: BTreeMap<String, usize>,
    failures: BTreeMap<String, Failures>,
    cooldown: [Duration; 2],
    script: Option<Script>,
}

struct Script {
    command: String,
    running: Option<(Child, Instant)>,
    last: Instant,
    /// What went wrong last, so that people are told once.
    wrong: Option<String>,
}

impl Hosts {
    /// This host alone, with so many workers.
    pub fn local(slots: usize, cooldown: [Duration; 2]) -> Hosts {
        Hosts {
            slots: BTreeMap::from([("localhost".to_owned(), slots)]),
            failures: BTreeMap::new(),
            cooldown,
            script: None,
        }
    }

    /// Those that a script names. The first time it must work.
    ///
    /// # Errors
    /// It does not.
    pub fn of_script(command: &str, cooldown: [Duration; 2]) -> Result<Hosts, Failure> {
        let mut script = Script {
            command: command.to_owned(),
            running: None,
            last: Instant::now(),
            wrong: None,
        };
        script.begin()?;
        let slots = loop {
            if let Some(slots) = script.ended() {
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

    /// How many workers this host may have.
    pub fn slots(&self, host: &str) -> usize {
        self.slots.get(host).copied().unwrap_or(0)
    }

    /// The hosts on which workers may be started now.
    pub fn usable(&self) -> impl Iterator<Item = (&str, usize)> {
        let now = Instant::now();
        let rests = move |host: &str| {
            let failures = self.failures.get(host);
            failures.is_some_and(|f| f.until.is_some_and(|until| until > now))
        };
        let all = self.slots.iter().map(|(host, slots)| (&**host, *slots));
        all.filter(move |(host, _)| !rests(host))
    }

    /// A worker of this host has failed. Gives for how long the host starts no other one.
    pub fn failed(&mut self, host: &str) -> Duration {
        let failures = self.failures.entry(host.to_owned()).or_default();
        let [least, most] = self.cooldown;
        let doubled = least.saturating_mul(1 << failures.count.min(16)).min(most);
        // Hosts that have failed together do not all come back together.
        let mut byte = [0];
        let _ = getrandom::fill(&mut byte);
        let rest = doubled.mul_f64(1.0 + 0.25 * f64::from(byte[0]) / 255.0);
        failures.count += 1;
        failures.until = Some(Instant::now() + rest);
        rest
    }

    /// Looks whether the script names other hosts. Gives what people should know.
    pub fn look(&mut self) -> Option<String> {
        let script = self.script.as_mut()?;
        if script.running.is_none() {
            if script.last.elapsed() < POLL {
                return None;
            }
            if let Err(e) = script.begin() {
                return script.tell(e.to_string());
            }
        }
        match script.ended()? {
            Ok(slots) => {
                script.wrong = None;
                let changed = slots != self.slots;
                self.slots = slots;
                let all: Vec<String> = self.slots.iter().map(|(h, s)| format!("{h}:{s}")).collect();
                changed.then(|| format!("hosts: {}", all.join(", ")))
            }
            Err(e) => script.tell(e.to_string()),
        }
    }
}

impl Script {
    fn begin(&mut self) -> Result<(), Failure> {
        let mut command = Command::new(&self.command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        super::super::process::prepare(&mut command);
        let child = command
            .spawn()
            .map_err(|e| format!("the host discovery script '{}': {e}", self.command))?;
        self.running = Some((child, Instant::now()));
        Ok(())
    }

    /// What it has printed, once it has ended; a script that does not end is killed.
    fn ended(&mut self) -> Option<Result<BTreeMap<String, usize>, Failure>> {
        use super::super::process;
        let (mut child, since) = self.running.take()?;
        let name = &self.command;
        let result = match process::ended(&mut child) {
            Ok(None) if since.elapsed() < SCRIPT => {
                self.running = Some((child, since));
                return None;
            }
            Ok(None) => {
                process::kill(&mut child);
                let _ = child.wait();
                Err(
                    format!("the host discovery script '{name}' took longer than {SCRIPT:?}")
                        .into(),
                )
            }
            Ok(Some(status)) if status.success() => {
                let mut text = String::new();
                let output = child.stdout.take();
                let read = output.map(|o| o.take(MOST_TEXT).read_to_string(&mut text));
                match read {
                    Some(Err(e)) => Err(e.into()),
                    _ => parsed(&text)
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

    /// Says it, unless it was said last.
    fn tell(&mut self, wrong: String) -> Option<String> {
        self.last = Instant::now();
        let told = self.wrong.as_ref() == Some(&wrong);
        self.wrong = Some(wrong.clone());
        (!told).then(|| format!("{wrong}: the hosts stay as they were"))
    }
}

/// Lines of `host:slots`; `host` alone has one slot.
fn parsed(text: &str) -> Result<BTreeMap<String, usize>, Failure> {
    let mut all = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (host, slots) = line.rsplit_once(':').unwrap_or((line, "1"));
        let slots = slots.parse().ok().filter(|&s: &usize| s <= MOST_SLOTS);
        let slots = slots.ok_or_else(|| format!("'{line}' is not host:slots"))?;
        if !is_here(host) {
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
    fn a_host_that_fails_again_rests_longer_up_to_a_limit() {
        let hour = Duration::from_secs(3600);
        let mut hosts = Hosts::local(2, [hour, 3 * hour]);
        assert_eq!(hosts.usable().count(), 1);
        let rests: Vec<Duration> = (0..4).map(|_| hosts.failed("localhost")).collect();
        assert!(rests[1] >= 2 * hour && rests[3] <= 4 * hour, "{rests:?}");
        assert_eq!(hosts.usable().count(), 0);
    }

    #[test]
    fn a_host_that_has_rested_starts_workers_again() {
        let mut hosts = Hosts::local(2, [Duration::ZERO; 2]);
        hosts.failed("localhost");
        assert_eq!(hosts.usable().count(), 1);
    }

    #[test]
    fn lines_that_name_no_hosts_of_this_machine_are_refused() {
        let hosts = parsed("localhost:2\n\n127.0.0.2\n").unwrap();
        assert_eq!(
            hosts,
            BTreeMap::from([("localhost".to_owned(), 2), ("127.0.0.2".to_owned(), 1)])
        );
        for (text, why) in [
            ("localhost:x", "is not host:slots"),
            ("node7:2", "another host"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
