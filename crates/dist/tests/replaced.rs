//! Test of a replaced parameter server that comes back.

#[path = "../../../tests/support/addresses.rs"]
mod addresses;

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use thalweg_dist::{
    Cause, ClusterError, ClusterOptions, ClusterSpec, Server, ServerOptions, Session, Timeouts,
};
use thalweg_graph::{DeviceSpec, Graph};
use thalweg_ops::{NewGraph, StateOps};
use thalweg_session::SessionOptions;

/// A proxy that forwards to one of two servers.
struct Cable {
    address: String,
    end: Arc<Mutex<(String, Vec<TcpStream>)>>,
}

impl Cable {
    fn to(address: &str) -> Cable {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let end = Arc::new(Mutex::new((address.to_owned(), Vec::new())));
        let known = end.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let mut end = known.lock().unwrap();
                let Ok(far) = TcpStream::connect(&end.0) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || {
                        // It ends with either side.
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                end.1.extend([near, far]);
            }
        });
        Cable { address: own, end }
    }

    fn turn(&self, address: &str) {
        let mut end = self.end.lock().unwrap();
        end.0 = address.to_owned();
        for stream in end.1.drain(..) {
            // A closed connection is no error.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Repeats `work` while it fails by a passing loss of the connection.
fn settled<T>(work: impl Fn() -> Result<T, ClusterError>) -> Result<T, ClusterError> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let passing = [Cause::Unreachable, Cause::Silent, Cause::SessionLost];
        match work() {
            Err(e) if passing.contains(&e.cause) && Instant::now() < until => {}
            done => return done,
        }
    }
}

#[test]
fn a_master_does_not_return_to_a_replaced_process() {
    let [old, new, worker] = addresses::free_addresses(3).try_into().unwrap();
    let cable = Cable::to(&old);
    let serve = |job: &str, ps: &str| {
        let cluster = ClusterSpec::new([("ps", [ps]), ("worker", [&*worker])]).unwrap();
        let session = SessionOptions::new().threads(1);
        let options = ServerOptions::listening("").session(session);
        Server::new(cluster, job, 0, options).unwrap()
    };
    let old_server = serve("ps", &old);
    let master = serve("worker", &cable.address);
    let g = Graph::new();
    let on: DeviceSpec = "/job:ps/task:0".parse().unwrap();
    let w = g.device(on, || g.variable("w", 1.0f32));
    let session = Session::on(&master, &g, ClusterOptions::default()).unwrap();
    session.run(w.initializer(), []).unwrap();
    // Another client, which knows no other process.
    let timeouts = Timeouts::new().connect(Duration::from_secs(1));
    let options = ClusterOptions::new().timeouts(timeouts);
    let other = Session::connect(&old_server.target(), &g, options).unwrap();
    assert_eq!(other.run::<f32>(w, []).unwrap(), 1.0);

    let _new_server = serve("ps", &new);
    cable.turn(&new);
    let lost = settled(|| session.step(w, [])).unwrap_err();
    assert_eq!(lost.cause, Cause::Restarted, "{lost}");
    session.run(w.initializer(), []).unwrap();

    cable.turn(&old);
    let back = settled(|| session.step(w, [])).unwrap_err();
    assert_eq!(back.cause, Cause::Replaced, "{back}");
    assert!(back.message.contains("/job:ps/task:0"), "{back}");
    let fenced = settled(|| other.step(w, [])).unwrap_err();
    assert_eq!(fenced.cause, Cause::Replaced, "{fenced}");

    cable.turn(&new);
    let until = Instant::now() + Duration::from_secs(20);
    while session.step(w, []).is_err() {
        assert!(Instant::now() < until, "the newest process is not reached");
    }
}
