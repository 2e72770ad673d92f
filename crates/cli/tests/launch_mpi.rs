//! `thalweg launch mpi`: ranks, servers and workers that Open MPI and MPICH start.
//!
//! An MPI that is not installed is skipped with a message; with `REQUIRE_MPI=1` that is a failure. The same holds for
//! Slurm and `REQUIRE_SLURM=1`.
#![cfg(target_os = "linux")]

#[path = "../../../tests/support/slurm.rs"]
mod slurm;
mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;
use std::process::{Child, Command, Output};

use slurm::Slurm;
use support::fake_ssh::FakeSsh;
use support::{Folder, fails, works};
use thalweg_collective::{ALL_RANKS, Join, Ranks, ReduceOp, Reduction};
use thalweg_tensor::DType;
use wait::until;

/// Runs a test with each MPI that is installed.
fn with_each_mpi(test: impl Fn(&str, &FakeSsh)) {
    for mpi in ["openmpi", "mpich"] {
        let program = format!("mpirun.{mpi}");
        let version = Command::new(&program).arg("--version").output();
        if version.is_err() {
            let required = std::env::var("REQUIRE_MPI").is_ok_and(|v| v == "1");
            assert!(!required, "REQUIRE_MPI=1, and there is no {program}");
            println!("SKIPPED: there is no {program}");
            continue;
        }
        test(&program, &FakeSsh::new(mpi));
    }
}

/// Launcher whose processes are marked.
fn launcher(mpirun: &str, folder: &FakeSsh, options: &[&str], script: &str) -> Command {
    let marked = folder.launcher("mpi", &[], &[]);
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let env = marked.get_envs();
    launcher
        .current_dir(folder.0.path())
        .envs(env.filter_map(|(name, value)| Some((name, value?))))
        .args(["launch", "mpi", "--mpirun", mpirun, "--grace", "2"])
        .args(options)
        .args(["--", "sh", "-c", script, "task", "a  b"])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    launcher
}

