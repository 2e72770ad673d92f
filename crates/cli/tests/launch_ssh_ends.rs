//! `thalweg launch ssh` under signals, and the death of its launcher, an agent or a host: no process is left behind.
#![cfg(target_os = "linux")]

mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;
use std::process::{Child, Command, Output};

use support::fake_ssh::FakeSsh;
use support::{errors, ignores};
use wait::until;

/// Launch of a server on host a, and workers on a and b.
struct Launch {
    ssh: FakeSsh,
    launcher: Child,
}

/// Script that ignores SIGTERM.
const DEAF: &str = r#"trap '' TERM; begin; while :; do sleep 0.05; done"#;

impl Launch {
    /// Starts a shell script on all hosts, and waits until all tasks have called `begin`.
    fn start(name: &str, options: &[&str], script: &str) -> Launch {
        let ssh = FakeSsh::new(name);
        let hosts = "a address=127.0.0.2\nb address=127.0.0.3\n";
        fs::write(ssh.0.join("hosts"), hosts).unwrap();
        let script = format!(r#"task=$2$4; begin() {{ touch "$T/$task"; }}; {script}"#);
        let flags = [
            "--hosts",
            "hosts",
            "--unprotected-network",
            "--free-ports",
            "--env",
            "T",
        ];
        let options = [&flags[..], options].concat();
        let command = ["sh", "-c", &script, "task"];
        let mut launcher = ssh.launcher("ssh", &options, &command);
        let launch = Launch {
            launcher: launcher.spawn().unwrap(),
            ssh,
        };
        for task in ["ps0", "worker0", "worker1"] {
            let file = launch.ssh.0.join(task);
            until("a task does not start", || file.exists());
        }
        launch
    }

    fn signal(&self, process: u32, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &process.to_string()])
            .status();
        assert!(sent.unwrap().success(), "kill -s {name} {process}");
    }

    /// Process of an agent.
    fn agent(&self) -> u32 {
        let all = self.ssh.processes().into_iter();
        let mut agents = all.filter(|(_, line)| line.ends_with("launch agent "));
        agents.next().unwrap().0
    }

    /// Waits for the end of the launcher, and checks that no process is left.
    #[track_caller]
    fn end(mut self) -> (Output, FakeSsh) {
        until("the launcher does not end", || {
            self.launcher.try_wait().unwrap().is_some()
        });
        assert_eq!(self.ssh.processes(), []);
        (self.launcher.wait_with_output().unwrap(), self.ssh)
    }
}

#[test]
fn a_signal_reaches_the_tasks_of_all_hosts() {
    let script = r#"trap 'touch "$T/saved$2$4"; exit 0' TERM; begin; while :; do sleep 0.05; done"#;
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        if ignores(number) {
            println!("SKIPPED: SIG{name}, which these tests ignore, and so the launcher");
            continue;
        }
        let launch = Launch::start("signal", &[], script);
        launch.signal(launch.launcher.id(), name);
        let (output, ssh) = launch.end();
        assert_eq!(
            output.status.code(),
            Some(128 + number as i32),
            "{output:?}"
        );
        for task in ["ps0", "worker0", "worker1"] {
            let saved = ssh.0.join(&format!("saved{task}")).exists();
            assert!(saved, "{task} was not asked");
        }
    }
}

#[test]
fn a_second_signal_kills_tasks_that_do_not_end() {
    let launch = Launch::start("twice", &["--grace", "600"], DEAF);
    launch.signal(launch.launcher.id(), "TERM");
    // Two pending signals of a kind are merged.
    std::thread::sleep(std::time::Duration::from_millis(300));
    launch.signal(launch.launcher.id(), "TERM");
    let (output, _) = launch.end();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let said = errors(&output);
    assert!(
        said.contains("killed: worker 1, after a second signal"),
        "{said}"
    );
}

#[test]
fn a_task_that_exceeds_its_grace_is_killed_and_named() {
    let launch = Launch::start("grace", &["--grace", "1"], DEAF);
    launch.signal(launch.launcher.id(), "TERM");
    let (output, _) = launch.end();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let said = errors(&output);
    let named = "killed: worker 1 did not end within 1 s of SIGTERM";
    assert!(said.contains(named), "{said}");
}

#[test]
fn no_process_outlives_a_killed_launcher() {
    let script = format!("sleep 300 & {DEAF}");
    let mut launch = Launch::start("killed", &[], &script);
    launch.launcher.kill().unwrap();
    launch.launcher.wait().unwrap();
    until("a process outlives its launcher", || {
        launch.ssh.processes().is_empty()
    });
}

#[test]
fn a_killed_agent_takes_its_tasks_along_and_ends_the_job() {
    let launch = Launch::start("agent", &["--grace", "1"], "begin; exec sleep 300");
    launch.signal(launch.agent(), "KILL");
    let (output, _) = launch.end();
    assert_eq!(output.status.code(), Some(255), "{output:?}");
    let said = errors(&output);
    let named = said.lines().any(|line| {
        line.starts_with("error: ")
            && line.contains(" was lost with the host '")
            && line.contains("./ssh ended with status 137")
    });
    assert!(named, "{said}");
}

#[test]
fn an_agent_that_hangs_does_not_hold_up_the_end() {
    let launch = Launch::start("hangs", &["--grace", "1"], "begin; exec sleep 300");
    launch.signal(launch.agent(), "STOP");
    launch.signal(launch.launcher.id(), "TERM");
    let (output, _) = launch.end();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
}

#[test]
fn a_terminated_agent_terminates_its_tasks() {
    let script = r#"trap 'touch "$T/saved$2$4"; exit 0' TERM; begin; while :; do sleep 0.05; done"#;
    let launch = Launch::start("terminated", &["--grace", "1"], script);
    let agents: Vec<u32> = launch
        .ssh
        .processes()
        .into_iter()
        .filter(|(_, line)| line.ends_with("launch agent "))
        .map(|(number, _)| number)
        .collect();
    assert_eq!(agents.len(), 2);
    agents
        .iter()
        .for_each(|&agent| launch.signal(agent, "TERM"));
    let (output, ssh) = launch.end();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(ssh.0.join("savedworker1").exists());
}

#[test]
fn a_launch_whose_output_nobody_reads_ends_on_a_signal() {
    let script = r#"begin; while :; do echo "a line that nobody reads"; done"#;
    let launch = Launch::start("unread", &["--grace", "1"], script);
    // Until the pipes and the window are full.
    std::thread::sleep(std::time::Duration::from_millis(700));
    launch.signal(launch.launcher.id(), "TERM");
    let (output, _) = launch.end();
    assert_eq!(output.status.code(), Some(143));
}
