//! `thalweg launch hvd` with elastic jobs on this host. The workers are this test program: they count steps together.
#![cfg(target_os = "linux")]

#[path = "support/elastic.rs"]
mod elastic_launch;
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use elastic_launch::{LONG, RunningLaunch, hosts, run_worker, script, signal};
use support::Folder;

#[test]
fn worker() {
    run_worker();
}

#[test]
fn killed_and_stopped_ranks_are_replaced() {
    let options = [
        "-np",
        "3",
        "--min-np",
        "1",
        "--blacklist-cooldown-range",
        "0",
        "0",
    ];
    let mut launch = RunningLaunch::start(&options, 300);
    launch.until(&["step 5 of 3 ranks"]);
    let killed = launch.process(1);
    signal(&killed, "KILL");
    launch.until(&["round 2: 2 ranks"]);
    launch.until(&["of 3 ranks"]);
    let stopped = launch.process(0);
    signal(&stopped, "STOP");
    launch.until(&["is let go: nothing was heard of it for 3s"]);
    launch.until(&["step 300 of 3 ranks"]);
    let (status, lines) = launch.end();
    assert_eq!(status, 0, "{lines:#?}");
}

#[test]
fn workers_follow_the_discovery_script() {
    let folder = Folder::new("discovery");
    hosts(&folder, "localhost:1\n");
    let script = script(&folder);
    let options = [
        "-np",
        "1",
        "--max-np",
        "4",
        "--host-discovery-script",
        &script,
    ];
    let mut launch = RunningLaunch::start(&options, LONG);
    launch.until(&["of 1 ranks"]);
    hosts(&folder, "localhost:1\n127.0.0.2:2\n");
    launch.until(&["of 3 ranks"]);
    hosts(&folder, "127.0.0.2:1\n");
    launch.until(&["is let go: its host is not there for the job any more"]);
    launch.until(&["of 1 ranks"]);
    hosts(&folder, "no:host:at:all\n");
    launch.until(&["is not host:slots: the hosts stay as they were"]);
    signal(&launch.child.id().to_string(), "TERM");
    let (status, lines) = launch.end();
    assert_eq!(status, 128 + 15, "{lines:#?}");
    assert!(
        lines.iter().any(|l| l.contains("error: ended by SIGTERM")),
        "{lines:#?}"
    );
}

#[test]
fn an_answer_without_hosts_lasts_until_the_elastic_timeout() {
    let folder = Folder::new("no_hosts");
    hosts(&folder, "localhost:2\n");
    let script = script(&folder);
    let options = [
        "-np",
        "2",
        "--elastic-timeout",
        "4",
        "--host-discovery-script",
        &script,
    ];
    let mut launch = RunningLaunch::start(&options, LONG);
    launch.until(&["step 5 of 2 ranks"]);
    hosts(&folder, "");
    launch.until(&["the host discovery script names none now: workers go on"]);
    hosts(&folder, "localhost:2\n");
    launch.until(&["hosts: localhost:2"]);
    launch.until(&["of 2 ranks"]);
    hosts(&folder, "");
    let (status, lines) = launch.end();
    assert_eq!(status, 1, "{lines:#?}");
    let why = format!("error: the host discovery script '{script}' has named no host for 4s");
    assert!(lines.iter().any(|l| l.starts_with(&why)), "{lines:#?}");
    // The same workers went on all the time.
    let rounds = lines.iter().filter(|l| l.starts_with("round ")).count();
    assert_eq!(rounds, 1, "{lines:#?}");
}

#[test]
fn the_state_outlives_an_answer_that_replaces_all_hosts() {
    let folder = Folder::new("all_hosts");
    hosts(&folder, "localhost:2\n");
    let script = script(&folder);
    for (max, steps) in [("2", 150), ("1", 150)] {
        hosts(&folder, &format!("localhost:{max}\n"));
        let options = [
            "-np",
            max,
            "--max-np",
            max,
            "--elastic-timeout",
            "30",
            "--host-discovery-script",
            &script,
        ];
        let mut launch = RunningLaunch::start(&options, steps);
        launch.until(&[&format!("step 20 of {max} ranks")]);
        hosts(&folder, &format!("127.0.0.2:{max}\n"));
        launch.until(&["is let go: its host is not there for the job any more"]);
        launch.until(&[&format!("step {steps} of {max} ranks")]);
        let (status, lines) = launch.end();
        assert_eq!(status, 0, "{lines:#?}");
        let first = lines.iter().filter(|l| l.contains("step 5 of ")).count();
        assert_eq!(first, 1, "it began anew: {lines:#?}");
    }
}

