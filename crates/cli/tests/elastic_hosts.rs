//! Elastic jobs on several hosts, with a fake ssh that runs its command on this host.
#![cfg(target_os = "linux")]

#[path = "support/elastic.rs"]
mod elastic_launch;
mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;

use elastic_launch::{LONG, RunningLaunch, hosts, run_worker, script, signal, worker_command};
use support::fake_ssh::FakeSsh;
use support::{errors, works};
use wait::until;

#[test]
fn worker() {
    run_worker();
}

/// Fake ssh, which notes its process for each host. A host is away, or hangs, while there is a file of that name.
fn fake_ssh(name: &str) -> FakeSsh {
    let ssh = FakeSsh::new(name);
    ssh.script(
        "[ ! -e \"$T/away $1\" ] || { echo no route to $1 >&2; exit 255; }\n\
         [ ! -e \"$T/hangs $1\" ] || exec sleep 600\n\
         echo $$ > \"$T/new $1\"; mv \"$T/new $1\" \"$T/ssh $1\"\n\
         cd /\nexec sh -c \"$2\"\n",
    );
    ssh
}

/// Launches workers.
fn launch(ssh: &FakeSsh, options: &[&str], steps: u32) -> RunningLaunch {
    let command = worker_command();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    RunningLaunch::of(&mut ssh.launcher("hvd", options, &command), steps)
}

/// Options of an elastic job, on a network that is trusted.
fn elastic<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let own = ["--unprotected-network", "--grace", "1"];
    [&own, options].concat()
}

/// Process of the ssh of a host.
fn ssh_of(ssh: &FakeSsh, host: &str) -> String {
    let process = fs::read_to_string(ssh.0.join(&format!("ssh {host}")));
    process.unwrap().trim().to_owned()
}

#[track_caller]
fn nothing_is_left(ssh: &FakeSsh) {
    until("a process outlives its launcher", || {
        ssh.processes().is_empty()
    });
}

#[test]
fn a_host_is_lost_and_comes_back_while_the_others_go_on() {
    let ssh = fake_ssh("comes back");
    let options = ["-np", "2", "--min-np", "1", "-H", "a:1,b:1"];
    let cooldown = ["--blacklist-cooldown-range", "1", "1"];
    let mut launch = launch(&ssh, &elastic(&[&options[..], &cooldown].concat()), LONG);
    launch.until(&["step 5 of 2 ranks"]);
    fs::write(ssh.0.join("away b"), "").unwrap();
    signal(&ssh_of(&ssh, "b"), "KILL");
    launch
        .until(&["the host 'b' is lost: ./ssh ended with status 137: it starts no worker for 1 s"]);
    launch.until(&["of 1 ranks"]);
    let told = "the host 'b' cannot be used: ./ssh ended with status 255: no route to b: it is tried again after 1 s";
    launch.until(&[told]);
    fs::remove_file(ssh.0.join("away b")).unwrap();
    launch.until(&["the host 'b' can be used again"]);
    launch.until(&["of 2 ranks"]);
    signal(&launch.child.id().to_string(), "TERM");
    let (status, lines) = launch.end();
    assert_eq!(status, 128 + 15, "{lines:#?}");
    // It has failed once, whatever failed with it.
    let lost = lines.iter().filter(|l| l.contains("the host 'b' is lost"));
    assert_eq!(lost.count(), 1, "{lines:#?}");
    nothing_is_left(&ssh);
}

#[test]
fn hosts_that_hang_or_cannot_be_reached_do_not_hold_up_the_others() {
    let ssh = fake_ssh("others");
    fs::write(ssh.0.join("away b"), "").unwrap();
    fs::write(ssh.0.join("hangs c"), "").unwrap();
    let options = ["-np", "2", "--min-np", "2", "-H", "localhost:1,a:1,b:1,c:1"];
    let (status, lines) = launch(&ssh, &elastic(&options), 20).end();
    assert_eq!(status, 0, "{lines:#?}");
    let told = "the host 'b' cannot be used: ./ssh ended with status 255: no route to b";
    assert!(lines.iter().any(|l| l.starts_with(told)), "{lines:#?}");
    assert!(
        lines.iter().any(|l| l.contains("step 20 of 2 ranks")),
        "{lines:#?}"
    );
    assert_eq!(ssh.processes(), []);
}

