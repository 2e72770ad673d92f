//! Ranks that meet at rank 0, by the variables of launchers that run no coordinator.

#[path = "../../../tests/support/ports.rs"]
mod ports;

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use ports::free_port;
use thalweg_collective::{ALL_RANKS, CollectiveError, Join, Ranks, ReduceOp, Reduction};
use thalweg_tensor::DType;

/// Description of a rank by variables.
fn join_of(set: &[(&str, String)]) -> Result<Join, CollectiveError> {
    let get = |name: &str| {
        let found = set.iter().find(|(n, _)| *n == name);
        found.map(|(_, value)| value.clone())
    };
    Join::from_variables(&get)
}

/// Variables that torchrun sets, for one of `size` ranks on one host.
fn torchrun(rank: usize, size: usize, master_port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", size.to_string()),
        ("LOCAL_RANK", rank.to_string()),
        ("LOCAL_WORLD_SIZE", size.to_string()),
        ("MASTER_ADDR", "localhost".to_owned()),
        ("MASTER_PORT", master_port.to_string()),
    ]
}

/// Variables that srun sets, for a rank on the node 127.0.1.(rank + 1).
fn srun(rank: usize, size: usize, port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("SLURM_JOB_ID", "7".to_owned()),
        ("SLURM_STEP_ID", "0".to_owned()),
        ("SLURM_STEP_NODELIST", format!("127.0.1.[1-{size}]")),
        ("SLURM_STEP_NUM_TASKS", size.to_string()),
        ("SLURM_STEP_TASKS_PER_NODE", format!("1(x{size})")),
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_LOCALID", "0".to_owned()),
        ("SLURM_NODEID", rank.to_string()),
        ("THALWEG_COORDINATOR_PORT", port.to_string()),
    ]
}

/// Joins ranks with these variables, and returns their sum of rank + 1.
fn sums(variables: impl Fn(usize) -> Vec<(&'static str, String)> + Sync, size: usize) -> Vec<f32> {
    let variables = &variables;
    let rank = |rank: usize| {
        move || {
            let mut ranks = Ranks::join(&join_of(&variables(rank)).unwrap()).unwrap();
            assert_eq!((ranks.rank(), ranks.size()), (rank, size));
            let mut data = [rank as f32 + 1.0];
            let sum = Reduction::of(ReduceOp::Sum);
            let bytes = bytemuck::cast_slice_mut(&mut data);
            ranks
                .all_reduce(ALL_RANKS, "x", bytes, DType::F32, sum)
                .unwrap();
            data[0]
        }
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..size).map(|r| scope.spawn(rank(r))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn ranks_of_torchrun_and_of_srun_reduce() {
    let port = free_port();
    assert_eq!(sums(|rank| torchrun(rank, 3, port), 3), [6.0; 3]);
    // The same ranks once more: their port is free again.
    assert_eq!(sums(|rank| torchrun(rank, 3, port), 3), [6.0; 3]);
    let port = free_port();
    assert_eq!(sums(|rank| srun(rank, 2, port), 2), [3.0; 2]);
}

#[test]
fn ranks_with_another_secret_are_refused() {
    let port = free_port();
    let with = |rank: usize, secret: &str| {
        let mut set = torchrun(rank, 2, port);
        set.push(("THALWEG_JOB_SECRET", secret.to_owned()));
        set.push(("HOROVOD_GLOO_TIMEOUT_SECONDS", "2".to_owned()));
        join_of(&set).unwrap()
    };
    let joins = [with(0, "one"), with(1, "another")];
    let joins = joins.map(|join| thread::spawn(move || Ranks::join(&join).is_err()));
    assert_eq!(joins.map(|thread| thread.join().unwrap()), [true, true]);
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_the_variable() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let join = join_of(&torchrun(0, 2, port - 1)).unwrap();
    let error = Ranks::join(&join).err().unwrap().to_string();
    assert!(
        error.contains(&format!("rank 0 cannot listen at 127.0.0.1:{port}")),
        "{error}"
    );
    assert!(error.contains("set THALWEG_COORDINATOR_PORT"), "{error}");
}

#[test]
fn a_network_needs_keys_or_consent() {
    let set = |more: &[(&'static str, &str)]| {
        let mut set = torchrun(1, 2, 29500);
        set.retain(|(name, _)| *name != "LOCAL_WORLD_SIZE" && *name != "MASTER_ADDR");
        // An address that is in documents only.
        set.push(("MASTER_ADDR", "192.0.2.1".to_owned()));
        set.extend(more.iter().map(|(n, v)| (*n, (*v).to_owned())));
        Ranks::join(&join_of(&set).unwrap().timeout(Duration::from_millis(100)))
    };
    let error = set(&[]).err().unwrap().to_string();
    assert!(error.contains("THALWEG_PROTECTION"), "{error}");
    assert!(error.contains("THALWEG_UNPROTECTED_NETWORK=1"), "{error}");
    let error = set(&[("THALWEG_UNPROTECTED_NETWORK", "1")]).err().unwrap();
    assert!(error.to_string().contains("192.0.2.1:29501"), "{error}");
}

#[test]
fn a_host_without_an_address_is_an_error_that_names_the_variable() {
    let mut set = srun(1, 2, 29500);
    set.push(("THALWEG_COORDINATOR", "no-such-host.invalid".to_owned()));
    let join = join_of(&set).unwrap().timeout(Duration::from_millis(1));
    let error = Ranks::join(&join).err().unwrap().to_string();
    assert!(
        error.contains("rank 0 is at 'no-such-host.invalid'"),
        "{error}"
    );
    assert!(error.contains("set THALWEG_COORDINATOR"), "{error}");
}
