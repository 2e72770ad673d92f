//! Test of a server that has more clients than file descriptors.
#![cfg(target_os = "linux")]

#[path = "support/server_process.rs"]
mod server_process;

use std::net::TcpStream;
use std::time::Duration;

use server_process::ServerProcess;
use thalweg_dist::{ClusterOptions, Session, Timeouts};
use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps};

/// CPU time of a process, in ticks of the system's clock: a hundred a second.
fn ticks(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = text.rsplit(')').next().unwrap().split_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|f| f.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn three_hundred_idle_connections_at_256_descriptors_block_no_client() {
    let server = ServerProcess::limited("-n 256");
    let address = server.address();

    let idle = |_| TcpStream::connect(address).unwrap();
    let idle: Vec<TcpStream> = (0..300).map(idle).collect();
    let g = Graph::new();
    let sum = g.constant(1.0f32) + g.constant(2.0f32);
    let timeouts = Timeouts::new().connect(Duration::from_secs(10));
    let options = ClusterOptions::new().timeouts(timeouts);
    let session = Session::connect(&server.target, &g, options).unwrap();
    assert_eq!(session.run::<f32>(sum, []).unwrap(), 3.0);

    // The server sleeps, and does not spin.
    let before = ticks(server.id());
    std::thread::sleep(Duration::from_millis(500));
    let taken = ticks(server.id()) - before;
    assert!(taken < 10, "{taken} ticks in half a second");
    assert_eq!(session.run::<f32>(sum, []).unwrap(), 3.0);
    drop(idle);
}
