//! `thalweg launch hvd -H`: ranks on several hosts, with a fake ssh that runs its command on this host.
#![cfg(target_os = "linux")]

mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;
use std::process::{Command, Output};

use support::fake_ssh::FakeSsh;
use wait::until;

/// Flags of two ranks, one of them on another host.
const TWO_HOSTS: [&str; 7] = [
    "-np",
    "2",
    "-H",
    "localhost:1,other:1",
    "--unprotected-network",
    "--grace",
    "1",
];

/// Launches ranks.
fn launch(ssh: &FakeSsh, options: &[&str], command: &[&str]) -> Output {
    ssh.launcher("hvd", options, command).output().unwrap()
}

#[test]
fn ranks_of_other_hosts_start_in_the_same_folder_with_their_ranks() {
    let folder = FakeSsh::new("places");
    let say = r#"place="$HOROVOD_LOCAL_RANK of $HOROVOD_LOCAL_SIZE, ${#THALWEG_JOB_SECRET} $HOROVOD_GLOO_RENDEZVOUS_ADDR"
        echo "$HOROVOD_RANK of $HOROVOD_SIZE, $place $THALWEG_SET $(pwd) $*""#;
    let options = [
        "-np",
        "3",
        "-H",
        "localhost:1,other:2",
        "--unprotected-network",
    ];
    let command = ["sh", "-c", say, "x", "a  b", "$HOME 'c'"];
    let mut launcher = folder.launcher("hvd", &options, &command);
    let done = launcher.env("THALWEG_SET", "it's set").output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    let here = folder.0.path().display();
    for (rank, place) in ["0 of 1", "0 of 2", "1 of 2"].iter().enumerate() {
        let expected = format!(
            "rank {rank} | {rank} of 3, {place}, 32 127.0.0.1 it's set {here} a  b $HOME 'c'"
        );
        assert!(said.contains(&expected), "{expected}: {said}");
    }
    // One agent starts all tasks of its host. The secret comes through its input, and is in no command line.
    let log = folder.log().unwrap();
    assert_eq!(log.lines().filter(|l| *l == "other").count(), 1, "{log}");
    let secrets = log
        .split(|c: char| !c.is_ascii_hexdigit())
        .filter(|w| w.len() == 32);
    assert_eq!(secrets.count(), 0, "{log}");
}

#[test]
fn several_hosts_need_protection_or_the_unprotected_network_flag() {
    let folder = FakeSsh::new("protection");
    let done = launch(
        &folder,
        &["-np", "2", "-H", "localhost:1,other:1"],
        &["true"],
    );
    assert!(!done.status.success());
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.contains("need --protection DIR"), "{errors}");
    assert_eq!(folder.log(), None, "nothing was started");
}

#[test]
fn hosts_with_too_few_slots_are_an_error() {
    let folder = FakeSsh::new("slots");
    let done = launch(
        &folder,
        &["-np", "3", "-H", "localhost:1,127.0.0.2:1"],
        &["true"],
    );
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(
        errors.contains("the hosts have 2 slots for 3 ranks"),
        "{errors}"
    );
    // Names of this host need neither ssh nor protection.
    let done = launch(
        &folder,
        &["-np", "2", "-H", "localhost:1,127.0.0.2:1"],
        &["true"],
    );
    assert!(done.status.success(), "{done:?}");
    assert_eq!(folder.log(), None);
}

#[test]
fn a_host_that_cannot_be_reached_is_named_with_the_reason() {
    let folder = FakeSsh::new("lost");
    folder.script("echo no route to $1 >&2\nexit 255\n");
    let done = launch(&folder, &TWO_HOSTS, &["sleep", "300"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    let told = "the host 'other' is not reached: ./ssh ended with status 255: no route to other";
    assert!(errors.contains(told), "{errors}");
}

#[test]
fn traces_of_ranks_are_merged_and_a_failed_rank_keeps_its_status() {
    let folder = FakeSsh::new("trace");
    let write = r#"echo "[{\"pid\": $HOROVOD_RANK}]" > "$THALWEG_TRACE.$HOROVOD_RANK""#;
    let trace = |ranks: &str, program: &str| {
        let options = ["-np", ranks, "--trace", "t.json"];
        launch(&folder, &options, &["sh", "-c", program])
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
    let folder = FakeSsh::new("no trace");
    let launch = |trace: &str| {
        let options = ["-np", "1", "--trace", trace];
        launch(&folder, &options, &["touch", "began"])
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

#[test]
fn a_killed_rank_of_another_host_is_the_status_and_no_process_outlives_the_launcher() {
    let folder = FakeSsh::new("rank ends");
    let script = r#"touch "$THALWEG_TEST_MARK/rank$HOROVOD_RANK"; "#;
    let killed = format!("{script} [ $HOROVOD_RANK = 0 ] || kill -9 $$; exec sleep 300");
    let done = launch(&folder, &TWO_HOSTS, &["sh", "-c", &killed]);
    assert_eq!(done.status.code(), Some(137), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(
        errors.contains("error: rank 1 ended by SIGKILL"),
        "{errors}"
    );
    assert_eq!(folder.processes(), []);

    (0..2).for_each(|rank| fs::remove_file(folder.0.join(&format!("rank{rank}"))).unwrap());
    let deaf = format!("trap '' TERM; {script} while :; do sleep 0.05; done");
    let mut child = folder
        .launcher("hvd", &TWO_HOSTS, &["sh", "-c", &deaf])
        .spawn()
        .unwrap();
    for rank in ["rank0", "rank1"] {
        until("a rank does not start", || folder.0.join(rank).exists());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    until("a process outlives its launcher", || {
        folder.processes().is_empty()
    });
}
