//! A fake `ssh` that logs its command and runs it on this host, and the processes of a launch.

#![allow(dead_code, reason = "each of the tests uses a part")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Folder;

/// Variable that marks all processes of a launch.
const MARK: &str = "THALWEG_TEST_MARK";

/// Folder with a fake `ssh`. Its name has a blank and a quote.
pub struct FakeSsh(pub Folder);

impl FakeSsh {
    pub fn new(name: &str) -> FakeSsh {
        let fake = FakeSsh(Folder::new(&format!("it's {name}")));
        let log = fake.0.at("log");
        fake.script(&format!(
            "printf '%s\\n' \"$@\" >> \"{log}\"\ncd /\nexec sh -c \"$2\"\n"
        ));
        fake
    }

    /// Replaces the fake `ssh` by a shell script, which gets a host and a line.
    pub fn script(&self, text: &str) {
        write_script(&self.0.join("ssh"), text);
    }

    /// Text of the log; `None` if nothing was run.
    pub fn log(&self) -> Option<String> {
        fs::read_to_string(self.0.join("log")).ok()
    }

    /// Launcher in the folder, whose processes are marked.
    pub fn launcher(&self, front: &str, options: &[&str], command: &[&str]) -> Command {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        launcher
            .current_dir(self.0.path())
            .env(MARK, self.0.path())
            .env("T", self.0.path())
            .args(["launch", front, "--ssh", "./ssh", "--address", "127.0.0.1"])
            .args(options)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        launcher
    }

    /// Processes of a launch of this folder, with their command lines.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let mark = format!("{MARK}={}", self.0.path().display());
        let entries = fs::read_dir("/proc").unwrap();
        let numbers = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let marked = numbers.filter(|number| {
            let env = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            let mut all = env.split(|byte| *byte == 0);
            all.any(|set| set == mark.as_bytes())
        });
        let told = |number: u32| {
            let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            (number, String::from_utf8_lossy(&line).replace('\0', " "))
        };
        marked.map(told).collect()
    }
}

/// Writes an executable shell script.
pub fn write_script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
