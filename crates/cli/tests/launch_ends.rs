//! `thalweg launch` under signals, a full disk, a closed pipe, a lost terminal, and its own death: no process is left behind.
#![cfg(target_os = "linux")]

mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use support::{Folder, errors, ignores};
use wait::until;

/// Shell code that writes the process ID to a file of the task, atomically.
const WRITE_PID: &str = r#"echo $$ > "$T/$2$4.tmp"; mv "$T/$2$4.tmp" "$T/$2$4";"#;

/// Launches one server and one worker of this shell script; its variable T names the folder.
fn launch(folder: &Folder, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command
        .args(["launch", "local", "--free-ports"])
        .args(options)
        .args(["--", "sh", "-c", &format!("{WRITE_PID} {script}"), "task"])
        .env("T", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits for the process ID of a task.
#[track_caller]
fn number(folder: &Folder, file: &str) -> u32 {
    let file = folder.join(file);
    until("the task does not start", || file.exists());
    let text = std::fs::read_to_string(file).unwrap();
    text.trim().parse().unwrap()
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(sent.unwrap().success(), "kill -s {name} {process}");
}

fn runs(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
    // A zombie does not run.
    status.is_ok_and(|s| !s.contains(") Z "))
}

fn ends(mut child: Child) -> Output {
    until("the launcher does not end", || {
        child.try_wait().unwrap().is_some()
    });
    child.wait_with_output().unwrap()
}

/// Sends signals to the launcher once both tasks run, and waits for its end.
fn signalled(options: &[&str], signals: &[&str], script: &str) -> (Output, Folder) {
    let folder = Folder::new("launch");
    let child = launch(&folder, options, script).spawn().unwrap();
    let tasks = ["ps0", "worker0"].map(|task| number(&folder, task));
    for name in signals {
        signal(child.id(), name);
        // Two pending signals of a kind are merged.
        std::thread::sleep(Duration::from_millis(300));
    }
    let output = ends(child);
    assert!(tasks.iter().all(|&task| !runs(task)), "a task is left");
    (output, folder)
}

/// Script that saves on SIGTERM and ends.
const SAVES: &str = r#"trap 'touch "$T/saved$2"; exit 0' TERM; while :; do sleep 0.05; done"#;

#[test]
fn a_signal_to_the_launcher_ends_its_tasks_and_is_its_status() {
    for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
        if ignores(number) {
            println!("SKIPPED: SIG{name}, which these tests ignore, and so the launcher");
            continue;
        }
        let (output, folder) = signalled(&[], &[name], SAVES);
        let status = Some(128 + number as i32);
        assert_eq!(output.status.code(), status, "{name}: {output:?}");
        let said = errors(&output);
        assert!(said.contains(&format!("ended by SIG{name}")), "{said}");
        for job in ["ps", "worker"] {
            let saved = folder.join(&format!("saved{job}")).exists();
            assert!(saved, "{name}: {job} was not asked");
        }
    }
}

/// Script that ignores SIGTERM.
const DEAF: &str = r#"trap '' TERM; while :; do sleep 0.05; done"#;

#[test]
fn servers_get_the_signal_when_the_workers_have_ended() {
    let script = r#"
        case $2 in
            ps) trap 'touch "$T/ended"; exit 0' TERM ;;
            *) trap 'sleep 0.3; [ -e "$T/ended" ] || touch "$T/saved"; exit 0' TERM ;;
        esac
        while :; do sleep 0.05; done"#;
    let (output, folder) = signalled(&[], &["TERM"], script);
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert!(folder.join("saved").exists() && folder.join("ended").exists());
}

#[test]
fn a_second_signal_kills_tasks_that_do_not_end() {
    let (output, _) = signalled(&["--grace", "600"], &["TERM", "TERM"], DEAF);
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let said = errors(&output);
    assert!(
        said.contains("killed: ps 0, after a second signal"),
        "{said}"
    );
}

