//! `thalweg launch ssh`: clusters on several hosts, with a fake ssh that runs its command on this host.
#![cfg(target_os = "linux")]

mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;
use std::process::Output;

use support::fake_ssh::{FakeSsh, write_script};
use support::{errors, said};
use wait::until;

/// Fake ssh, and a file with two hosts.
fn two_hosts(name: &str) -> FakeSsh {
    let ssh = FakeSsh::new(name);
    let hosts =
        "# addresses of this machine\na address=127.0.0.2\nuser@b address=127.0.0.3 slots=2\n";
    fs::write(ssh.0.join("hosts"), hosts).unwrap();
    ssh
}

const FLAGS: [&str; 6] = [
    "--hosts",
    "hosts",
    "--unprotected-network",
    "--free-ports",
    "--grace",
    "1",
];

/// Launches a server and two workers of a shell script.
fn launch(ssh: &FakeSsh, options: &[&str], script: &str) -> Output {
    let options = [&FLAGS[..], &["--workers", "2"], options].concat();
    let command = ["sh", "-c", script, "task"];
    ssh.launcher("ssh", &options, &command).output().unwrap()
}

#[test]
fn each_task_gets_its_flags_its_variables_and_the_folder() {
    let ssh = two_hosts("flags");
    let script = r#"echo "I am $*|$TF_CONFIG|$GIVEN|$THALWEG_SET|${CUDA_VISIBLE_DEVICES-unset}|$(pwd)|$THALWEG_UNPROTECTED_NETWORK""#;
    let options = [&FLAGS[..], &["--env", "GIVEN=it's given"]].concat();
    let command = ["sh", "-c", script, "task"];
    let mut launcher = ssh.launcher("ssh", &options, &command);
    let said = said(&launcher.env("THALWEG_SET", "a b").output().unwrap());
    // Host a has no slots, and so one worker; b has two slots.
    let line = |task: &str| {
        let start = format!("{task} | I am ");
        let found = said
            .lines()
            .find_map(|l| l.trim_start().strip_prefix(&start));
        found.unwrap_or_else(|| panic!("{task}: {said}")).to_owned()
    };
    let own = line("worker 2");
    let parts: Vec<&str> = own.split('|').collect();
    assert!(
        parts[0].starts_with("--job_name worker --task_index 2 --ps_hosts 127.0.0.2:"),
        "{own}"
    );
    let workers = parts[0].split("--worker_hosts ").nth(1).unwrap();
    let hosts: Vec<&str> = workers
        .split(',')
        .map(|w| w.split(':').next().unwrap())
        .collect();
    assert_eq!(hosts, ["127.0.0.2", "127.0.0.3", "127.0.0.3"]);
    let config: serde_json::Value = serde_json::from_str(parts[1]).unwrap();
    assert_eq!(config["task"]["type"], "worker");
    assert_eq!(config["task"]["index"], 2);
    assert_eq!(
        config["cluster"]["worker"][2],
        workers.split(',').nth(2).unwrap()
    );
    assert_eq!(parts[2..4], ["it's given", "a b"]);
    assert_eq!(parts[5], ssh.0.path().to_str().unwrap());
    assert_eq!(parts[6], "1");
    // A server sees no GPU.
    assert_eq!(line("ps 0").split('|').nth(4), Some(""));
    let log = ssh.log().unwrap();
    let hosts: Vec<&str> = log.lines().filter(|l| !l.starts_with("exec")).collect();
    assert_eq!(hosts.len(), 2, "{log}");
    assert_eq!(ssh.processes(), []);
}

#[test]
fn the_first_failure_ends_the_tasks_of_all_hosts_and_is_the_status() {
    let ssh = two_hosts("fails");
    let script = r#"case "$2$4" in worker1) exit 3;; *) exec sleep 300;; esac"#;
    let done = launch(&ssh, &[], script);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    let errors = errors(&done);
    assert!(
        errors.contains("error: worker 1 ended with status 3"),
        "{errors}"
    );
    assert_eq!(ssh.processes(), []);
}

