//! Hosts of a job of PBS, LSF or Grid Engine, by the variables of the batch system.

use std::path::Path;

use super::host_list::{JobHost, checked_name, of_file, slots, text_of_file};
use crate::error::{LaunchError, Result};

/// Reader of a line of a file: the host, and a number of slots.
type ReadLine = fn(&str) -> std::result::Result<(&str, usize), String>;

/// Variables that name a file of hosts, in the order in which they count.
const FILES: [(&str, ReadLine); 3] = [
    ("PBS_NODEFILE", one_slot),
    ("LSB_DJOB_HOSTFILE", one_slot),
    ("PE_HOSTFILE", host_and_slots),
];

/// Hosts and slots of the job of PBS, LSF or Grid Engine in which this process runs, whose variables `get` looks up. `None`
/// outside of a job.
///
/// The files of `PBS_NODEFILE` and `LSB_DJOB_HOSTFILE` have a line for each slot. A line of `PE_HOSTFILE` is
/// `HOST SLOTS QUEUE PROCESSORS`. Sources: pbs_submit(1), LSF's "Environment variables", sge_pe(5).
///
/// # Errors
/// The file cannot be read, or has no hosts.
pub fn batch_hosts(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Vec<JobHost>>> {
    let set = |(name, read): (&'static str, ReadLine)| {
        let path = get(name).filter(|path| !path.is_empty())?;
        Some((name, read, path))
    };
    let Some((name, read, path)) = FILES.into_iter().find_map(set) else {
        return Ok(None);
    };
    let named = |error: LaunchError| LaunchError::Argument(format!("{name}: {error}"));
    let path = Path::new(&path);
    let text = text_of_file(path).map_err(named)?;
    let mut hosts: Vec<JobHost> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |text| named(of_file(path, format!("line {number}: {text}")));
        let (host, more) = read(line).map_err(wrong)?;
        let known = hosts.iter_mut().find(|known| known.name == host);
        match known {
            Some(known) => known.slots = known.slots.map(|slots| slots + more),
            None => hosts.push(JobHost {
                name: host.to_owned(),
                address: None,
                slots: Some(more),
            }),
        }
    }
    match hosts.is_empty() {
        true => Err(named(of_file(path, "there is no host".to_owned()))),
        false => Ok(Some(hosts)),
    }
}

/// `HOST`
fn one_slot(line: &str) -> std::result::Result<(&str, usize), String> {
    Ok((checked_name(line.trim())?, 1))
}

/// `HOST SLOTS ...`
fn host_and_slots(line: &str) -> std::result::Result<(&str, usize), String> {
    let mut words = line.split_whitespace();
    let (Some(host), Some(number)) = (words.next(), words.next()) else {
        return Err(format!("'{line}' has no number of slots"));
    };
    Ok((checked_name(host)?, slots(number)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_job_are_those_of_its_file() {
        let path = std::env::temp_dir().join(format!("thalweg-batch-{}", std::process::id()));
        let read = |variable: &str, text: &str| {
            std::fs::write(&path, text).unwrap();
            let get = |name: &str| (name == variable).then(|| path.display().to_string());
            let hosts = batch_hosts(&get).map_err(|e| e.to_string())?;
            let hosts = hosts.unwrap().into_iter();
            Ok::<_, String>(
                hosts
                    .map(|h| (h.name, h.slots.unwrap()))
                    .collect::<Vec<_>>(),
            )
        };
        let two = Ok(vec![("a".to_owned(), 2), ("b".to_owned(), 1)]);
        assert_eq!(read("PBS_NODEFILE", "a\nb\na\n"), two);
        assert_eq!(read("LSB_DJOB_HOSTFILE", "a\na\n\nb"), two);
        assert_eq!(
            read("PE_HOSTFILE", "a 2 all.q@a UNDEFINED\nb 1 all.q@b <NULL>\n"),
            two
        );
        for (variable, text, expected) in [
            ("PBS_NODEFILE", "", "there is no host"),
            (
                "PBS_NODEFILE",
                "a\n-x\n",
                "line 2: '-x' is no name of a host",
            ),
            ("PE_HOSTFILE", "a\n", "line 1: 'a' has no number of slots"),
            ("PE_HOSTFILE", "a x q\n", "line 1: slots=x: give a number"),
        ] {
            let error = read(variable, text).unwrap_err();
            let named = error.starts_with(&format!("{variable}: "));
            assert!(named && error.contains(expected), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(batch_hosts(&|_| Some("/no/such/file".to_owned())).is_err());
        assert!(batch_hosts(&|_| None).unwrap().is_none());
    }
}
