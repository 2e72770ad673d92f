//! `thalweg launch hvd`: the status of a job whose ranks fail. The ranks are this test program: they count steps together.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};
use std::time::Duration;

use thalweg_collective::{ALL_RANKS, CollectiveError, Join, Ranks, ReduceOp, Reduction};
use thalweg_tensor::DType;

/// Variable with the way in which rank 2 ends, which turns the test `rank` into a rank.
const END: &str = "RANKS_TEST_END";

/// Process of a rank that the launcher starts, and no test by itself.
#[test]
fn rank() {
    let Ok(end) = std::env::var(END) else {
        return;
    };
    let join = Join::from_env().unwrap();
    let mut ranks = Ranks::join(&join).unwrap();
    let number = ranks.rank();
    let restarted = std::env::var("THALWEG_RESTART").unwrap() == "1";
    for step in 0.. {
        if step == 5 && restarted {
            println!("rank {number} of {} has gone on", ranks.size());
            return;
        }
        if step == 5 && number == 2 {
            match &*end {
                "killed" => {
                    let own = std::process::id().to_string();
                    let _ = Command::new("kill").args(["-KILL", &own]).status();
                }
                "exits" => std::process::exit(3),
                // The others notice at once that it has left, and end before it.
                _ => {
                    drop(ranks);
                    std::thread::sleep(Duration::from_millis(300));
                    std::process::exit(3);
                }
            }
        }
        if let Err(error) = sum(&mut ranks) {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn sum(ranks: &mut Ranks) -> Result<(), CollectiveError> {
    let mut value = [1.0f32];
    let bytes = bytemuck::cast_slice_mut(&mut value);
    let sum = Reduction::of(ReduceOp::Sum);
    ranks.all_reduce(ALL_RANKS, "sum", bytes, DType::F32, sum)
}

fn launched(end: &str, options: &[&str]) -> Output {
    let own = std::env::current_exe().unwrap();
    Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["launch", "hvd", "-np", "4", "--grace", "5"])
        .args(options)
        .arg("--")
        .arg(own)
        .args(["--exact", "rank", "--nocapture"])
        .env(END, end)
        .output()
        .unwrap()
}

#[test]
fn the_status_is_that_of_the_rank_whose_loss_ended_the_others() {
    for (end, code, how) in [
        ("killed", 137, "ended by SIGKILL"),
        ("exits", 3, "ended with status 3"),
        ("leaves", 3, "ended with status 3"),
    ] {
        for _ in 0..4 {
            let done = launched(end, &[]);
            let said = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(code), "{end}: {said}");
            let line = format!("error: rank 2 {how}");
            assert!(said.lines().any(|l| l == line), "{end}: {said}");
        }
    }
}

#[test]
fn ranks_meet_again_after_a_restart() {
    for (end, how) in [
        ("killed", "ended by SIGKILL"),
        ("leaves", "ended with status 3"),
    ] {
        let done = launched(end, &["--restarts", "2"]);
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{end}: {told}");
        let line = format!("rank 2 {how}: all ranks are started again (1 of 2)");
        assert!(told.lines().any(|l| l == line), "{end}: {told}");
        let said = String::from_utf8_lossy(&done.stdout);
        let gone_on = said.lines().filter(|l| l.contains("of 4 has gone on"));
        assert_eq!(gone_on.count(), 4, "{end}: {said}");
    }
}
