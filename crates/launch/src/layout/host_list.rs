//! Hosts of a job: as an option (`a:2,b:2`) and as a file with a line for each.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use crate::error::{LaunchError, Result};

/// Maximum size of a file of hosts, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// Host of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobHost {
    /// Name by which the host is reached, which may begin with `user@`.
    pub name: String,
    /// Address at which the tasks of other hosts reach its tasks; by default the name without the user.
    pub address: Option<String>,
    /// Number of workers or ranks for which it has room.
    pub slots: Option<usize>,
}

impl JobHost {
    /// Address at which the tasks of other hosts reach its tasks.
    pub fn address(&self) -> &str {
        let name = self.name.rsplit('@').next().unwrap_or(&self.name);
        self.address.as_deref().unwrap_or(name)
    }

    /// Reads a file of hosts. A line is `HOST [slots=N] [address=ADDRESS]`; `#` begins a comment.
    ///
    /// # Errors
    /// The file cannot be read; a line is no host, or names one a second time; there is no host.
    pub fn read_file(path: &Path) -> Result<Vec<JobHost>> {
        let text = text_of_file(path)?;
        let failed = |text| of_file(path, text);
        let mut hosts = Vec::new();
        let mut names = BTreeSet::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("");
            let at = |text: String| failed(format!("line {number}: {text}"));
            if let Some(host) = of_line(line).map_err(at)? {
                if !names.insert(host.name.clone()) {
                    let text = format!("'{}' is named twice: give it slots=N", host.name);
                    return Err(at(text));
                }
                hosts.push(host);
            }
        }
        match hosts.is_empty() {
            true => Err(failed(
                "there is no host: a line is HOST [slots=N]".to_owned(),
            )),
            false => Ok(hosts),
        }
    }
}

/// Text of a file of hosts.
///
/// # Errors
/// It cannot be read, or is too long.
pub(super) fn text_of_file(path: &Path) -> Result<String> {
    let open = || -> std::io::Result<String> {
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        file.take(MAX_FILE + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = open().map_err(|e| LaunchError::of_attempt(e, |e| of_file(path, e.to_string())))?;
    match text.len() as u64 <= MAX_FILE {
        true => Ok(text),
        false => Err(of_file(
            path,
            format!("a file of hosts has at most {MAX_FILE} bytes"),
        )),
    }
}

/// Error of a file.
pub(super) fn of_file(path: &Path, text: String) -> LaunchError {
    LaunchError::Argument(format!("{}: {text}", path.display()))
}

/// Parses a line of a file of hosts; `None` for an empty one.
fn of_line(line: &str) -> std::result::Result<Option<JobHost>, String> {
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else {
        return Ok(None);
    };
    let mut host = JobHost {
        name: checked_name(name)?.to_owned(),
        ..JobHost::default()
    };
    for word in words {
        match word.split_once('=') {
            Some(("slots", number)) => host.slots = Some(slots(number)?),
            Some(("address", address)) => host.address = Some(checked_name(address)?.to_owned()),
            _ => {
                return Err(format!("'{word}' is neither slots=N nor address=ADDRESS"));
            }
        }
    }
    Ok(Some(host))
}

/// `host1:2`, or `host1`.
impl std::str::FromStr for JobHost {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<JobHost, String> {
        let (name, number) = match text.rsplit_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (text, None),
        };
        let host = || -> std::result::Result<JobHost, String> {
            Ok(JobHost {
                name: checked_name(name)?.to_owned(),
                address: None,
                slots: number.map(slots).transpose()?,
            })
        };
        host().map_err(|_| {
            format!("'{text}' is no host: give a name and a number of tasks, as host1:2")
        })
    }
}

pub(super) fn slots(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=1 << 16).contains(n));
    number.ok_or_else(|| format!("slots={text}: give a number from 1 to 65536"))
}

/// A name with a leading dash would be an option of ssh; blanks and commas end a name in lists of addresses.
pub(crate) fn checked_name(name: &str) -> std::result::Result<&str, String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | '/' | '\'' | '"');
    match name.is_empty() || name.starts_with('-') || name.contains(bad) {
        true => Err(format!("'{name}' is no name of a host")),
        false => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: Option<usize>, address: Option<&str>) -> JobHost {
        JobHost {
            name: name.to_owned(),
            address: address.map(str::to_owned),
            slots,
        }
    }

    #[test]
    fn a_host_is_a_name_and_a_positive_number_of_slots() {
        assert_eq!("a:2".parse(), Ok(host("a", Some(2), None)));
        assert_eq!("user@a.b".parse(), Ok(host("user@a.b", None, None)));
        for wrong in ["", ":2", "a:", "a:0", "a:x", "-oProxyCommand=x:1", "a b"] {
            assert!(wrong.parse::<JobHost>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_names_slots_and_an_address() {
        let line = of_line("  user@a slots=4\taddress=10.0.0.1 ").unwrap();
        let line = line.unwrap();
        assert_eq!(line, host("user@a", Some(4), Some("10.0.0.1")));
        assert_eq!(line.address(), "10.0.0.1");
        assert_eq!(host("user@a", None, None).address(), "a");
        assert_eq!(of_line(" ").unwrap(), None);
        for wrong in [
            "a slot=1",
            "a slots=0",
            "a b",
            "-x",
            "a address=",
            "a slots=99999999",
        ] {
            assert!(of_line(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistakes_of_a_file_are_named_with_their_line() {
        let path = std::env::temp_dir().join(format!("thalweg-hosts-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            JobHost::read_file(&path)
        };
        let hosts = read("# two hosts\na slots=2 # fast\n\nb\n").unwrap();
        assert_eq!(hosts, [host("a", Some(2), None), host("b", None, None)]);
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("a\n\nb c\n").contains("line 3: 'c' is neither"));
        assert!(error("a\na\n").contains("line 2: 'a' is named twice"));
        assert!(error("# none\n").contains("there is no host"));
        std::fs::remove_file(&path).unwrap();
        assert!(JobHost::read_file(&path).is_err());
    }
}