#[test]
fn a_worker_that_is_let_go_says_why() {
    let folder = Folder::new("says_why");
    hosts(&folder, "localhost:1\n127.0.0.2:1\n");
    let script = script(&folder);
    let options = ["-np", "2", "--host-discovery-script", &script];
    let mut launch = RunningLaunch::start(&options, LONG);
    launch.until(&["step 5 of 2 ranks"]);
    hosts(&folder, "localhost:1\n");
    launch.until(&["ended: its host is not there for the job any more"]);
    signal(&launch.child.id().to_string(), "TERM");
    launch.end();
}

fn fails(options: &[&str], program: &[&str]) -> (i32, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["launch", "hvd"])
        .args(options)
        .arg("--")
        .args(program)
        .output()
        .unwrap();
    (
        done.status.code().unwrap(),
        String::from_utf8(done.stderr).unwrap(),
    )
}

#[test]
fn a_program_that_fails_before_the_first_round_is_not_restarted() {
    let (status, error) = fails(&["-np", "2", "--min-np", "1"], &["sh", "-c", "exit 7"]);
    assert_eq!(status, 7, "{error}");
    assert!(error.contains("ended with status 7"), "{error}");
}

#[test]
fn a_program_that_does_nothing_succeeds_and_a_missing_script_is_an_error() {
    let folder = Folder::new("not-elastic");
    let (status, error) = fails(
        &["-np", "2", "--min-np", "1"],
        &["sh", "-c", "env | grep -E 'HOROVOD|THALWEG'; exit 0"],
    );
    // The program did nothing, successfully.
    assert_eq!(status, 0, "{error}");
    let missing = Path::new(folder.path()).join("none");
    let missing = missing.to_str().unwrap();
    let (status, error) = fails(&["-np", "2", "--host-discovery-script", missing], &["true"]);
    assert_eq!(status, 1, "{error}");
    assert!(error.contains("the host discovery script"), "{error}");
}

#[test]
fn contradicting_flags_are_refused() {
    let of = |line: &str| {
        let options: Vec<&str> = line.split(' ').collect();
        fails(&options, &["true"])
    };
    for (line, why) in [
        ("-np 2 --min-np 3", "--min-np 3 is more than --np 2"),
        ("-np 2 --max-np 1", "--np 2 is more than --max-np 1"),
        (
            "-np 2 --max-np 4",
            "--max-np 4 needs --host-discovery-script",
        ),
        (
            "-np 3 --min-np 1 -H localhost:1,127.0.0.2:1",
            "the hosts have 2 slots for 3 ranks",
        ),
        (
            "-np 1 --min-np 1 -H localhost:1,localhost:1",
            "the host 'localhost' is named twice",
        ),
        (
            "-np 1 -H localhost:1 --host-discovery-script true",
            "the hosts are given twice",
        ),
        (
            "-np 1 --min-np 1 --restarts 1",
            "--restarts is of ranks that stay",
        ),
        (
            "-np 1 --min-np 1 --output-dir d",
            "--output-dir is of ranks that stay",
        ),
        (
            "-np 1 --min-np 1 --bind cores",
            "--bind are of ranks that stay",
        ),
        (
            "-np 1 --min-np 1 --trace t",
            "--trace is of ranks that stay",
        ),
        (
            "-np 1 --min-np 1 --explain",
            "--explain is of ranks that stay",
        ),
        (
            "-np 1 --min-np 1 -H other:1",
            "tasks on several hosts need --protection DIR",
        ),
    ] {
        let (status, error) = of(line);
        assert_eq!(status, 1, "{error}");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn each_elastic_option_makes_the_job_elastic() {
    for option in [
        "--reset-limit 3",
        "--elastic-timeout 60",
        "--blacklist-cooldown-range 1 2",
    ] {
        let options: Vec<&str> = option.split(' ').collect();
        let program = ["sh", "-c", "test $HOROVOD_ELASTIC = 1"];
        let (status, error) = fails(&[&["-np", "1"], &*options].concat(), &program);
        assert_eq!(status, 0, "{option}: {error}");
    }
}

#[test]
fn lines_that_cannot_be_written_are_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args("launch hvd -np 1 --min-np 1 -- echo line".split(' '))
        .stdout(full)
        .output()
        .unwrap();
    let error = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(74), "{error}");
    assert!(
        error.contains("could not be written: No space left"),
        "{error}"
    );
}
