//! What is read from another process's memory, and what is not.

#[path = "../../../../tests/support/addresses.rs"]
mod addresses;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_graph::{DeviceSpec, Graph, Operation};
use thalweg_ops::{ArrayOps, NewGraph, StateOps, Variable};
use thalweg_tensor::{Buffer, Memory};

use super::*;
use crate::peers::Peer;
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

/// Two tasks of a cluster on this machine.
struct Two {
    cluster: ClusterSpec,
    ps: Server,
    worker: Server,
}

impl Two {
    fn new(near: bool) -> Two {
        let addresses = addresses::free_addresses(2);
        let tasks = ["ps", "worker"].into_iter().zip(addresses.chunks(1));
        let cluster = ClusterSpec::new(tasks).unwrap();
        let [ps, worker] = ["ps", "worker"].map(|job| {
            let mut options = ServerOptions::listening("");
            options.near = near;
            options.session.threads = 1;
            Server::new(cluster.clone(), job, 0, options).unwrap()
        });
        Two {
            cluster,
            ps,
            worker,
        }
    }

    /// The worker's connection to the server, or the server's to the worker.
    fn peer(&self, of_worker: bool) -> Arc<Peer> {
        let (from, of) = match of_worker {
            true => (&self.worker, &self.ps),
            false => (&self.ps, &self.worker),
        };
        let task = of.task();
        let address = self.cluster.address(&task.0, task.1).unwrap();
        from.worker().peers.get(task, address).unwrap()
    }

    /// How many values were copied from the other's memory and how many read there: by the worker, and by
    /// the server.
    fn counts(&self) -> [(u64, u64); 2] {
        [true, false].map(|of_worker| {
            let peer = self.peer(of_worker);
            let [copies, in_place] =
                [&peer.counts.copies, &peer.counts.in_place].map(|n| n.load(SeqCst));
            (copies, in_place)
        })
    }

    /// Waits until the server has the bytes of so many elements and no more, and the worker none: the
    /// streams of the last step end a moment after it.
    fn settle(&self, elements: usize) {
        let held = || (self.ps.worker().held(), self.worker.worker().held());
        let expected = ((0, 0, elements * 4), (0, 0, 0));
        let until = Instant::now() + Duration::from_secs(20);
        while held() != expected && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(held(), expected);
    }
}

const LENGTH: usize = 1 << 18;

/// A variable on the server, and its value on the worker added to it, times two.
fn tripled(g: &Graph) -> (Variable<'_>, Operation<'_>) {
    let on = |job: &str| format!("/job:{job}/task:0").parse::<DeviceSpec>().unwrap();
    let w = g.device(on("ps"), || g.variable("w", vec![1.0f32; LENGTH]));
    let read = w.read();
    let next = g.device(on("worker"), || read + read);
    (w, g.device(on("ps"), || w.assign_add(next)))
}