#[test]
fn a_job_without_enough_ranks_ends_and_names_the_hosts_that_are_missing() {
    let ssh = fake_ssh("too few");
    fs::write(ssh.0.join("away b"), "").unwrap();
    let options = [
        "-np",
        "2",
        "--min-np",
        "2",
        "-H",
        "a:1,b:1",
        "--elastic-timeout",
        "1",
    ];
    let (status, lines) = launch(&ssh, &elastic(&options), LONG).end();
    assert_eq!(status, 1, "{lines:#?}");
    let end = lines
        .iter()
        .position(|l| l.starts_with("error: 1 workers are there after"));
    let end = end.unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(
        lines[end].contains("a round needs 2: lower --min-np"),
        "{lines:#?}"
    );
    let reason = "the host 'b': ./ssh ended with status 255: no route to b";
    assert!(lines[end..].iter().any(|l| l == reason), "{lines:#?}");
    assert_eq!(ssh.processes(), []);

    // Without any host that can be used, it ends at once.
    fs::write(ssh.0.join("away a"), "").unwrap();
    let (status, lines) = launch(&ssh, &elastic(&options[..6]), LONG).end();
    assert_eq!(status, 1, "{lines:#?}");
    let end = lines
        .iter()
        .position(|l| l == "error: none of the hosts can be used");
    let end = end.unwrap_or_else(|| panic!("{lines:#?}"));
    let named = |host: &str| {
        lines[end..]
            .iter()
            .any(|l| l.starts_with(&format!("the host '{host}': ")))
    };
    assert!(named("a") && named("b"), "{lines:#?}");
}

/// Error of a job on host b alone.
#[track_caller]
fn refused(ssh: &FakeSsh, program: &str) -> String {
    let options = ["-np", "1", "--min-np", "1", "-H", "b:1"];
    let done = ssh.launcher("hvd", &elastic(&options), &[program]).output();
    let done = done.unwrap();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert_eq!(ssh.processes(), []);
    let text = errors(&done);
    text[text.find("error: ").unwrap()..].to_owned()
}

#[test]
fn a_host_that_fails_a_check_does_not_join() {
    let ssh = fake_ssh("checks");
    let told = refused(&ssh, "no-such-program");
    let program =
        "none of the hosts can be used\nthe host 'b': there is no program 'no-such-program'";
    assert!(told.contains(program), "{told}");
    ssh.script("echo '{\"answer\":\"hello\",\"protocol\":1,\"version\":\"0.0.9\"}'\nexec cat > /dev/null\n");
    let told = refused(&ssh, "true");
    assert!(
        told.contains("the host 'b': its agent has version 0.0.9"),
        "{told}"
    );
    // The address of the launcher leads to another machine.
    let agent = env!("CARGO_BIN_EXE_thalweg");
    let other = format!(
        "/\"connect\"/s/\"nonce\":\"[0-9a-f]*\"/\"nonce\":\"{:032}\"/",
        0
    );
    ssh.script(&format!("sed -u '{other}' | \"{agent}\" launch agent\n"));
    let told = refused(&ssh, "true");
    let reached =
        "the host 'b': it does not reach the launcher at 127.0.0.1: another program answers at";
    assert!(
        told.contains(reached) && told.contains("give --address"),
        "{told}"
    );
}

#[test]
fn a_host_that_was_not_needed_replaces_one_that_is_lost() {
    let ssh = fake_ssh("spare");
    let options = ["-np", "2", "--max-np", "2", "-H", "a:1,b:1,c:1"];
    let mut launch = launch(&ssh, &elastic(&options), LONG);
    let first = launch.until(&["worker 0 | worker ", " is on host "]);
    launch.until(&["step 5 of 2 ranks"]);
    signal(&ssh_of(&ssh, first.rsplit(' ').next().unwrap()), "KILL");
    launch.until(&["worker 2 | worker ", " is rank "]);
    signal(&launch.child.id().to_string(), "TERM");
    let (status, lines) = launch.end();
    assert_eq!(status, 128 + 15, "{lines:#?}");
    assert_eq!(ssh.processes(), []);
}

