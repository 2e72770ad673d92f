//! `--restarts` of ranks: all are started again when one fails or its host is lost. A fake ssh runs its command on this host.
#![cfg(target_os = "linux")]

mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;
use std::process::{Command, Output};

use support::errors;
use support::fake_ssh::FakeSsh;
use wait::until;

/// Flags of two ranks, one of them on another host.
const FLAGS: [&str; 7] = [
    "-np",
    "2",
    "-H",
    "localhost:1,b:1",
    "--unprotected-network",
    "--grace",
    "5",
];

/// Launches ranks of a shell script.
fn launch(ssh: &FakeSsh, options: &[&str], script: &str) -> Output {
    let options = [&FLAGS[..], options].concat();
    let command = ["sh", "-c", script];
    ssh.launcher("hvd", &options, &command).output().unwrap()
}

/// Lines of a file that ranks append to, in order.
fn lines(ssh: &FakeSsh, name: &str) -> Vec<String> {
    let text = fs::read_to_string(ssh.0.join(name)).unwrap();
    let mut all: Vec<String> = text.lines().map(str::to_owned).collect();
    all.sort();
    all
}

#[test]
fn all_ranks_are_started_again_after_one_has_failed() {
    let ssh = FakeSsh::new("restart");
    // The first start: rank 1 fails, and rank 0 saves when it is terminated.
    let script = r#"
        echo "$THALWEG_RESTART $HOROVOD_RANK" >> "$T/started"
        echo "$THALWEG_JOB_SECRET $HOROVOD_GLOO_RENDEZVOUS_PORT" >> "$T/meetings"
        echo "start $THALWEG_RESTART of rank $HOROVOD_RANK"
        [ $THALWEG_RESTART = 0 ] || exit 0
        trap 'touch "$T/saved"; exit 0' TERM
        touch "$T/ready$HOROVOD_RANK"
        while [ ! -e "$T/ready0" ] || [ ! -e "$T/ready1" ]; do sleep 0.02; done
        [ $HOROVOD_RANK = 0 ] || exit 3
        while :; do sleep 0.02; done"#;
    let done = launch(&ssh, &["--restarts", "3", "--output-dir", "logs"], script);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(lines(&ssh, "started"), ["0 0", "0 1", "1 0", "1 1"]);
    assert!(ssh.0.join("saved").exists());
    let told = errors(&done);
    let note = "rank 1 ended with status 3: all ranks are started again (1 of 3)";
    assert!(told.lines().any(|l| l == note), "{told}");
    // Ranks of one start share a secret and a coordinator, which those of another do not know.
    let mut meetings = lines(&ssh, "meetings");
    assert_eq!(meetings.len(), 4);
    meetings.dedup();
    assert_eq!(meetings.len(), 2, "{meetings:?}");
    // The file of a rank has the output of all starts.
    for rank in 0..2 {
        let log = fs::read_to_string(ssh.0.join(&format!("logs/rank-{rank}.log"))).unwrap();
        let starts: Vec<&str> = log.lines().filter(|l| l.starts_with("start ")).collect();
        let both = [0, 1].map(|n| format!("start {n} of rank {rank}"));
        assert_eq!(starts, both);
    }
    assert_eq!(ssh.processes(), []);
}

#[test]
fn the_status_is_that_of_the_failure_after_the_last_restart() {
    let ssh = FakeSsh::new("limit");
    let script = r#"echo "$THALWEG_RESTART" >> "$T/started"
        [ $HOROVOD_RANK = 0 ] || exit $((3 + THALWEG_RESTART)); exec sleep 300"#;
    let done = launch(&ssh, &["--max-restarts", "2"], script);
    assert_eq!(done.status.code(), Some(5), "{done:?}");
    let told = errors(&done);
    let error = "error: rank 1 ended with status 5, after 2 restarts";
    assert!(told.lines().any(|l| l == error), "{told}");
    assert_eq!(lines(&ssh, "started"), ["0", "0", "1", "1", "2", "2"]);
    assert_eq!(ssh.processes(), []);
}

/// Fake ssh that notes its process. The host is away while there is a file of that name.
fn host_that_leaves(name: &str) -> FakeSsh {
    let ssh = FakeSsh::new(name);
    ssh.script(
        "[ ! -e \"$T/away\" ] || { touch \"$T/refused\"; echo no route to $1 >&2; exit 255; }\n\
         echo $$ > \"$T/new\"; mv \"$T/new\" \"$T/process\"\ncd /\nexec sh -c \"$2\"\n",
    );
    ssh
}

/// Script whose ranks do not end in the first start.
const LONG_FIRST: &str =
    r#"touch "$T/rank$HOROVOD_RANK"; [ $THALWEG_RESTART = 1 ] || exec sleep 300"#;

/// Kills the ssh of the host that is to be away, once both ranks run.
fn lose_host(ssh: &FakeSsh) {
    for rank in ["rank0", "rank1"] {
        until("a rank does not start", || ssh.0.join(rank).exists());
    }
    fs::write(ssh.0.join("away"), "").unwrap();
    let process = fs::read_to_string(ssh.0.join("process")).unwrap();
    let killed = Command::new("kill")
        .args(["-KILL", process.trim()])
        .status();
    assert!(killed.unwrap().success());
    until("the host is not tried again", || {
        ssh.0.join("refused").exists()
    });
}

#[test]
fn ranks_are_started_again_when_a_lost_host_has_come_back() {
    let ssh = host_that_leaves("back");
    let options = [&FLAGS[..], &["--restarts", "1"]].concat();
    let mut launcher = ssh.launcher("hvd", &options, &["sh", "-c", LONG_FIRST]);
    let child = launcher.spawn().unwrap();
    lose_host(&ssh);
    fs::remove_file(ssh.0.join("away")).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let told = errors(&done);
    let note = "rank 1 was lost with the host 'b': ./ssh ended with status 137: all ranks are started again (1 of 1)";
    assert!(told.lines().any(|l| l == note), "{told}");
    assert_eq!(ssh.processes(), []);
}

#[test]
fn a_lost_host_that_does_not_come_back_is_named() {
    let ssh = host_that_leaves("gone");
    let options = [&FLAGS[..], &["--restarts", "1", "--start-timeout", "4"]].concat();
    let mut launcher = ssh.launcher("hvd", &options, &["sh", "-c", LONG_FIRST]);
    let child = launcher.spawn().unwrap();
    lose_host(&ssh);
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(255), "{done:?}");
    let told = errors(&done);
    let error = "error: rank 1 was lost with the host 'b': ./ssh ended with status 137, and could not be started again within 4s: \
                 the host 'b' is not reached: ./ssh ended with status 255: no route to b";
    assert!(told.lines().any(|l| l == error), "{told}");
    assert_eq!(ssh.processes(), []);
}

#[test]
fn a_signal_ends_a_launch_that_waits_for_a_lost_host() {
    let ssh = host_that_leaves("signal");
    let options = [&FLAGS[..], &["--restarts", "1"]].concat();
    let mut launcher = ssh.launcher("hvd", &options, &["sh", "-c", LONG_FIRST]);
    let child = launcher.spawn().unwrap();
    lose_host(&ssh);
    let process = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &process]).status();
    assert!(sent.unwrap().success());
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(143), "{done:?}");
    assert_eq!(ssh.processes(), []);
}