/// As [`Two::counts`], after three steps and a fetch.
fn lent(near: bool) -> [(u64, u64); 2] {
    let two = Two::new(near);
    let g = Graph::new();
    let (w, add) = tripled(&g);
    let session = Session::on(&two.worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    for _ in 0..3 {
        session.run(add, []).unwrap();
    }
    let found = session.run(w.read(), []).unwrap();
    assert!(found.slice::<f32>(0).unwrap().iter().all(|&v| v == 27.0));
    drop(session);
    two.settle(LENGTH);
    two.counts()
}

#[test]
fn large_values_between_servers_of_one_machine_are_lent_and_given_back() {
    // What three steps send is read in place, what is fetched is copied.
    assert_eq!(lent(true), [(1, 3), (0, 3)]);
    assert_eq!(lent(false), [(0, 0), (0, 0)]);
}

#[test]
fn a_segment_that_was_given_up_does_not_stay_mapped() {
    let memory = Arc::new(Memory::new(None).sharing(1 << 30));
    let (near, maps) = (Near::own(), Maps::default());
    let make = || Arc::new(Buffer::try_any_in(LEAST, &memory).unwrap());
    let map = |buffer: &Arc<Buffer>| {
        let name = buffer.segment().unwrap();
        let segment = wire::Segment {
            descriptor: name.descriptor,
            inode: name.inode,
        };
        maps.get(near, segment, LEAST).unwrap()
    };
    let (old, used) = (make(), make());
    let old = Arc::downgrade(&map(&old));
    for _ in 0..100 {
        assert!(maps.give(map(&used)));
    }
    assert!(old.upgrade().is_some());
    map(&make());
    assert!(old.upgrade().is_none());
    let used = Arc::downgrade(&map(&used));
    maps.clear();
    assert!(used.upgrade().is_none());
}

#[test]
fn what_is_read_twice_in_a_step_is_given_back_once() {
    let two = Two::new(true);
    let g = Graph::new();
    let [ps, worker] = ["ps", "worker"].map(|job| format!("/job:{job}/task:0"));
    let w = g.device(&*ps, || g.variable("w", vec![1.0f32; LENGTH]));
    let both = [w.read(), w.read()];
    let next = g.device(&*worker, || both[0] + both[1]);
    let add = g.device(&*ps, || w.assign_add(next));
    let session = Session::on(&two.worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    for _ in 0..20 {
        session.run(add, []).unwrap();
    }
    drop(session);
    two.settle(LENGTH);
    assert_eq!(two.counts(), [(0, 40), (0, 20)]);
    assert_eq!(two.peer(true).counts.kept.load(SeqCst), 0);
}

#[test]
fn a_value_that_is_kept_stays_as_it_was_read() {
    let two = Two::new(true);
    let g = Graph::new();
    let (w, add) = tripled(&g);
    let worker: DeviceSpec = "/job:worker/task:0".parse().unwrap();
    let read = g.device(worker, || w.read().reshape(vec![2i32, LENGTH as i32 / 2]));
    let session = Session::on(&two.worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut kept = Vec::new();
    for _ in 0..4 {
        kept.push(session.run(read, []).unwrap());
        session.run(add, []).unwrap();
    }
    for (found, expected) in kept.iter().zip([1.0, 3.0, 9.0, 27.0]) {
        assert!(
            found
                .slice::<f32>(0)
                .unwrap()
                .iter()
                .all(|&v| v == expected)
        );
    }
    assert_eq!(two.counts(), [(0, 8), (0, 4)]);
    // They are mapped, and not copied.
    assert_eq!(two.peer(true).counts.kept.load(SeqCst), 4);
    drop((session, kept));
    two.settle(LENGTH);
}

#[test]
fn what_is_mapped_and_not_given_back_is_never_written_again() {
    let memory = Arc::new(Memory::new(None).sharing(1 << 30));
    let near = Near::own();
    let (loans, maps) = (Loans::new(true), Maps::default());
    let lend = |buffer: &Arc<Buffer>| {
        let said = loans.lend(Bytes::copy_from_slice(buffer.bytes()), Some(buffer));
        (said.token, said.segment.unwrap())
    };
    let mut buffer = Arc::new(Buffer::try_any_in(LEAST, &memory).unwrap());
    let (token, segment) = lend(&buffer);
    let mapped = maps.get(near, segment, LEAST).unwrap();
    assert!(maps.give(mapped));
    loans.taken(token);
    assert!(Buffer::get_mut(&mut buffer).is_some());

    // It is still mapped; who has it keeps it from being given back.
    let (_, segment) = lend(&buffer);
    let mapped = maps.get(near, segment, LEAST).unwrap();
    let kept = mapped.clone();
    assert!(!maps.give(mapped));
    loans.end();
    drop(loans);
    assert!(Buffer::get_mut(&mut buffer).is_none());
    drop(kept);
    assert!(Buffer::get_mut(&mut buffer).is_none());

    // Nothing is said of what is not in a segment.
    let mut heap = Arc::new(Buffer::zeroed(LEAST));
    let loans = Loans::new(true);
    let said = loans.lend(Bytes::copy_from_slice(heap.bytes()), Some(&heap));
    assert_eq!(said.segment, None);
    drop(loans);
    assert!(Buffer::get_mut(&mut heap).is_some());

    // Where the receiver cannot say what it reads no more, nothing may be mapped.
    let said = Loans::new(false).lend(Bytes::new(), Some(&buffer));
    assert_eq!(said.segment, None);
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