#[test]
fn a_task_that_exceeds_its_grace_is_killed_and_named() {
    let (output, _) = signalled(&["--grace", "1"], &["TERM"], DEAF);
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let said = errors(&output);
    let named = "killed: worker 0 did not end within 1 s of SIGTERM";
    assert!(said.contains(named), "{said}");
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let folder = Folder::new("launch_nohup");
    let script = r#"while [ ! -e "$T/go" ]; do sleep 0.05; done"#;
    let launched = launch(&folder, &[], script);
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"trap '' HUP; exec "$0" "$@""#])
        .arg(launched.get_program())
        .args(launched.get_args())
        .env("T", folder.path())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    number(&folder, "worker0");
    signal(child.id(), "HUP");
    std::thread::sleep(Duration::from_millis(200));
    File::create(folder.join("go")).unwrap();
    let output = ends(child);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn tasks_are_killed_with_their_launcher() {
    let folder = Folder::new("launch_killed");
    let mut child = launch(&folder, &[], DEAF).spawn().unwrap();
    let tasks = ["ps0", "worker0"].map(|task| number(&folder, task));
    child.kill().unwrap();
    child.wait().unwrap();
    until("a task outlives its launcher", || {
        tasks.iter().all(|&task| !runs(task))
    });
}

#[test]
fn children_of_a_task_end_with_it() {
    let folder = Folder::new("launch_group");
    let script = r#"sleep 300 & echo $! > "$T/child$2""#;
    let output = ends(launch(&folder, &[], script).spawn().unwrap());
    assert!(output.status.success(), "{output:?}");
    for job in ["ps", "worker"] {
        let child = number(&folder, &format!("child{job}"));
        until("a child is left", || !runs(child));
    }
}

#[test]
fn a_task_that_a_signal_has_ended_is_named_with_the_signal() {
    let folder = Folder::new("launch_signal");
    let script = r#"case $2 in worker) kill -9 $$;; esac; exec sleep 300"#;
    let output = ends(launch(&folder, &[], script).spawn().unwrap());
    assert_eq!(output.status.code(), Some(137), "{output:?}");
    let said = errors(&output);
    assert!(said.contains("error: worker 0 ended by SIGKILL"), "{said}");
}

#[test]
fn the_first_of_several_failures_is_the_status_whatever_its_number() {
    let folder = Folder::new("launch_first");
    let script = r#"case $2 in ps) sleep 0.03; exit 4;; esac; exit 3"#;
    let output = ends(launch(&folder, &[], script).spawn().unwrap());
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = errors(&output);
    assert!(
        said.contains("error: worker 0 ended with status 3"),
        "{said}"
    );
}

#[test]
fn a_write_beyond_the_limit_on_file_sizes_is_an_error_of_the_task() {
    let folder = Folder::new("launch_size");
    let script = r#"ulimit -f 1; head -c 100000 /dev/zero > "$T/big$2"; exit 5"#;
    let output = ends(launch(&folder, &[], script).spawn().unwrap());
    // The signal would end `head` alone, and the shell would say so.
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = errors(&output);
    assert!(said.contains("File too large"), "{said}");
}

/// Script that prints many lines, and then creates a file.
const TALKS: &str = r#"for i in $(seq 200); do echo "step $i"; done; touch "$T/done$2""#;

#[track_caller]
fn goes_on(folder: &Folder, output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(74), "{output:?}");
    let said = errors(output);
    assert!(said.contains(why), "{said}");
    for job in ["ps", "worker"] {
        let done = folder.join(&format!("done{job}")).exists();
        assert!(done, "{job} did not work to its end: {said}");
    }
}

#[test]
fn a_full_disk_loses_lines_with_an_error_but_not_the_job() {
    let folder = Folder::new("launch_full");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = launch(&folder, &[], TALKS).stdout(full).spawn();
    let output = ends(child.unwrap());
    goes_on(&folder, &output, "No space left on device");
}

#[test]
fn a_closed_pipe_loses_lines_with_an_error_but_not_the_job() {
    let folder = Folder::new("launch_pipe");
    let mut child = launch(&folder, &[], TALKS).spawn().unwrap();
    drop(child.stdout.take());
    let output = ends(child);
    goes_on(&folder, &output, "Broken pipe");
}

#[test]
fn a_full_standard_error_does_not_end_the_job() {
    let folder = Folder::new("launch_both");
    let full = |path: &str| File::options().write(true).open(path).unwrap();
    let mut command = launch(&folder, &[], &format!("{TALKS}; echo oh >&2"));
    let child = command.stdout(full("/dev/full")).stderr(full("/dev/full"));
    let output = ends(child.spawn().unwrap());
    goes_on(&folder, &output, "");
}

#[test]
fn a_launch_with_full_pipes_ends_on_a_signal() {
    let script = r#"while :; do echo "a line that nobody reads"; done"#;
    let folder = Folder::new("launch_unread");
    let mut child = launch(&folder, &[], script).spawn().unwrap();
    let unread = child.stdout.take();
    let task = number(&folder, "worker0");
    // Until the pipes are full.
    std::thread::sleep(Duration::from_millis(500));
    signal(child.id(), "TERM");
    let output = ends(child);
    drop(unread);
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert!(!runs(task));
}

#[test]
fn a_lost_terminal_does_not_end_the_job() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let open = || {
        let path = Path::new(name.to_str().unwrap());
        File::options().write(true).open(path).unwrap()
    };
    let folder = Folder::new("launch_terminal");
    let script = format!(r#"while [ ! -e "$T/go" ]; do sleep 0.05; done; {TALKS}"#);
    let mut command = launch(&folder, &[], &script);
    let child = command.stdout(open()).stderr(open()).spawn().unwrap();
    number(&folder, "worker0");
    drop(terminal);
    File::create(folder.join("go")).unwrap();
    let output = ends(child);
    goes_on(&folder, &output, "");
}
