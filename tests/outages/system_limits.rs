//! Servers under system limits: number of descriptors, size of files.
#![cfg(unix)]

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg::dist::{ClusterOptions, Session, Timeouts};
use thalweg::prelude::*;
use thalweg_tests::processes;
use thalweg_tests::servers::free_addresses;

/// Timeout of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_parameter_server() {
    processes::server(Timeouts::default()).join().unwrap();
}

/// A server under a `ulimit`.
struct Limited {
    address: String,
    child: Child,
}

impl Limited {
    fn new(limit: &str) -> Limited {
        let hosts = free_addresses(2);
        let address = hosts[0].clone();
        let hosts = [hosts[0].clone(), hosts[1].clone()];
        let task = processes::task("system_limits::a_parameter_server", "ps", 0, &hosts);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!(r#"{limit} && exec "$0" "$@""#)])
            .arg(task.get_program())
            .args(task.get_args())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for (name, value) in task.get_envs() {
            command.env(name, value.unwrap());
        }
        let child = command.spawn().unwrap();
        Limited { address, child }
    }

    #[track_caller]
    fn assert_running(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the server has ended: {ended:?}");
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // One that has ended is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn idle_connections_do_not_lock_out_clients() {
    let server = Limited::new("ulimit -n 256");
    let began = Instant::now();
    let mut idle = Vec::new();
    while idle.len() < 300 {
        // The server may close one at once: it only has to have accepted it.
        match TcpStream::connect(&server.address) {
            Ok(stream) => idle.push(stream),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
        assert!(began.elapsed() < WAIT_TIMEOUT, "{} connections", idle.len());
    }
    let g = Graph::new();
    let y = g.constant(2.0f32) + 1.0;
    let target = format!("grpc://{}", server.address);
    let options = || {
        let timeouts = Timeouts::new().connect(Duration::from_secs(5));
        ClusterOptions::new().timeouts(timeouts)
    };
    let began = Instant::now();
    let session = loop {
        match Session::connect(&target, &g, options()) {
            Ok(session) => break session,
            Err(e) => assert!(began.elapsed() < WAIT_TIMEOUT, "{e}"),
        }
    };
    assert_eq!(session.run::<f32>(y, []).unwrap(), 3.0);
}

#[test]
fn a_variable_beyond_the_file_size_limit_does_not_end_its_server() {
    // Of 512 bytes, or 1024 for some shells.
    let mut server = Limited::new("ulimit -f 1024");
    let values: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    let g = Graph::new();
    let w = g.variable("w", values.clone());
    let target = format!("grpc://{}", server.address);
    let session = Session::connect(&target, &g, ClusterOptions::new()).unwrap();
    let done = session.run(w.initializer(), []);
    server.assert_running();
    done.unwrap();
    assert!(session.run::<Vec<f32>>(w, []).unwrap() == values);
    server.assert_running();
}
