//! `thalweg launch hvd -H`: ranks on several hosts, with a fake ssh that runs its command on this host.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Folder of a test, removed on drop.
struct SshFolder(PathBuf);

impl Drop for SshFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl SshFolder {
    /// Creates a folder with a fake `ssh` that logs its command and runs it.
    fn new(name: &str) -> SshFolder {
        let path = std::env::temp_dir().join(format!("thalweg it's {name} {}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let folder = SshFolder(path);
        let ssh = folder.0.join("ssh");
        let log = folder.0.join("log");
        let text = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" >> \"{}\"\ncd /\nexec sh -c \"$2\"\n",
            log.display()
        );
        fs::write(&ssh, text).unwrap();
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    fn launch(&self, options: &[&str], command: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .current_dir(&self.0)
            .args(["launch", "hvd", "--ssh", "./ssh", "--address", "127.0.0.1"])
            .args(options)
            .arg("--")
            .args(command)
            .output()
            .unwrap()
    }
}

#[test]
fn ranks_of_other_hosts_start_in_the_same_folder_with_their_ranks() {
    let folder = SshFolder::new("places");
    let say = r#"place="$HOROVOD_LOCAL_RANK of $HOROVOD_LOCAL_SIZE, ${#THALWEG_JOB_SECRET} $HOROVOD_GLOO_RENDEZVOUS_ADDR"
        echo "$HOROVOD_RANK of $HOROVOD_SIZE, $place $THALWEG_SET $(pwd) $*""#;
    let options = [
        "-np",
        "3",
        "-H",
        "localhost:1,other:2",
        "--unprotected-network",
    ];
    let done = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .current_dir(&folder.0)
        .env("THALWEG_SET", "it's set")
        .args(["launch", "hvd", "--ssh", "./ssh", "--address", "127.0.0.1"])
        .args(options)
        .args(["--", "sh", "-c", say, "x", "a  b", "$HOME 'c'"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    let here = folder.0.display();
    for (rank, place) in ["0 of 1", "0 of 2", "1 of 2"].iter().enumerate() {
        let expected = format!(
            "rank {rank} | {rank} of 3, {place}, 32 127.0.0.1 it's set {here} a  b $HOME 'c'"
        );
        assert!(said.contains(&expected), "{expected}: {said}");
    }
    let log = fs::read_to_string(folder.0.join("log")).unwrap();
    assert_eq!(log.lines().filter(|l| *l == "other").count(), 2, "{log}");
    // The secret is read from standard input, and in no command line.
    let secrets = log
        .split(|c: char| !c.is_ascii_hexdigit())
        .filter(|w| w.len() == 32);
    assert_eq!(secrets.count(), 0, "{log}");
}

#[test]
fn several_hosts_need_protection_or_the_unprotected_network_flag() {
    let folder = SshFolder::new("protection");
    let done = folder.launch(&["-np", "2", "-H", "localhost:1,other:1"], &["true"]);
    assert!(!done.status.success());
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.contains("need --protection DIR"), "{errors}");
    assert!(!folder.0.join("log").exists(), "nothing was started");
}

#[test]
fn elastic_jobs_reject_a_list_of_hosts() {
    let folder = SshFolder::new("elastic");
    let options = ["-np", "1", "-H", "localhost:1", "--min-np", "1"];
    let done = folder.launch(&options, &["true"]);
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(
        errors.contains("a host discovery script names the hosts"),
        "{errors}"
    );
}

#[test]
fn hosts_with_too_few_slots_are_an_error() {
    let folder = SshFolder::new("slots");
    let done = folder.launch(&["-np", "3", "-H", "localhost:1,127.0.0.2:1"], &["true"]);
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.contains("-H names 2 slots for 3 ranks"), "{errors}");
    // Names of this host need neither ssh nor protection.
    let done = folder.launch(&["-np", "2", "-H", "localhost:1,127.0.0.2:1"], &["true"]);
    assert!(done.status.success(), "{done:?}");
    assert!(!folder.0.join("log").exists());
}

#[test]
fn a_host_that_cannot_be_reached_ends_the_job_with_its_reason() {
    let folder = SshFolder::new("lost");
    fs::write(
        folder.0.join("ssh"),
        "#!/bin/sh\necho no route to $1 >&2\nexit 255\n",
    )
    .unwrap();
    let options = [
        "-np",
        "2",
        "-H",
        "localhost:1,other:1",
        "--unprotected-network",
        "--grace",
        "1",
    ];
    let done = folder.launch(&options, &["sleep", "300"]);
    assert_eq!(done.status.code(), Some(255), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.contains("rank 1 | no route to other"), "{errors}");
}

#[test]
fn traces_of_ranks_are_merged_and_a_failed_rank_keeps_its_status() {
    let folder = SshFolder::new("trace");
    let write = r#"echo "[{\"pid\": $HOROVOD_RANK}]" > "$THALWEG_TRACE.$HOROVOD_RANK""#;
    let trace = |ranks: &str, program: &str| {
        let options = ["-np", ranks, "--trace", "t.json"];
        folder.launch(&options, &["sh", "-c", program])
    };
    let done = trace("3", write);
    assert!(done.status.success(), "{done:?}");
    let read = || {
        let text = fs::read_to_string(folder.0.join("t.json")).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        events
            .iter()
            .map(|e| e["pid"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(read(), [0, 1, 2]);
    assert!(!folder.0.join("t.json.0").exists());
    // A truncated trace is left out, with a message.
    let torn = format!(r#"{write}; [ $HOROVOD_RANK != 1 ] || echo '[{{' > "$THALWEG_TRACE.1""#);
    let done = trace("3", &torn);
    assert!(done.status.success(), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(
        errors.contains("left out of the trace: t.json.1"),
        "{errors}"
    );
    assert_eq!(read(), [0, 2]);
    // Traces of an earlier launch are not merged.
    let done = trace("2", "exit 3");
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(
        errors.contains("no rank of this host has written a trace"),
        "{errors}"
    );
    let done = trace("1", "true");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_the_job() {
    let folder = SshFolder::new("no trace");
    let launch = |trace: &str| {
        let options = ["-np", "1", "--trace", trace];
        folder.launch(&options, &["touch", "began"])
    };
    let done = launch("none/t.json");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(
        errors.contains("--trace none/t.json: No such file"),
        "{errors}"
    );
    assert!(!folder.0.join("began").exists());
    // The check leaves no file.
    launch("t.json");
    assert!(folder.0.join("began").exists());
    assert!(!folder.0.join("t.json").exists());
}

#[test]
fn keys_named_by_the_environment_protect_the_launcher_too() {
    let done = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .env("THALWEG_PROTECTION", "/no/such/folder")
        .args(["launch", "hvd", "-np", "1", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.contains("/no/such/folder/token"), "{errors}");
    assert!(errors.contains("`thalweg protect` makes it"), "{errors}");
}