#[test]
fn agents_come_and_go_with_the_discovery_script() {
    let ssh = fake_ssh("script");
    hosts(&ssh.0, "localhost:1\n");
    let script = script(&ssh.0);
    let options = [
        "-np",
        "1",
        "--max-np",
        "2",
        "--host-discovery-script",
        &script,
    ];
    let mut job = launch(&ssh, &elastic(&options), LONG);
    job.until(&["of 1 ranks"]);
    assert_eq!(ssh.log(), None);
    hosts(&ssh.0, "localhost:1\nb:1\n");
    job.until(&["of 2 ranks"]);
    let agent = ssh_of(&ssh, "b");
    hosts(&ssh.0, "localhost:1\n");
    job.until(&["is let go: its host is not there for the job any more"]);
    job.until(&["of 1 ranks"]);
    until("the agent of a host that has left does not end", || {
        let all = ssh.processes();
        !all.iter().any(|(number, _)| number.to_string() == agent)
    });
    // Another ssh hangs, and sees no end of its input.
    fs::write(ssh.0.join("hangs c"), "").unwrap();
    hosts(&ssh.0, "b:1\nc:1\n");
    until("the new hosts are not opened", || {
        let all = ssh.processes();
        let runs = |name: &str| all.iter().any(|(_, line)| line.contains(name));
        runs("launch agent") && runs("sleep 600")
    });
    job.child.kill().unwrap();
    nothing_is_left(&ssh);
    job.end_killed();

    // A host that comes to a network that is not trusted is refused, and the job goes on.
    hosts(&ssh.0, "localhost:1\n");
    let mut job = launch(&ssh, &options, LONG);
    job.until(&["of 1 ranks"]);
    hosts(&ssh.0, "localhost:1\nb:1\n");
    job.until(&["the host 'b' cannot be used: tasks on several hosts need --protection DIR"]);
    job.until(&["of 1 ranks"]);
    signal(&job.child.id().to_string(), "TERM");
    let (status, lines) = job.end();
    assert_eq!(status, 128 + 15, "{lines:#?}");
}

#[test]
fn a_job_on_several_hosts_is_protected_by_keys() {
    let ssh = fake_ssh("keys");
    let keys = ssh.0.at("keys");
    works(&["protect", &keys, "127.0.0.1"]);
    let options = ["-np", "2", "--min-np", "2", "-H", "localhost:1,b:1"];
    let options = [&options[..], &["--protection", &keys]].concat();
    let (status, lines) = launch(&ssh, &options, 5).end();
    assert_eq!(status, 0, "{lines:#?}");
    let told = |l: &String| l.contains("step 5 of 2 ranks");
    assert!(lines.iter().any(told), "{lines:#?}");
}

#[test]
fn workers_of_other_hosts_get_their_folder_and_variables() {
    let ssh = fake_ssh("variables");
    fs::write(ssh.0.join("file"), "user@b slots=1 address=127.0.0.1\n").unwrap();
    let say = r#"echo "$HOROVOD_ELASTIC $HOROVOD_HOSTNAME ${#THALWEG_JOB_SECRET} $THALWEG_SET $GIVEN $(pwd)""#;
    let given = ["-np", "1", "--min-np", "1", "--env", "GIVEN=it's given"];
    for (front, hosts) in [("hvd", ["-H", "user@b:1"]), ("ssh", ["--hosts", "file"])] {
        let options = elastic(&[&given[..], &hosts].concat());
        let mut launcher = ssh.launcher(front, &options, &["sh", "-c", say]);
        let done = launcher.env("THALWEG_SET", "a b").output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let said = String::from_utf8(done.stdout).unwrap();
        let folder = ssh.0.path().display();
        let expected = format!("worker 0 | 1 user@b 32 a b it's given {folder}");
        assert!(said.contains(&expected), "{said}");
    }
}
