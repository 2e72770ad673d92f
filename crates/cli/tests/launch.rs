//! `thalweg launch local`: tasks that start and end together.
#![cfg(unix)]

mod support;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use support::fails;

/// Launches one server and two workers of this shell script, whose arguments are the task's.
fn launch(script: &str) -> Output {
    launch_with(&[], script)
}

/// The same, with more flags.
fn launch_with(flags: &[&str], script: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args([
            "launch",
            "local",
            "--free-ports",
            "--ps",
            "1",
            "--workers",
            "2",
            "--grace",
            "1",
        ])
        .args(flags)
        .args(["--", "sh", "-c", script, "task"])
        .output()
        .unwrap()
}

#[test]
fn each_task_gets_its_flags_and_its_lines_are_prefixed() {
    let done = launch(r#"echo "I am $2 $4 of $6 and $8"; echo oh >&2"#);
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    let line = |task: &str| {
        let found = said.lines().find(|l| l.trim_start().starts_with(task));
        found.unwrap_or_else(|| panic!("{task}: {said}")).to_owned()
    };
    let hosts: Vec<String> = ["ps 0 |", "worker 0 |", "worker 1 |"]
        .iter()
        .map(|task| {
            let line = line(task);
            let (own, hosts) = line.split_once(" of ").unwrap();
            let named = task.trim_end_matches(" |");
            assert!(own.ends_with(&format!("I am {named}")), "{line}");
            hosts.to_owned()
        })
        .collect();
    assert!(hosts.iter().all(|h| *h == hosts[0]), "{hosts:?}");
    let (ps, workers) = hosts[0].split_once(" and ").unwrap();
    assert_eq!((ps.split(',').count(), workers.split(',').count()), (1, 2));
    let errors = String::from_utf8(done.stderr).unwrap();
    assert_eq!(errors.lines().filter(|l| l.ends_with("| oh")).count(), 3);
}

/// Launches tasks under a limit on open files. Returns the error.
fn limited(limit: u32, tasks: &str, free_ports: &str) -> String {
    let script = format!(
        "ulimit -n {limit}; exec \"$0\" launch local {free_ports} --ps {tasks} --workers {tasks} -- sh -c 'exec sleep 60' task"
    );
    let done = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_thalweg")])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn the_limit_on_open_files_is_named_with_its_command() {
    // The ports reach the limit, or the pipes of the tasks.
    for (limit, tasks) in [(40, "40"), (40, "10")] {
        let said = limited(limit, tasks, "--free-ports");
        assert!(said.contains("too many files are open"), "{said}");
        assert!(said.contains("raise the limit, with `ulimit -n`"), "{said}");
        assert!(!said.contains("--free-ports"), "{said}");
    }
}

#[test]
fn the_first_failure_ends_all_tasks_and_is_the_status() {
    let began = Instant::now();
    let done = launch(r#"case "$2$4" in worker1) exit 3;; *) exec sleep 300;; esac"#);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.contains("worker 1 ended with status 3"), "{errors}");
    assert!(began.elapsed() < Duration::from_secs(120));
}

#[test]
fn a_failed_task_is_started_again_on_request() {
    let folder = std::env::temp_dir().join(format!("thalweg-restarts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // The server is killed once, the first worker fails once and then is done, the second one waits for it.
    let script = format!(
        r#"cd {}; me="$2$4"
        if [ $me = worker1 ]; then until [ -e worker0.done ]; do sleep 0.1; done; exit 0; fi
        if [ -e $me ]; then
            if [ $me = ps0 ]; then exec sleep 300; fi
            touch worker0.done; exit 0
        fi
        touch $me
        if [ $me = ps0 ]; then kill -9 $$; else exit 3; fi"#,
        folder.display()
    );
    let done = launch_with(&["--restarts", "1"], &script);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(done.status.success(), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    for note in [
        "ps 0 ended by SIGKILL: it is started again (1 of 1)",
        "worker 0 ended with status 3: it is started again (1 of 1)",
    ] {
        assert!(errors.contains(note), "{note}: {errors}");
    }
}

#[test]
fn a_task_that_fails_too_often_ends_all() {
    let script = r#"case "$2$4" in worker1) exit 3;; *) exec sleep 300;; esac"#;
    let done = launch_with(&["--restarts", "2"], script);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(
        errors.contains("worker 1 ended with status 3, after 2 restarts"),
        "{errors}"
    );
    assert_eq!(errors.matches("it is started again").count(), 2, "{errors}");
}

#[test]
fn servers_are_terminated_after_the_workers() {
    let done = launch(r#"case "$2" in ps) exec sleep 300;; *) exit 0;; esac"#);
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_missing_program_is_named() {
    let done = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["launch", "local", "--free-ports", "--", "/no/such/program"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(
        errors.contains("'/no/such/program' cannot be started"),
        "{errors}"
    );
}

#[test]
fn a_program_beside_the_launcher_needs_no_folder() {
    use std::os::unix::fs::PermissionsExt;

    let folder = std::env::temp_dir().join(format!("thalweg-beside-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let launcher = folder.join("thalweg");
    std::fs::copy(env!("CARGO_BIN_EXE_thalweg"), &launcher).unwrap();
    let program = folder.join("trains");
    std::fs::write(&program, "#!/bin/sh\necho I train\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let launched = Command::new(&launcher)
        .args(["launch", "local", "--free-ports", "--", "trains"])
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(launched.status.success(), "{launched:?}");
    let said = String::from_utf8(launched.stdout).unwrap();
    assert_eq!(said.matches("I train").count(), 2, "{said}");
}

/// Launches with these flags, successfully, and returns the output.
#[track_caller]
fn said(flags: &[&str], command: &[&str]) -> String {
    let launched = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["launch", "local"])
        .args(flags)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    assert!(launched.status.success(), "{launched:?}");
    String::from_utf8(launched.stdout).unwrap()
}

#[test]
fn ranks_are_started_in_place_of_a_cluster() {
    let script = r#"echo "$HOROVOD_RANK of $HOROVOD_SIZE, ${#THALWEG_JOB_SECRET} $#""#;
    let text = said(&["-np", "2"], &["sh", "-c", script, "task"]);
    for line in ["rank 0 | 0 of 2, 32 0", "rank 1 | 1 of 2, 32 0"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn an_explanation_passes_over_a_taken_port_and_starts_nothing() {
    // An error is another program that listens there.
    let _taken = std::net::TcpListener::bind("127.0.0.1:2220");
    let flags = ["--workers", "2", "--explain", "--json"];
    let plan: serde_json::Value =
        serde_json::from_str(&said(&flags, &["/no/such/program"])).unwrap();
    let tasks = plan["tasks"].as_array().unwrap();
    let addresses: Vec<&str> = tasks
        .iter()
        .map(|t| t["address"].as_str().unwrap())
        .collect();
    assert_eq!(addresses.len(), 3, "{plan}");
    assert!(!addresses.contains(&"127.0.0.1:2220"), "{plan}");
    assert_eq!(tasks[0]["env"]["CUDA_VISIBLE_DEVICES"], "");
}

#[cfg(target_os = "linux")]
#[test]
fn tasks_run_on_their_cores() {
    let cores = std::thread::available_parallelism().unwrap().get();
    if cores < 2 {
        println!("SKIPPED: this machine has one core");
        return;
    }
    let flags = ["--free-ports", "--bind", "cores"];
    let text = said(
        &flags,
        &["sh", "-c", "grep Cpus_allowed_list /proc/self/status"],
    );
    let lists: Vec<&str> = text
        .lines()
        .map(|l| l.rsplit('|').next().unwrap())
        .collect();
    assert_eq!(lists.len(), 2, "{text}");
    assert_ne!(lists[0], lists[1], "{text}");
}

#[test]
fn metrics_of_tasks_are_at_the_addresses_that_are_told() {
    let script = r#"echo "metrics of $1 $2 $3 $4 at $THALWEG_METRICS""#;
    let output = launch_with(&["--metrics"], script);
    let said = String::from_utf8(output.stdout).unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    let line = notes
        .lines()
        .find_map(|l| l.strip_prefix("metrics: thalweg top "));
    let addresses: Vec<&str> = line
        .unwrap_or_else(|| panic!("{notes}"))
        .split(' ')
        .collect();
    assert_eq!(addresses.len(), 3, "{said}");
    let tasks = [
        "ps --task_index 0",
        "worker --task_index 0",
        "worker --task_index 1",
    ];
    for (task, address) in tasks.iter().zip(addresses) {
        let told = format!("metrics of --job_name {task} at {address}");
        assert!(said.contains(&told), "{said}");
    }
    let ranks = fails(&["launch", "local", "-np", "2", "--metrics", "--", "true"]);
    assert!(ranks.contains("ranks have none"), "{ranks}");
}
