//! State of this host before a job: its program, folder, disk, clock, ports, GPUs and cores.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::protocol::{ProbeAnswer, ProbeRequest};
use crate::reach::{address_toward, own_address};

/// Free space below which a disk counts as full, in bytes.
#[cfg(unix)]
const MIN_FREE: u64 = 64 << 20;

/// Returns the state of this host.
pub(crate) fn probe(request: &ProbeRequest) -> ProbeAnswer {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    ProbeAnswer {
        errors: mistakes(request),
        own_address: request.launcher.and_then(|to| address_toward(to).ok()),
        clock: clock.map_or(0, |time| time.as_millis() as u64),
        taken_ports: taken_ports(&request.address, &request.ports),
        gpus: gpus(),
        cores: cores(),
    }
}

/// Mistakes that keep the program from running in the folder. There is none without a folder: tasks of this host run where the
/// launcher does, and tell their mistakes themselves.
fn mistakes(request: &ProbeRequest) -> Vec<String> {
    let folder = Path::new(&request.folder);
    if request.folder.is_empty() {
        return Vec::new();
    }
    if !folder.is_dir() {
        return vec![format!("there is no folder {}", request.folder)];
    }
    if find_program(&request.program, folder).is_none() {
        return vec![format!("there is no program '{}'", request.program)];
    }
    disk_error(folder).into_iter().collect()
}

/// Path of a program as the system finds it in a folder: by its path, or on the PATH.
pub(crate) fn find_program(program: &str, folder: &Path) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && is_executable(path);
    if program.contains('/') {
        return Some(folder.join(program)).filter(is_program);
    }
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found.find(is_program)
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).map(|data| data.permissions().mode());
    mode.is_ok_and(|mode| mode & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    true
}

/// Reason why a folder takes no files; a folder that only its files' owner writes to is no mistake.
#[cfg(unix)]
fn disk_error(folder: &Path) -> Option<String> {
    let state = rustix::fs::statvfs(folder).ok()?;
    let free = state.f_bavail.saturating_mul(state.f_frsize);
    // A file system without blocks, such as one that is made up, tells no space.
    (state.f_blocks > 0 && free < MIN_FREE).then(|| {
        format!(
            "the disk of {} is full: {} MiB are free",
            folder.display(),
            free >> 20
        )
    })
}

#[cfg(not(unix))]
fn disk_error(_: &Path) -> Option<String> {
    None
}

/// Ports of an address at which others listen.
fn taken_ports(address: &str, ports: &[u16]) -> Vec<u16> {
    if ports.is_empty() {
        return Vec::new();
    }
    let own = own_address(address);
    let taken = |port: &u16| {
        let bound = TcpListener::bind((own, *port));
        bound.is_err_and(|e| e.kind() == ErrorKind::AddrInUse)
    };
    ports.iter().copied().filter(taken).collect()
}

/// GPUs that this process may use: those of `CUDA_VISIBLE_DEVICES`, or the devices of the system.
fn gpus() -> Vec<String> {
    if let Ok(visible) = std::env::var("CUDA_VISIBLE_DEVICES") {
        let names = visible.split(',').map(str::trim);
        return names.filter(|n| !n.is_empty()).map(str::to_owned).collect();
    }
    let entries = std::fs::read_dir("/dev").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names
        .filter_map(|name| name.strip_prefix("nvidia")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    // CUDA counts the devices from 0 on, whatever their numbers in /dev.
    (0..numbers.len()).map(|n| n.to_string()).collect()
}

/// Cores on which this process may run, by NUMA node.
fn cores() -> Vec<Vec<usize>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |line: &str| line.strip_prefix("Cpus_allowed_list:").map(number_list);
    let allowed = status.lines().find_map(line).flatten().unwrap_or_default();
    let mut nodes = BTreeMap::<usize, Vec<usize>>::new();
    let entries = std::fs::read_dir("/sys/devices/system/node");
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let node = name.strip_prefix("node").and_then(|n| n.parse().ok());
        let list = std::fs::read_to_string(entry.path().join("cpulist"));
        if let (Some(node), Ok(list)) = (node, list) {
            let own = number_list(&list).unwrap_or_default();
            let own = own.into_iter().filter(|core| allowed.contains(core));
            nodes.insert(node, own.collect());
        }
    }
    let known: Vec<Vec<usize>> = nodes.into_values().filter(|n| !n.is_empty()).collect();
    match known.is_empty() {
        true => vec![allowed],
        false => known,
    }
}

/// Parses a list of the kernel: `0-3,8` is 0, 1, 2, 3 and 8.
fn number_list(text: &str) -> Option<Vec<usize>> {
    /// Maximum number of cores.
    const MOST: usize = 1 << 16;

    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        if to < from || to - from >= MOST || all.len() >= MOST {
            return None;
        }
        all.extend(from..=to);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn lists_of_cores_are_ranges_and_numbers() {
        assert_eq!(number_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(number_list(""), Some(vec![]));
        for wrong in ["x", "3-1", "0-99999999999"] {
            assert_eq!(number_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_probe_names_a_missing_folder_and_program_and_finds_a_taken_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let request = |program: &str, folder: &str| ProbeRequest {
            program: program.to_owned(),
            folder: folder.to_owned(),
            address: "127.0.0.1".to_owned(),
            ports: vec![port],
            launcher: Some(IpAddr::from([127, 0, 0, 1])),
        };
        let good = probe(&request("sh", "/tmp"));
        assert_eq!(good.errors, [""; 0]);
        assert_eq!(good.taken_ports, [port]);
        assert_eq!(good.own_address, Some(IpAddr::from([127, 0, 0, 1])));
        assert!(good.cores.iter().any(|node| !node.is_empty()));
        let errors = probe(&request("no-such-program", "/tmp")).errors;
        assert_eq!(errors, ["there is no program 'no-such-program'"]);
        let errors = probe(&request("sh", "/no/such/folder")).errors;
        assert_eq!(errors, ["there is no folder /no/such/folder"]);
    }
}
