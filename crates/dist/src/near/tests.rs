//! What is read from another process's memory, and what is not.

#[path = "../../../../tests/support/addresses.rs"]
mod addresses;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use thalweg_graph::{DeviceSpec, Graph};
use thalweg_ops::{NewGraph, StateOps};

use super::*;
use crate::{ClusterOptions, ClusterSpec, Server, ServerOptions, Session};

impl Near {
    /// This process, as another one would know it.
    pub(crate) fn own() -> Near {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let nonce = Nonce::new();
        let shown = Shown::new(nonce.message()).unwrap();
        let port = socket.local_addr().unwrap().port();
        nonce.find(&shown.message(7), port).unwrap()
    }
}

#[test]
fn a_process_is_near_only_where_the_nonce_is_found() {
    assert_eq!(Near::own().incarnation, 7);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let nonce = Nonce::new();
    let other = Shown::new(Nonce::new().message()).unwrap();
    assert_eq!(nonce.find(&other.message(7), port), None);
    let shown = Shown::new(nonce.message()).unwrap();
    let said = shown.message(7);
    assert!(nonce.find(&said, port).is_some());
    // Nobody of this process listens there.
    assert_eq!(nonce.find(&said, 1), None);
    for wrong in [
        wire::Nearby { at: 0, ..said },
        wire::Nearby {
            at: u64::MAX - 3,
            ..said
        },
        wire::Nearby { process: 0, ..said },
        wire::Nearby {
            process: u32::MAX,
            ..said
        },
    ] {
        assert_eq!(nonce.find(&wrong, port), None, "{wrong:?}");
    }
    let short = wire::Near { nonce: vec![1; 15] };
    assert!(Shown::new(short).is_err());
}

#[test]
fn what_is_lent_is_read_and_what_is_taken_back_is_not() {
    let bytes: Vec<u8> = (0..3_000_017).map(|i| i as u8).collect();
    let loan = Loan::new(Bytes::from(bytes.clone()), None);
    let said = loan.message();
    let mut found = vec![0; bytes.len()];
    let mut borrowed = Borrowed::new(Near::own(), said);
    let (first, rest) = found.split_at_mut(12_345);
    borrowed.fill(first).unwrap();
    borrowed.fill(rest).unwrap();
    borrowed.end().unwrap();
    assert!(found == bytes);

    let mut borrowed = Borrowed::new(Near::own(), said);
    borrowed.fill(&mut found[..10]).unwrap();
    drop(loan);
    assert!(borrowed.end().is_err());
}

/// How many values the worker and the server have read from each other's memory, once both have
/// given back what they lent.
fn lent(near: bool) -> (u64, u64) {
    const LENGTH: usize = 1 << 18;
    let addresses = addresses::free_addresses(2);
    let tasks = ["ps", "worker"].into_iter().zip(addresses.chunks(1));
    let cluster = ClusterSpec::new(tasks).unwrap();
    let [ps, worker] = ["ps", "worker"].map(|job| {
        let mut options = ServerOptions::listening("");
        options.near = near;
        options.session.threads = 1;
        Server::new(cluster.clone(), job, 0, options).unwrap()
    });
    let g = Graph::new();
    let on = |job: &str| format!("/job:{job}/task:0").parse::<DeviceSpec>().unwrap();
    let w = g.device(on("ps"), || g.variable("w", vec![1.0f32; LENGTH]));
    let read = w.read();
    let next = g.device(on("worker"), || read + read);
    let add = w.assign_add(next);
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    for _ in 0..3 {
        session.run(add, []).unwrap();
    }
    let found = session.run(w.read(), []).unwrap();
    assert!(found.slice::<f32>(0).unwrap().iter().all(|&v| v == 27.0));
    drop(session);
    // The streams of the last step end a moment after it.
    let held = || (ps.worker().held(), worker.worker().held());
    let expected = ((0, 0, LENGTH * 4), (0, 0, 0));
    let until = Instant::now() + Duration::from_secs(20);
    while held() != expected && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(held(), expected);
    let copied = |from: &Server, of: &Server| {
        let task = of.task();
        let address = cluster.address(&task.0, task.1).unwrap();
        let peer = from.worker().peers.get(task, address).unwrap();
        peer.copies.load(Ordering::Relaxed)
    };
    (copied(&worker, &ps), copied(&ps, &worker))
}

#[test]
fn large_values_between_servers_of_one_machine_are_lent_and_given_back() {
    // What three steps send, and what is fetched.
    assert_eq!(lent(true), (4, 3));
    assert_eq!(lent(false), (0, 0));
}

#[tokio::test]
async fn only_this_machine_is_here() {
    assert_eq!(here("127.0.0.1:2222").await, Some(2222));
    assert_eq!(here("localhost:2222").await, Some(2222));
    // Addresses for documents, which nobody has.
    assert_eq!(here("192.0.2.1:2222").await, None);
    assert_eq!(here("[2001:db8::1]:2222").await, None);
    assert_eq!(here("no such host:1").await, None);
}
