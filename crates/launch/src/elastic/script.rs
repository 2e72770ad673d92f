//! Host discovery script of an elastic job: its runs, and the lines of `host:slots` that it prints.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{LaunchError, Result};
use crate::layout::checked_name;
use crate::process;

/// Interval between two runs of the script.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(1);
/// Time that the script may take.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the script's output, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Maximum number of slots of a host.
const MAX_SLOTS: usize = 4096;
/// Maximum number of hosts, each of which has an agent.
const MAX_HOSTS: usize = 1024;

/// Host discovery script, which is run again and again.
pub(super) struct Script {
    command: String,
    running: Option<(Child, Instant)>,
    last: Instant,
    /// Last error, so that it is reported once.
    error: Option<String>,
}

impl Script {
    pub(super) fn new(command: &str) -> Script {
        Script {
            command: command.to_owned(),
            running: None,
            last: Instant::now(),
            error: None,
        }
    }

    pub(super) fn command(&self) -> &str {
        &self.command
    }

    pub(super) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// `true` if it is time for the next run.
    pub(super) fn is_due(&self) -> bool {
        self.last.elapsed() >= DISCOVERY_INTERVAL
    }

    /// Makes the next run begin at once.
    #[cfg(all(test, unix))]
    pub(super) fn make_due(&mut self) {
        self.last = Instant::now() - DISCOVERY_INTERVAL;
    }

    /// Forgets the last error: the next one is reported even if it is the same.
    pub(super) fn forget_error(&mut self) {
        self.error = None;
    }

    /// Starts the script.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn begin(&mut self) -> Result<()> {
        let mut command = Command::new(&self.command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        process::isolate(&mut command);
        let child = command.spawn().map_err(|e| {
            LaunchError::of_attempt(e, |e| {
                format!("the host discovery script '{}': {e}", self.command).into()
            })
        })?;
        self.running = Some((child, Instant::now()));
        Ok(())
    }

    /// Returns the hosts that the script has printed, once it has ended. Kills the script after a timeout.
    pub(super) fn poll(&mut self) -> Option<Result<BTreeMap<String, usize>>> {
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
                let mut text = Vec::new();
                let output = child.stdout.take();
                let read = output.map(|o| o.take(MAX_OUTPUT).read_to_end(&mut text));
                let hosts = match read {
                    Some(Err(e)) => Err(e.into()),
                    _ => parse_output(&text),
                };
                hosts.map_err(|e| format!("the host discovery script '{name}': {e}").into())
            }
            Ok(Some(status)) => {
                Err(format!("the host discovery script '{name}' ended with {status}").into())
            }
            Err(e) => Err(format!("the host discovery script '{name}': {e}").into()),
        };
        self.last = Instant::now();
        Some(result)
    }

    /// Returns a line about an error, unless it is the same as the last one.
    pub(super) fn report(&mut self, error: String) -> Option<String> {
        self.last = Instant::now();
        let repeated = self.error.as_ref() == Some(&error);
        self.error = Some(error.clone());
        (!repeated).then(|| format!("{error}: the hosts stay as they were"))
    }
}

/// Parses the output of a script.
fn parse_output(bytes: &[u8]) -> Result<BTreeMap<String, usize>> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        let byte = bytes.get(at).copied().unwrap_or_default();
        format!("its output is no UTF-8: byte {at}, counted from 0, is {byte:#04x}")
    })?;
    parse_hosts(text)
}

/// Parses lines of `host:slots`; `host` alone has one slot.
fn parse_hosts(text: &str) -> Result<BTreeMap<String, usize>> {
    let mut all = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (host, slots) = line.rsplit_once(':').unwrap_or((line, "1"));
        let slots = slots.parse().ok().filter(|&s: &usize| s <= MAX_SLOTS);
        let slots = slots.ok_or_else(|| format!("'{line}' is not host:slots"))?;
        all.insert(checked_name(host)?.to_owned(), slots);
        if all.len() > MAX_HOSTS {
            return Err(format!("it names more than {MAX_HOSTS} hosts").into());
        }
    }
    Ok(all)
}

/// A shell script for a test, in the folder of temporary files.
#[cfg(all(test, unix))]
pub(super) fn shell_script(name: &str, text: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let name = format!("thalweg-discovery-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn output_that_is_no_utf_8_is_refused_by_script_and_byte() {
        let path = shell_script("latin", r"printf 'localhost:1\nn\344chster:1\n'");
        let mut script = Script::new(path.to_str().unwrap());
        script.begin().unwrap();
        let hosts = loop {
            if let Some(hosts) = script.poll() {
                break hosts;
            }
        };
        let error = hosts.unwrap_err().to_string();
        let name = path.display();
        assert_eq!(
            error,
            format!(
                "the host discovery script '{name}': its output is no UTF-8: byte 13, counted from 0, is 0xe4"
            )
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn malformed_lines_and_names_are_refused() {
        let hosts = parse_hosts("localhost:2\n\nuser@node7\n").unwrap();
        assert_eq!(
            hosts,
            BTreeMap::from([("localhost".to_owned(), 2), ("user@node7".to_owned(), 1)])
        );
        let many: String = (0..1025).map(|n| format!("node{n}\n")).collect();
        for (text, why) in [
            ("localhost:x", "is not host:slots"),
            // It would be an option of ssh.
            ("-oProxyCommand=x:2", "is no name of a host"),
            ("a b:2", "is no name of a host"),
            (&many, "more than 1024 hosts"),
        ] {
            let error = parse_hosts(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