fn launch(mpirun: &str, folder: &FakeSsh, options: &[&str], script: &str) -> Output {
    launcher(mpirun, folder, options, script).output().unwrap()
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn ranks_have_their_numbers_and_meet_at_rank_zero() {
    with_each_mpi(|mpirun, folder| {
        let script = r#"rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
            echo "$rank at $THALWEG_COORDINATOR:$THALWEG_COORDINATOR_PORT ${#THALWEG_JOB_SECRET} $SET ${THALWEG_TASK_TABLE-none} $1""#;
        let options = ["-np", "3", "--env", "SET=it's set"];
        let text = said(&launch(mpirun, folder, &options, script));
        for rank in 0..3 {
            let line = text
                .lines()
                .find(|l| l.contains(&format!("{rank} at 127.0.0.1:")));
            let line = line.unwrap_or_else(|| panic!("{text}"));
            assert!(line.ends_with(" 32 it's set none a  b"), "{line}");
        }
        assert_eq!(folder.processes(), []);
    });
}

/// Variable that turns the test `rank` into a rank.
const IS_RANK: &str = "MPI_TEST_RANK";

/// Process of a rank that `mpirun` starts, and no test by itself.
#[test]
fn rank() {
    if std::env::var_os(IS_RANK).is_none() {
        return;
    }
    let mut ranks = Ranks::join(&Join::from_env().unwrap()).unwrap();
    let mut value = [ranks.rank() as f32 + 1.0];
    let bytes = bytemuck::cast_slice_mut(&mut value);
    let sum = Reduction::of(ReduceOp::Sum);
    ranks
        .all_reduce(ALL_RANKS, "sum", bytes, DType::F32, sum)
        .unwrap();
    println!("rank {} has the sum {}", ranks.rank(), value[0]);
}

#[test]
fn programs_without_mpi_meet_and_exchange_values() {
    with_each_mpi(|mpirun, _| {
        let own = std::env::current_exe().unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(["launch", "mpi", "--mpirun", mpirun, "-np", "3", "--"])
            .arg(own)
            .args(["--exact", "rank", "--nocapture"])
            .env(IS_RANK, "1")
            .output()
            .unwrap();
        let text = said(&done);
        for rank in 0..3 {
            let line = format!("rank {rank} has the sum 6");
            assert!(text.contains(&line), "{text}");
        }
    });
}

#[test]
fn a_real_slurm_places_servers_and_workers() {
    let Some(slurm) = Slurm::start("launch-mpi", 2) else {
        return;
    };
    let done = slurm
        .command("timeout")
        .args(["60", "salloc", "-N2", "-Q", env!("CARGO_BIN_EXE_thalweg")])
        .args(["launch", "mpi", "--mpi", "srun", "--unprotected-network"])
        .args(["--workers", "2", "--free-ports", "--", "sh", "-c"])
        .args([r#"echo "$SLURMD_NODENAME $2 $4""#, "task"])
        .output()
        .unwrap();
    let text = said(&done);
    for line in ["node1 ps 0", "node1 worker 0", "node2 worker 1"] {
        assert!(text.lines().any(|l| l.ends_with(line)), "{text}");
    }
}

#[test]
fn servers_and_workers_have_their_flags() {
    with_each_mpi(|mpirun, folder| {
        let options = ["--ps", "1", "--workers", "2", "--free-ports"];
        let script = r#"echo "$2 $3 $4 $5 $6 $7 $8 $9 $TF_CONFIG""#;
        let text = said(&launch(mpirun, folder, &options, script));
        assert_eq!(text.lines().count(), 3, "{text}");
        for task in [
            "ps --task_index 0",
            "worker --task_index 0",
            "worker --task_index 1",
        ] {
            let flags = format!("--job_name {task} --ps_hosts 127.0.0.1:");
            assert!(text.contains(&flags), "{flags}: {text}");
        }
        assert!(
            text.contains(r#""task":{"index":1,"type":"worker"}"#),
            "{text}"
        );
    });
}

#[test]
fn the_status_is_that_of_mpirun_and_all_tasks_end() {
    with_each_mpi(|mpirun, folder| {
        let script = r#"case "$3$5" in worker1) exit 3;; *) exec sleep 300;; esac"#;
        let options = ["--ps", "1", "--workers", "2", "--free-ports"];
        let done = launch(mpirun, folder, &options, script);
        assert_eq!(done.status.code(), Some(3), "{done:?}");
        until("a process is left", || folder.processes().is_empty());
        let script = r#"[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && exit 4; exec sleep 300"#;
        let done = launch(mpirun, folder, &["-np", "2"], script);
        assert_eq!(done.status.code(), Some(4), "{done:?}");
        until("a process is left", || folder.processes().is_empty());
        let script =
            r#"[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && kill -9 $$; exec sleep 300"#;
        let done = launch(mpirun, folder, &["-np", "2"], script);
        assert_eq!(done.status.code(), Some(137), "{done:?}");
        until("a process is left", || folder.processes().is_empty());
    });
}

/// Starts three ranks that ignore SIGTERM.
fn stubborn(mpirun: &str, folder: &FakeSsh, options: &[&str]) -> Child {
    let script = r#"trap '' TERM INT
        touch "$T/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; while :; do sleep 0.05; done"#;
    let child = launcher(mpirun, folder, options, script).spawn();
    for rank in ["0", "1", "2"] {
        until("a rank does not start", || folder.0.join(rank).exists());
    }
    child.unwrap()
}

#[test]
fn a_signal_ends_mpirun_and_all_tasks() {
    with_each_mpi(|mpirun, folder| {
        let child = stubborn(mpirun, folder, &["-np", "3"]);
        let secret_is_hidden = folder.processes().iter().all(|(_, line)| {
            !line
                .split(|c: char| !c.is_ascii_hexdigit())
                .any(|w| w.len() == 32)
        });
        assert!(secret_is_hidden, "{:?}", folder.processes());
        let number = child.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &number]).status();
        assert!(sent.unwrap().success());
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(143), "{done:?}");
        until("a process is left", || folder.processes().is_empty());
    });
}

#[test]
fn no_process_outlives_a_killed_launcher() {
    with_each_mpi(|mpirun, folder| {
        let mut child = stubborn(mpirun, folder, &["-np", "3"]);
        child.kill().unwrap();
        child.wait().unwrap();
        until("a process outlives its launcher", || {
            folder.processes().is_empty()
        });
    });
}

/// Options of a job on this host and another, which a fake ssh leads to this one too. It drops the launcher's variables.
fn on_two_hosts(mpirun: &str) -> (FakeSsh, Vec<String>) {
    // Open MPI takes no program whose path has blanks.
    let folder = FakeSsh(Folder::new(&format!("two_hosts_{mpirun}")));
    let log = folder.0.at("log");
    // Options come before the host. Open MPI's command is in several words.
    folder.script(&format!(
        "echo \"$*\" >> \"{log}\"\nwhile case $1 in -*) ;; *) false;; esac; do shift; done\nshift\n\
         unset THALWEG_JOB_SECRET THALWEG_TASK_TABLE THALWEG_COORDINATOR SET\nexec sh -c \"$*\"\n"
    ));
    let args = match mpirun {
        "mpirun.openmpi" => format!("--mca plm_rsh_agent {}", folder.0.at("ssh")),
        _ => format!("-launcher ssh -launcher-exec {}", folder.0.at("ssh")),
    };
    let all = [
        "--mpirun-args",
        &args,
        "--unprotected-network",
        "--address",
        "127.0.0.1",
        "-H",
        "localhost:1,other:2",
        "-np",
        "3",
    ];
    (folder, all.map(str::to_owned).to_vec())
}

#[test]
fn ranks_of_other_hosts_get_the_variables_and_no_command_line_the_secret() {
    with_each_mpi(|mpirun, _| {
        let (folder, options) = on_two_hosts(mpirun);
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.extend(["--env", "SET=it's set"]);
        let script = r#"echo "at $THALWEG_COORDINATOR ${#THALWEG_JOB_SECRET} $SET""#;
        let text = said(&launch(mpirun, &folder, &options, script));
        let count = text.matches("at 127.0.0.1 32 it's set").count();
        assert_eq!(count, 3, "{text}");
        let log = folder.log().unwrap();
        assert!(log.contains("other"), "{log}");
        let words = log.split(|c: char| !c.is_ascii_hexdigit());
        assert_eq!(words.filter(|w| w.len() == 32).count(), 0, "{log}");
    });
}

#[test]
fn no_process_of_another_host_outlives_a_killed_launcher() {
    with_each_mpi(|mpirun, _| {
        let (folder, options) = on_two_hosts(mpirun);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut child = stubborn(mpirun, &folder, &options);
        child.kill().unwrap();
        child.wait().unwrap();
        until("a process outlives its launcher", || {
            folder.processes().is_empty()
        });
    });
}

#[test]
fn an_explanation_has_the_command_line_of_each_mpi() {
    let explain = |options: &[&str]| {
        let all = ["launch", "mpi", "--explain", "--unprotected-network"];
        works(&[&all, options, &["--", "train"]].concat())
    };
    let ranks = [
        "-np",
        "3",
        "-H",
        "localhost:1,10.1.2.3:2",
        "--address",
        "10.1.2.1",
    ];
    let text = explain(&[&["--mpi", "openmpi"], &ranks[..]].concat());
    assert!(
        text.contains("-np 3 --host localhost:1,10.1.2.3:2 -bind-to none -map-by slot"),
        "{text}"
    );
    // Others of the environment, such as THALWEG_CUDA_LIBRARIES, are passed on too.
    for name in ["COORDINATOR", "COORDINATOR_PORT", "JOB_SECRET"] {
        assert!(text.contains(&format!(" -x THALWEG_{name} ")), "{text}");
    }
    assert!(text.contains(" THALWEG_COORDINATOR=10.1.2.1 "), "{text}");
    assert!(text.contains(" THALWEG_UNPROTECTED_NETWORK=1 "), "{text}");
    assert!(!text.contains("THALWEG_JOB_SECRET="), "{text}");
    let text = explain(&[&["--mpi", "mpich", "--carrier", "mpi"], &ranks[..]].concat());
    assert!(
        text.contains("-hosts localhost:1,10.1.2.3:2 -genvlist "),
        "{text}"
    );
    assert!(!text.contains("THALWEG_COORDINATOR"), "{text}");
    let cluster = [
        "--mpi",
        "srun",
        "-H",
        "10.1.2.3:2,10.1.2.4:2",
        "--workers",
        "3",
        "--json",
    ];
    let text = explain(&[&cluster[..], &["--address", "10.1.2.1"]].concat());
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(plan["mpi"], "srun");
    let words = plan["command"].as_array().unwrap();
    let list = "--nodelist=10.1.2.3,10.1.2.3,10.1.2.3,10.1.2.4";
    assert!(words.iter().any(|word| word == list), "{text}");
    assert_eq!(plan["tasks"].as_array().unwrap().len(), 4);
}

#[test]
fn mistakes_are_named_before_the_start() {
    let fails = |options: &[&str]| {
        fails(
            &[
                &["launch", "mpi", "--mpi", "openmpi"],
                options,
                &["--", "true"],
            ]
            .concat(),
        )
    };
    let told = fails(&["-np", "2", "-H", "localhost:1,10.1.2.3:1"]);
    assert!(told.contains("need --protection DIR"), "{told}");
    let told = fails(&["-np", "3", "-H", "localhost:2"]);
    assert!(told.contains("2 slots for 3 ranks"), "{told}");
    let told = fails(&["--workers", "2", "--restarts", "1"]);
    assert!(told.contains("mpirun ends all tasks"), "{told}");
    let told = fails(&["-np", "2", "--carrier", "mpi", "--protection", "/keys"]);
    assert!(
        told.contains("MPI carries values without protection"),
        "{told}"
    );
    let told = fails(&[
        "-np",
        "1",
        "-H",
        "me@10.1.2.3:1",
        "--unprotected-network",
        "--address",
        "10.1.2.1",
    ]);
    assert!(told.contains("'me@10.1.2.3' has a user"), "{told}");
    let told = fails(&["-np", "1", "--mpirun", "/no/such/mpirun"]);
    assert!(
        told.contains("'/no/such/mpirun' cannot be started"),
        "{told}"
    );
    assert!(fs::metadata("/no/such").is_err());
}
