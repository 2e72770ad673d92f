//! `thalweg launch slurm`: with a fake srun that runs its command on this host, and in a real Slurm.
#![cfg(target_os = "linux")]

#[path = "support/elastic.rs"]
mod elastic_launch;
#[path = "../../../tests/support/slurm.rs"]
mod slurm;
mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;
use std::process::{Command, Output, Stdio};

use elastic_launch::{RunningLaunch, STEPS, run_worker, worker_command};
use slurm::Slurm;
use support::fake_ssh::{FakeSsh, write_script};
use support::{Folder, errors, fails, said};
use wait::until;

/// Folder with a fake `srun`. The hosts are addresses of this one.
struct FakeSlurm(FakeSsh);

impl FakeSlurm {
    fn new(name: &str) -> FakeSlurm {
        let folder = FakeSsh::new(name);
        let log = folder.0.at("log");
        // Options of srun come before the program.
        let srun = format!(
            "echo \"$*\" >> \"{log}\"\nwhile case $1 in --*) ;; *) false;; esac; do shift; done\nexec \"$@\"\n"
        );
        write_script(&folder.0.join("srun"), &srun);
        FakeSlurm(folder)
    }

    /// Launcher in an allocation of two hosts.
    fn launcher(&self, options: &[&str], command: &[&str]) -> Command {
        let options = [
            &["--unprotected-network", "--free-ports", "--grace", "1"],
            options,
        ]
        .concat();
        let marked = self.0.launcher("slurm", &[], &[]);
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let path = std::env::var("PATH").unwrap();
        launcher
            .current_dir(self.0.0.path())
            .envs(
                marked
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("PATH", format!("{}:{path}", self.0.0.path().display()))
            .env("SLURM_JOB_NODELIST", "127.0.0.[2-3]")
            .args(["launch", "slurm"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !command.is_empty() {
            launcher.arg("--").args(command);
        }
        launcher
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Output {
        self.launcher(options, command).output().unwrap()
    }
}

#[test]
fn each_host_of_the_allocation_has_a_step_with_an_agent() {
    let slurm = FakeSlurm::new("slurm");
    let said = said(&slurm.run(&[], &["sh", "-c", "echo $*", "task"]));
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(
        said.contains("worker 1 | --job_name worker --task_index 1 --ps_hosts 127.0.0.2:"),
        "{said}"
    );
    let log = fs::read_to_string(slurm.0.0.join("log")).unwrap();
    for host in ["127.0.0.2", "127.0.0.3"] {
        let step = format!(
            "--nodes=1 --ntasks=1 --nodelist={host} --overlap --kill-on-bad-exit=1 --cpu-bind=none"
        );
        assert_eq!(log.matches(&step).count(), 1, "{log}");
    }
    assert_eq!(slurm.0.processes(), []);
}

#[test]
fn ranks_are_spread_evenly_over_the_hosts() {
    let slurm = FakeSlurm::new("ranks");
    let script = r#"echo "$HOROVOD_RANK $HOROVOD_LOCAL_RANK $HOROVOD_LOCAL_SIZE""#;
    let said = said(&slurm.run(&["-np", "3"], &["sh", "-c", script]));
    for line in ["rank 0 | 0 0 2", "rank 1 | 1 1 2", "rank 2 | 2 0 1"] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn variables_of_the_scripts_are_read_where_no_flag_is_given() {
    let slurm = FakeSlurm::new("variables");
    write_script(&slurm.0.0.join("trains"), "echo \"$*\"\n");
    let with = |options: &[&str]| {
        let mut launcher = slurm.launcher(options, &[]);
        launcher
            .env("TF_SCRIPT", "./trains")
            .env("TF_FLAGS", "--steps=5  --fast")
            .env("TF_NUM_PS", "2")
            .env("TF_NUM_WORKERS", "3")
            .env("TF_WORKER_PER_NODE", "2");
        launcher.output().unwrap()
    };
    let text = said(&with(&[]));
    assert!(
        text.contains("worker 2 | --steps=5 --fast --job_name worker"),
        "{text}"
    );
    assert!(text.contains("ps 1 | "), "{text}");
    let text = said(&with(&["--ps", "1"]));
    assert!(!text.contains("ps 1 | "), "{text}");
    let told = errors(&with(&["--ps-in-worker", "false"]));
    assert!(
        told.contains("--ps-in-worker false leaves no host for workers"),
        "{told}"
    );
    let mut wrong = slurm.launcher(&[], &["true"]);
    let told = errors(&wrong.env("TF_NUM_PS", "two").output().unwrap());
    assert!(told.contains("TF_NUM_PS=two: give a number"), "{told}");
}

#[test]
fn mistakes_before_the_start_are_named() {
    let slurm = FakeSlurm::new("mistakes");
    let mut outside = slurm.launcher(&[], &["true"]);
    let told = errors(&outside.env_remove("SLURM_JOB_NODELIST").output().unwrap());
    assert!(told.contains("SLURM_JOB_NODELIST is not set"), "{told}");
    let told = errors(&slurm.run(&[], &[]));
    assert!(told.contains("set TF_SCRIPT"), "{told}");
    let told = errors(&slurm.run(&["--workers", "3"], &["true"]));
    assert!(told.contains("have room for 2"), "{told}");
    let told = fails(&["launch", "slurm", "--script", "-np", "2", "--", "true"]);
    assert!(told.contains("--unprotected-network"), "{told}");
    assert!(!slurm.0.0.join("log").exists());
}

#[test]
fn a_script_for_sbatch_runs_the_same_command() {
    let slurm = FakeSlurm::new("script");
    let options = [
        "--script",
        "--ps",
        "2",
        "--workers",
        "3",
        "--workers-per-node",
        "2",
    ];
    let text = said(&slurm.run(&options, &["./trains", "--nodes", "a b"]));
    assert!(text.starts_with("#!/bin/bash\n"), "{text}");
    assert!(text.contains("#SBATCH --nodes=2\n"), "{text}");
    let command = " launch slurm --unprotected-network --free-ports --grace 1 --ps 2 --workers 3 --workers-per-node 2 -- ./trains --nodes 'a b'\n";
    assert!(text.ends_with(command), "{text}");
    let text = said(&slurm.run(&["--script", "--nodes", "7", "-np", "8"], &["x"]));
    assert!(
        text.contains("--nodes=7\n") && text.ends_with(" --np 8 -- x\n"),
        "{text}"
    );
    assert!(!slurm.0.0.join("log").exists());
}

#[test]
fn a_script_that_requeues_passes_the_warning_on() {
    let slurm = FakeSlurm::new("requeue_script");
    let text = said(&slurm.run(&["--script", "--requeue", "-np", "2"], &["x", "--requeue"]));
    for line in [
        "#SBATCH --signal=B:USR1@120\n",
        "#SBATCH --requeue\n",
        " --np 2 -- x --requeue &\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let text = said(&slurm.run(&["--script", "--requeue=30", "-np", "2"], &["x"]));
    assert!(text.contains("--signal=B:USR1@30\n"), "{text}");
}

#[test]
fn a_failure_ends_the_tasks_of_all_hosts() {
    let slurm = FakeSlurm::new("fails");
    let script = r#"case "$2$4" in worker1) exit 3;; *) exec sleep 300;; esac"#;
    let done = slurm.run(&[], &["sh", "-c", script, "task"]);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    assert_eq!(slurm.0.processes(), []);
}

#[test]
fn no_process_outlives_a_killed_launcher() {
    let slurm = FakeSlurm::new("killed");
    let script = r#"trap '' TERM; touch "$T/$2$4"; while :; do sleep 0.05; done"#;
    let options = ["--env", "T"];
    let mut child = slurm
        .launcher(&options, &["sh", "-c", script, "task"])
        .spawn()
        .unwrap();
    for task in ["ps0", "worker0", "worker1"] {
        until("a task does not start", || slurm.0.0.join(task).exists());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    until("a process outlives its launcher", || {
        slurm.0.processes().is_empty()
    });
}

#[test]
fn a_real_slurm_runs_tasks_on_its_nodes() {
    let Some(slurm) = Slurm::start("launch", 2) else {
        return;
    };
    let folder = Folder::new("real_slurm");
    let launch = |script: &str| {
        slurm
            .command("timeout")
            .args([
                "60",
                "salloc",
                "-N2",
                "-Q",
                env!("CARGO_BIN_EXE_thalweg"),
                "launch",
                "slurm",
            ])
            .args(["--unprotected-network", "--free-ports", "--grace", "2"])
            .args(["--", "sh", "-c", script, "task"])
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let text = said(&launch(r#"echo "$SLURMD_NODENAME $2 $4""#));
    let node = |task: &str| {
        let line = text.lines().find(|l| l.ends_with(task));
        line.unwrap().split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_ne!(node("worker 0"), node("worker 1"), "{text}");
    assert_eq!(node("worker 0"), node("ps 0"), "{text}");
    let done = launch(r#"case "$2$4" in worker1) exit 3;; *) exec sleep 300;; esac"#);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
}

#[test]
fn a_cancelled_job_and_a_node_that_is_down_end_all_tasks() {
    let Some(slurm) = Slurm::start("ends", 2) else {
        return;
    };
    let control = |program: &str, args: &[&str]| {
        let done = slurm.command(program).args(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    for (name, end) in [("cancel", "scancel"), ("down", "scontrol")] {
        let fake = FakeSsh::new(name);
        let marked = fake.launcher("slurm", &[], &[]);
        let marks = marked.get_envs();
        let marks = marks.filter_map(|(name, value)| Some((name, value?)));
        let mut launcher = slurm.command("salloc");
        launcher
            .envs(marks)
            .args(["-N2", "-Q", "--no-kill", "sh", "-c"])
            .arg("echo $SLURM_JOB_ID > job; exec \"$@\"")
            .args(["sh", env!("CARGO_BIN_EXE_thalweg"), "launch", "slurm"])
            .args(["--unprotected-network", "-np", "2", "--", "sh", "-c"])
            .arg("echo > rank$HOROVOD_RANK; exec sleep 300")
            .current_dir(fake.0.path())
            .stderr(Stdio::piped());
        let launcher = launcher.spawn().unwrap();
        let ranks = ["rank0", "rank1"].map(|rank| fake.0.join(rank));
        until("a rank does not start", || ranks.iter().all(|r| r.exists()));
        let job = fs::read_to_string(fake.0.join("job")).unwrap();
        match end {
            "scancel" => control(end, &[job.trim()]),
            _ => control(
                end,
                &["update", "nodename=node2", "state=down", "reason=test"],
            ),
        }
        let done = launcher.wait_with_output().unwrap();
        let told = errors(&done);
        let (status, reason) = match end {
            "scancel" => (143, "ended by SIGTERM"),
            _ => (255, "was lost with the host 'node2'"),
        };
        assert_eq!(done.status.code(), Some(status), "{told}");
        assert!(told.contains(reason), "{told}");
        until("a process outlives its job", || fake.processes().is_empty());
    }
}

#[test]
fn worker() {
    run_worker();
}

#[test]
fn an_elastic_job_runs_on_the_nodes_of_a_real_slurm() {
    let Some(slurm) = Slurm::start("elastic", 2) else {
        return;
    };
    let steps = format!("{STEPS}=20");
    let mut launcher = slurm.command("timeout");
    launcher
        .args(["60", "salloc", "-N2", "-Q", env!("CARGO_BIN_EXE_thalweg")])
        .args(["launch", "slurm", "-np", "2", "--min-np", "1"])
        .args(["--unprotected-network", "--env", &steps, "--"])
        .args(worker_command());
    let mut launch = RunningLaunch::of(&mut launcher, 20);
    launch.until(&["step 20 of 2 ranks"]);
    let (status, lines) = launch.end();
    assert_eq!(status, 0, "{lines:#?}");
}

#[test]
fn a_job_that_is_warned_saves_and_goes_on_in_its_next_run() {
    let Some(slurm) = Slurm::start("requeue", 2) else {
        return;
    };
    let folder = Folder::new("real_slurm_requeue");
    let run = |program: &str, args: &[&str]| {
        let output = slurm
            .command(program)
            .args(args)
            .current_dir(folder.path())
            .output()
            .unwrap();
        said(&output)
    };
    let program = r#"
        rank=$HOROVOD_RANK
        [ -e saved$rank ] && exec touch done$rank
        trap 'touch saved$rank; exit 0' TERM
        touch begun$rank
        while :; do sleep 0.05; done"#;
    let flags = ["--script", "--requeue=60", "--nodes=2", "-np", "2"];
    let job = run(
        env!("CARGO_BIN_EXE_thalweg"),
        &[
            &["launch", "slurm", "--unprotected-network"],
            &flags[..],
            &["--", "sh", "-c", program],
        ]
        .concat(),
    );
    fs::write(folder.join("job.sh"), job).unwrap();
    let number = run("sbatch", &["--parsable", "job.sh"]);
    let each = |name: &str| {
        (0..2)
            .map(|rank| folder.join(&format!("{name}{rank}")))
            .all(|file| file.exists())
    };
    until("a rank does not begin", || each("begun"));
    run("scancel", &["--batch", "--signal=USR1", number.trim()]);
    until("a rank does not save", || each("saved"));
    until("the job does not go on", || each("done"));
}