#[test]
fn a_failed_task_is_started_again_on_its_host() {
    let ssh = two_hosts("again");
    let script = r#"if mkdir "$T/$2$4" 2>/dev/null && [ $2$4 = worker1 ]; then exit 3; fi"#;
    let options = [
        &FLAGS[..],
        &["--workers", "2", "--restarts", "1", "--env", "T"],
    ]
    .concat();
    let command = ["sh", "-c", script, "task"];
    let done = ssh.launcher("ssh", &options, &command).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let errors = errors(&done);
    let note = "worker 1 ended with status 3: it is started again (1 of 1)";
    assert!(errors.contains(note), "{errors}");
}

#[test]
fn a_program_that_is_missing_or_does_not_start_is_named() {
    let ssh = two_hosts("missing");
    let launch = |program: &str| {
        let done = ssh.launcher("ssh", &FLAGS, &[program]).output().unwrap();
        let code = done.status.code();
        (code, errors(&done))
    };
    let (code, errors) = launch("no-such-program");
    assert_eq!(code, Some(1), "{errors}");
    for host in ["a", "user@b"] {
        let told = format!("the host '{host}': there is no program 'no-such-program'");
        assert!(errors.contains(&told), "{errors}");
    }
    write_script(&ssh.0.join("broken"), "");
    fs::write(ssh.0.join("broken"), "#!/no/such/interpreter\n").unwrap();
    let (code, errors) = launch("./broken");
    assert_eq!(code, Some(127), "{errors}");
    assert!(errors.contains("'./broken' cannot be started"), "{errors}");
    assert_eq!(ssh.processes(), []);
}

#[test]
fn a_host_without_the_folder_is_named() {
    let ssh = two_hosts("folder");
    let agent = env!("CARGO_BIN_EXE_thalweg");
    // The agent of b runs where the folder is hidden from it: it is another name there.
    ssh.script(&format!(
        "case $1 in a) exec sh -c \"$2\";; esac\nsed -u \"s/it's folder/it's hidden/\" | \"{agent}\" launch agent\n"
    ));
    let done = launch(&ssh, &[], "true");
    let errors = errors(&done);
    assert!(
        errors.contains("the host 'user@b': there is no folder"),
        "{errors}"
    );
}

#[test]
fn an_agent_of_another_version_is_named_with_both_versions() {
    let ssh = two_hosts("version");
    let hello = r#"{"answer":"hello","protocol":1,"version":"0.0.9"}"#;
    ssh.script(&format!(
        "case $1 in a) exec sh -c \"$2\";; esac\necho '{hello}'\nexec cat > /dev/null\n"
    ));
    let done = launch(&ssh, &[], "true");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let errors = errors(&done);
    let own = env!("CARGO_PKG_VERSION");
    let told = format!("its agent has version 0.0.9 (protocol 1), and the launcher {own}");
    assert!(
        errors.contains("'user@b' is not reached") && errors.contains(&told),
        "{errors}"
    );
    assert_eq!(ssh.processes(), []);
}

#[test]
fn greetings_of_a_shell_are_passed_over() {
    let ssh = two_hosts("greeting");
    ssh.script("echo Welcome to $1; echo; echo '{\"a\": 1}'\nexec sh -c \"$2\"\n");
    said(&launch(&ssh, &[], "true"));
}

#[test]
fn an_agent_that_writes_what_is_no_message_loses_its_host() {
    let ssh = two_hosts("garbage");
    let agent = env!("CARGO_BIN_EXE_thalweg");
    ssh.script(&format!(
        "case $1 in a) exec sh -c \"$2\";; esac\n\"{agent}\" launch agent | sed -u '/\"line\"/s/.*/garbage/'\n"
    ));
    let script = r#"case "$2$4" in worker1) echo a line;; esac; exec sleep 300"#;
    let done = launch(&ssh, &[], script);
    assert_eq!(done.status.code(), Some(255), "{done:?}");
    let errors = errors(&done);
    let told = "error: worker 1 was lost with the host 'user@b': 'garbage' is no message";
    assert!(errors.contains(told), "{errors}");
}

