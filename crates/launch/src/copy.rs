//! Copies of programs on other hosts, through the access program.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::access::{Access, command_of_words, shell_quoted};
use crate::error::{LaunchError, Result};
use crate::process;
use crate::signals::Signals;

/// Interval at which copies and signals are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Number of bytes of the access program's standard error that an error shows.
const MAX_ERROR: u64 = 2000;

/// Program that is copied, and its name there.
pub(crate) struct CopiedFile {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
}

/// Copy that runs. It is ended when this is dropped.
struct RunningCopy {
    host: String,
    child: Child,
    errors: Option<JoinHandle<String>>,
}

impl Drop for RunningCopy {
    fn drop(&mut self) {
        if matches!(process::try_wait(&mut self.child), Ok(None)) {
            process::kill(&mut self.child);
            let _ = self.child.wait();
        }
    }
}

/// Copies files to a folder on each of the hosts, which is created if it is not there, and makes them executable.
///
/// # Errors
/// A file cannot be read; a host is not reached, or does not take it. A signal has come.
pub(crate) fn copy_to_hosts(
    access: &Access,
    hosts: &[String],
    folder: &Path,
    files: &[CopiedFile],
    signals: &mut Signals,
) -> Result<()> {
    // One file after another, as a link is shared by all.
    for file in files {
        let copies: Result<Vec<RunningCopy>> = hosts
            .iter()
            .map(|host| start_copy(access, host, folder, file))
            .collect();
        let mut copies = copies?;
        while !copies.is_empty() {
            std::thread::sleep(POLL_INTERVAL);
            if let Some(&signal) = signals.pending().first() {
                return Err(LaunchError::Interrupted(signal));
            }
            let mut at = 0;
            while at < copies.len() {
                match process::try_wait(&mut copies[at].child)? {
                    None => at += 1,
                    Some(status) if status.success() => drop(copies.swap_remove(at)),
                    Some(status) => {
                        let mut copy = copies.swap_remove(at);
                        let errors = copy.errors.take().and_then(|thread| thread.join().ok());
                        return Err(format!(
                            "'{}' is not copied to the host '{}': status {}: {}",
                            file.path.display(),
                            copy.host,
                            process::exit_code(status),
                            errors.unwrap_or_default().trim_end()
                        )
                        .into());
                    }
                }
            }
        }
    }
    Ok(())
}

/// Starts the copy of a file to a host.
fn start_copy(
    access: &Access,
    host: &str,
    folder: &Path,
    file: &CopiedFile,
) -> Result<RunningCopy> {
    let failed = |e: std::io::Error| {
        LaunchError::of_attempt(e, |e| {
            LaunchError::Argument(format!("{}: {e}", file.path.display()))
        })
    };
    let opened = File::open(&file.path).map_err(failed)?;
    let bytes = opened.metadata().map_err(failed)?.len();
    let line = copy_line(folder, &file.name, bytes);
    let words = access
        .shell_command(host, &line)
        .ok_or("--copy needs access by ssh")?;
    let mut command: Command = command_of_words(&words);
    command
        .stdin(Stdio::from(opened))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    process::isolate(&mut command);
    let mut child = command.spawn().map_err(|e| {
        let program = words[0].clone();
        LaunchError::of_attempt(e, |source| LaunchError::Start { program, source })
    })?;
    let errors = child.stderr.take();
    let mut copy = RunningCopy {
        host: host.to_owned(),
        child,
        errors: None,
    };
    let read = move || {
        let mut text = Vec::new();
        // The end of what can be read is the end of the copy.
        let _ = errors.map(|errors| errors.take(MAX_ERROR).read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    };
    copy.errors = Some(std::thread::Builder::new().spawn(read)?);
    Ok(copy)
}

/// Line of a shell that writes its input to a file. A part of a file never has its name.
fn copy_line(folder: &Path, name: &str, bytes: u64) -> String {
    let file = folder.join(name);
    let [folder, file] = [folder, &file].map(|path| shell_quoted(&path.to_string_lossy()));
    format!(
        "mkdir -p {folder} && cat > {file}.$$ && [ $(wc -c < {file}.$$) -eq {bytes} ] && chmod 755 {file}.$$ && mv {file}.$$ {file}"
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_its_name_only_when_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("thalweg it's {}", std::process::id()));
        let run = |bytes: u64| {
            let line = copy_line(&folder, "a b", bytes);
            let mut child = Command::new("sh")
                .args(["-c", &line])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"text").unwrap();
            child.wait().unwrap().success()
        };
        assert!(!run(5));
        assert!(!folder.join("a b").exists());
        assert!(run(4));
        assert_eq!(std::fs::read(folder.join("a b")).unwrap(), b"text");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
