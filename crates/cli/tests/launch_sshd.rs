//! `thalweg launch ssh` with OpenSSH: a daemon of this test, at two addresses of this host.
#![cfg(target_os = "linux")]

#[path = "support/elastic.rs"]
mod elastic_launch;
#[path = "../../../tests/support/ports.rs"]
mod ports;
mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use elastic_launch::{LONG, RunningLaunch, STEPS, run_worker, signal, worker_command};
use ports::free_port;
use support::Folder;
use support::fake_ssh::{FakeSsh, write_script};
use wait::until;

/// SSH daemon, killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a daemon, and writes a script that reaches it. `None` if there is no OpenSSH, or it may not run.
fn daemon(folder: &Folder, ssh: &Path) -> Option<Daemon> {
    let program = "/usr/sbin/sshd";
    // The daemon asks for this folder when root runs it.
    let _ = fs::create_dir("/run/sshd");
    if !Path::new(program).exists() {
        return None;
    }
    for key in ["host_key", "user_key"] {
        let path = folder.at(key);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &path])
            .status();
        made.ok().filter(|status| status.success())?;
    }
    let port = free_port();
    let at = |name: &str| folder.at(name);
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
         UsePAM no\nPidFile none\n",
        at("host_key"),
        at("user_key.pub")
    );
    fs::write(folder.join("config"), config).unwrap();
    let child = Command::new(program)
        .args(["-D", "-f", &at("config")])
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut daemon = Daemon(child);
    let mut ended = false;
    until("the daemon does not listen", || {
        ended = daemon.0.try_wait().unwrap().is_some();
        ended || TcpStream::connect(("127.0.0.3", port)).is_ok()
    });
    let script = format!(
        "exec ssh -F none -p {port} -i {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes \"$@\"\n",
        at("user_key")
    );
    write_script(ssh, &script);
    (!ended).then_some(daemon)
}

/// Starts a daemon for a test; `None`, with a line that says so, where there is none and none is required.
fn daemon_or_skip(folder: &Folder, ssh: &FakeSsh) -> Option<Daemon> {
    let daemon = daemon(folder, &ssh.0.join("ssh"));
    if daemon.is_none() {
        let required = std::env::var("REQUIRE_SSHD").is_ok_and(|v| v == "1");
        assert!(!required, "no OpenSSH daemon starts");
        println!("SKIPPED: no OpenSSH daemon starts (/usr/sbin/sshd)");
    }
    daemon
}

/// Two names of this host with a user, which makes them other hosts.
fn two_hosts() -> [String; 2] {
    let user = Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    ["127.0.0.2", "127.0.0.3"].map(|ip| format!("{}@{ip}", user.trim()))
}

#[test]
fn worker() {
    run_worker();
}

#[test]
fn an_elastic_job_goes_on_when_the_ssh_of_a_host_is_killed() {
    let ssh = FakeSsh::new("sshd elastic");
    let folder = Folder::new("sshd-elastic");
    let Some(_daemon) = daemon_or_skip(&folder, &ssh) else {
        return;
    };
    let hosts = two_hosts().map(|host| format!("{host}:1")).join(",");
    let steps = format!("{STEPS}={LONG}");
    let options = ["-np", "2", "--min-np", "1", "-H", &hosts, "--env", &steps];
    let cooldown = [
        "--blacklist-cooldown-range",
        "0",
        "0",
        "--unprotected-network",
    ];
    let options = [&options[..], &cooldown].concat();
    let command = worker_command();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut launch = RunningLaunch::of(&mut ssh.launcher("hvd", &options, &command), LONG);
    launch.until(&["step 5 of 2 ranks"]);
    let all = ssh.processes().into_iter();
    let mut clients =
        all.filter(|(_, line)| line.starts_with("ssh ") && line.contains("127.0.0.3"));
    signal(&clients.next().unwrap().0.to_string(), "KILL");
    launch.until(&["@127.0.0.3' is lost: ./ssh ended with status 137"]);
    launch.until(&["worker 2 | worker ", " is rank "]);
    signal(&launch.child.id().to_string(), "TERM");
    let (status, lines) = launch.end();
    assert_eq!(status, 128 + 15, "{lines:#?}");
    assert_eq!(ssh.processes(), []);
}

#[test]
fn tasks_run_over_openssh_and_none_outlives_a_killed_launcher() {
    let ssh = FakeSsh::new("sshd");
    let folder = Folder::new("sshd");
    let Some(_daemon) = daemon_or_skip(&folder, &ssh) else {
        return;
    };
    let hosts = two_hosts().join(",");
    let options = [
        "-H",
        &hosts,
        "--unprotected-network",
        "--free-ports",
        "--env",
        "T",
    ];
    let script = r#"echo "$2 $4 of $SSH_CONNECTION"; pwd"#;
    let done = ssh
        .launcher("ssh", &options, &["sh", "-c", script, "task"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    let worker = said.lines().find(|l| l.contains("| worker 1 of "));
    assert!(worker.unwrap().contains(" 127.0.0.3 "), "{said}");
    assert!(said.contains(ssh.0.path().to_str().unwrap()), "{said}");

    let script = r#"trap '' TERM; echo $$ > "$T/$2$4.tmp"; mv "$T/$2$4.tmp" "$T/$2$4"; while :; do sleep 0.05; done"#;
    let mut child = ssh
        .launcher("ssh", &options, &["sh", "-c", script, "task"])
        .spawn()
        .unwrap();
    let tasks = ["ps0", "worker0", "worker1"].map(|task| {
        let file = ssh.0.join(task);
        until("a task does not start", || file.exists());
        fs::read_to_string(file).unwrap().trim().to_owned()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    until("a task outlives its launcher", || {
        let runs = |task: &String| {
            let state = fs::read_to_string(format!("/proc/{task}/stat"));
            state.is_ok_and(|s| !s.contains(") Z "))
        };
        !tasks.iter().any(runs)
    });
    until("a process outlives its launcher", || {
        ssh.processes().is_empty()
    });
}
