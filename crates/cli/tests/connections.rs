//! A server that more connect to than it has descriptors for.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thalweg_dist::{ClusterOptions, Session};
use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps};

/// A server that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processor time that a process has taken, in ticks of the system's clock: a hundred a second.
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
fn three_hundred_idle_connections_at_a_server_of_256_descriptors_keep_no_client_out() {
    let mut command = Command::new("sh");
    let limited = "ulimit -n 256; exec \"$0\" server --listen 127.0.0.1:0 --threads 1";
    command.args(["-c", limited, env!("CARGO_BIN_EXE_thalweg")]);
    let mut served = Served(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut target = String::new();
    let mut output = BufReader::new(served.0.stdout.take().unwrap());
    output.read_line(&mut target).unwrap();
    let address = target.trim().strip_prefix("grpc://").unwrap().to_owned();

    let idle = |_| TcpStream::connect(&address).unwrap();
    let idle: Vec<TcpStream> = (0..300).map(idle).collect();
    let g = Graph::new();
    let sum = g.constant(1.0f32) + g.constant(2.0f32);
    let mut options = ClusterOptions::default();
    options.patience.start = Duration::from_secs(10);
    let session = Session::connect(target.trim(), &g, options).unwrap();
    assert_eq!(session.run::<f32>(sum, []).unwrap(), 3.0);

    // It waits, and does not turn in a circle.
    let before = ticks(served.0.id());
    std::thread::sleep(Duration::from_millis(500));
    let taken = ticks(served.0.id()) - before;
    assert!(taken < 10, "{taken} ticks in half a second");
    assert_eq!(session.run::<f32>(sum, []).unwrap(), 3.0);
    drop(idle);
}
