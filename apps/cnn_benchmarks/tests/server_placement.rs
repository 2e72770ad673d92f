//! `--server_placement`: bytes of variables on each parameter server, as `--explain` tells them.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

/// Bytes of variables on each of two servers.
fn bytes_on_servers(placement: &str) -> Vec<u64> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let done = Command::new(env!("CARGO_BIN_EXE_cnn_benchmarks"))
        .args([
            "--model=trivial",
            "--data_name=cifar10",
            "--device=cpu",
            "--batch_size=4",
        ])
        .args([
            "--explain",
            "--json",
            "--job_name=worker",
            "--optimizer=momentum",
        ])
        .arg("--ps_hosts=localhost:1,localhost:2")
        .arg(format!("--worker_hosts={address}"))
        .arg(format!("--server_placement={placement}"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    let told: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let devices = told["devices"].as_array().unwrap().iter();
    let on_servers = devices.filter(|d| d["device"].as_str().unwrap().contains("/job:ps/"));
    on_servers.map(|d| d["bytes"].as_u64().unwrap()).collect()
}

#[test]
fn the_largest_variable_first_leaves_the_fewest_bytes_on_the_fullest_server() {
    let [greedy, in_turn, largest] =
        ["greedy", "round_robin", "largest_first"].map(bytes_on_servers);
    for servers in [&in_turn, &largest] {
        assert_eq!(servers.iter().sum::<u64>(), greedy.iter().sum::<u64>());
    }
    // Weights and offsets take turns, so that one server has all weights.
    let most = |servers: &[u64]| servers.iter().copied().max().unwrap();
    assert!(most(&largest) < most(&in_turn), "{largest:?} {in_turn:?}");
    assert!(most(&largest) <= most(&greedy), "{largest:?} {greedy:?}");
}