#[test]
fn hosts_that_do_not_reach_each_other_are_shown_in_a_table() {
    let ssh = two_hosts("reach");
    let hosts = "a address=127.0.0.2\nb address=224.0.0.1\n";
    fs::write(ssh.0.join("hosts"), hosts).unwrap();
    let done = launch(&ssh, &[], "touch began");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let text = errors(&done);
    let row = text.lines().find(|l| l.trim_start().starts_with("a "));
    let row: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(row, ["a", "ok", "FAILS"], "{text}");
    assert!(text.contains("a to b at 224.0.0.1: "), "{text}");
    assert!(!ssh.0.join("began").exists());
    said(&launch(&ssh, &["--no-network-check"], "true"));
}

#[test]
fn several_hosts_need_keys_or_a_trusted_network() {
    let ssh = two_hosts("trust");
    let options = ["-H", "a,b"];
    let done = ssh.launcher("ssh", &options, &["true"]).output().unwrap();
    let errors = errors(&done);
    assert!(errors.contains("need --protection DIR"), "{errors}");
    assert_eq!(ssh.log(), None, "nothing was started");
}

#[test]
fn an_explanation_starts_nothing() {
    let ssh = two_hosts("explain");
    let hosts = ["--hosts", "hosts", "--unprotected-network", "--explain"];
    let launched = |options: &[&str]| {
        let options = [&hosts[..], options].concat();
        said(
            &ssh.launcher("ssh", &options, &["sh", "a b"])
                .output()
                .unwrap(),
        )
    };
    let text = launched(&[]);
    for part in [
        "127.0.0.3:2221",
        "agent of user@b: ./ssh user@b 'exec ",
        "worker 2: env ",
        " sh 'a b' --job_name worker --task_index 2 --ps_hosts 127.0.0.2:2230 --worker_hosts 127.0.0.2:2220,127.0.0.3:2220,127.0.0.3:2221",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let plan: serde_json::Value = serde_json::from_str(&launched(&["--json"])).unwrap();
    assert_eq!(plan["tasks"][0]["task"], "ps 0");
    assert_eq!(plan["tasks"][3]["address"], "127.0.0.3:2221");
    assert_eq!(plan["hosts"][1]["name"], "user@b");
    // Ranks are told of no secret.
    let ranks = launched(&["--json", "-np", "3"]);
    let plan: serde_json::Value = serde_json::from_str(&ranks).unwrap();
    assert_eq!(plan["tasks"][2]["env"]["HOROVOD_LOCAL_RANK"], "1");
    assert!(!ranks.contains("SECRET"), "{ranks}");
    assert_eq!(ssh.log(), None);
}

#[test]
fn outputs_go_to_a_file_for_each_task() {
    let ssh = two_hosts("output");
    let script = r#"echo "out $4"; echo "err $4" >&2"#;
    said(&launch(&ssh, &["--output-dir", "logs/here"], script));
    let text = fs::read_to_string(ssh.0.join("logs/here/worker-1.log")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err 1", "out 1"]);
    assert!(ssh.0.join("logs/here/ps-0.log").exists());
    fs::write(ssh.0.join("file"), "").unwrap();
    let done = launch(&ssh, &["--output-dir", "file"], script);
    let errors = errors(&done);
    assert!(errors.contains("--output-dir: file: "), "{errors}");
}

#[test]
fn all_lines_of_other_hosts_are_shown() {
    let ssh = two_hosts("lines");
    let said = said(&launch(&ssh, &[], "seq 20000"));
    assert_eq!(said.lines().count(), 60_000);
}

#[test]
fn mistakes_of_hosts_are_named() {
    let ssh = FakeSsh::new("mistakes");
    let fails = |options: &[&str]| {
        let options = [&["--unprotected-network"], options].concat();
        errors(&ssh.launcher("ssh", &options, &["true"]).output().unwrap())
    };
    fs::write(ssh.0.join("hosts"), "a\nb slot=2\n").unwrap();
    let told = fails(&["--hosts", "hosts"]);
    assert!(
        told.contains("hosts: line 2: 'slot=2' is neither slots=N"),
        "{told}"
    );
    let told = fails(&["-H", "a,a:2"]);
    assert!(told.contains("the host 'a' is named twice"), "{told}");
    let told = fails(&["-H", "a,b", "--workers", "3"]);
    assert!(
        told.contains("--workers 3: the 2 hosts of workers have room for 2"),
        "{told}"
    );
    let told = fails(&["-H", "a", "--ps-in-worker", "false"]);
    assert!(
        told.contains("--ps-in-worker false leaves no host"),
        "{told}"
    );
    assert_eq!(ssh.log(), None);
}

#[test]
fn programs_are_copied_to_hosts_that_lack_them() {
    let ssh = two_hosts("copy");
    write_script(
        &ssh.0.join("trains"),
        "echo \"$0 in $(pwd)\"; exec sleep 0\n",
    );
    let there = ssh.0.at("there/of job");
    let options = [&FLAGS[..], &["--copy", &there]].concat();
    let launch = |program: &str| ssh.launcher("ssh", &options, &[program]).output().unwrap();
    let text = said(&launch("./trains"));
    let line = format!("worker 0 | {there}/trains in {there}");
    assert!(text.contains(&line), "{line}: {text}");
    let log = ssh.log().unwrap();
    assert!(log.contains("/thalweg-agent' launch agent"), "{log}");
    let told = errors(&launch("./no-such-program"));
    assert!(
        told.contains("there is no program './no-such-program' to be copied"),
        "{told}"
    );
    ssh.script("case $1 in a) exec sh -c \"$2\";; esac\necho no way to $1 >&2; exit 255\n");
    let told = errors(&launch("./trains"));
    assert!(
        told.contains("is not copied to the host 'user@b': status 255: no way to user@b"),
        "{told}"
    );
    // The copy to the other host was killed in the midst of a write.
    until("a copy is left", || ssh.processes().is_empty());
    let relative = [&FLAGS[..], &["--copy", "there"]].concat();
    let told = errors(
        &ssh.launcher("ssh", &relative, &["./trains"])
            .output()
            .unwrap(),
    );
    assert!(
        told.contains("--copy there: give an absolute path"),
        "{told}"
    );
}

#[test]
fn hosts_of_a_batch_job_are_taken_where_none_are_named() {
    let ssh = FakeSsh::new("batch");
    let nodes = ssh.0.join("nodes");
    fs::write(&nodes, "127.0.0.2\n127.0.0.3\n127.0.0.2\n").unwrap();
    let explained = |options: &[&str], variable: &str| {
        let options = [options, &["--unprotected-network", "--explain"]].concat();
        let mut launcher = ssh.launcher("ssh", &options, &["true"]);
        launcher.env(variable, &nodes).output().unwrap()
    };
    let told = said(&explained(&["-np", "3"], "PBS_NODEFILE"));
    let hosts = |host: &str| {
        told.lines()
            .filter(|l| l.starts_with("│ rank") && l.contains(&format!(" {host} ")))
            .count()
    };
    assert_eq!((hosts("127.0.0.2"), hosts("127.0.0.3")), (2, 1), "{told}");
    let none = errors(&explained(&["-np", "3"], "NO_VARIABLE"));
    assert!(
        none.contains("no host is named: give --hosts FILE"),
        "{none}"
    );
}
