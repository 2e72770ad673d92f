//! Tests of values through shared memory.

#[path = "../../../../../tests/support/addresses.rs"]
mod addresses;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use thalweg_graph::{DeviceSpec, Graph, Operation};
use thalweg_ops::{ArrayOps, NewGraph, ReduceOps, StateOps, Variable};
use thalweg_session::SessionOptions;
use thalweg_tensor::{BUFFER_OVERHEAD, Buffer, DType, Memory, Tensor};
use tokio::runtime::Handle;

use super::lender::{Lender, Loans};
use super::loan_table::MIN_LENT_BYTES;
use super::segments::{ColocatedTask, SegmentMaps};
use crate::cluster::spec::ClusterSpec;
use crate::server::Server;
use crate::server::options::ServerOptions;
use crate::session::{ClusterOptions, Session};
use crate::transport::peers::Peer;

/// Two tasks of a cluster on this machine.
struct Two {
    cluster: ClusterSpec,
    ps: Server,
    worker: Server,
}

impl Two {
    fn new(shared_memory: bool) -> Two {
        let addresses = addresses::free_addresses(2);
        let tasks = ["ps", "worker"].into_iter().zip(addresses.chunks(1));
        let cluster = ClusterSpec::new(tasks).unwrap();
        let [ps, worker] = ["ps", "worker"].map(|job| {
            let options = ServerOptions::listening("")
                .session(SessionOptions::new().threads(1))
                .shared_memory(shared_memory);
            Server::new(cluster.clone(), job, 0, options).unwrap()
        });
        Two {
            cluster,
            ps,
            worker,
        }
    }

    /// Returns the worker's peer (the server), or the server's peer (the worker).
    fn peer(&self, of_worker: bool) -> Arc<Peer> {
        let (from, of) = match of_worker {
            true => (&self.worker, &self.ps),
            false => (&self.ps, &self.worker),
        };
        let task = of.task();
        let address = self.cluster.address(&task.0, task.1).unwrap();
        from.worker().peers.get(task, address).unwrap()
    }

    /// Returns the numbers of values that were copied and read in place: by the worker, and by the server.
    fn counts(&self) -> [(u64, u64); 2] {
        [true, false].map(|of_worker| {
            let peer = self.peer(of_worker);
            let [copies, in_place] =
                [&peer.counts.copies, &peer.counts.in_place].map(|n| n.load(SeqCst));
            (copies, in_place)
        })
    }

    /// Waits until the server holds the bytes of `elements` only, and the worker none: the streams of the last step
    /// end a moment after it.
    fn settle(&self, elements: usize) {
        let held = || (self.ps.worker().held(), self.worker.worker().held());
        let bytes = if elements > 0 {
            elements * 4 + BUFFER_OVERHEAD
        } else {
            0
        };
        let expected = ((0, 0, bytes), (0, 0, 0));
        let until = Instant::now() + Duration::from_secs(20);
        while held() != expected && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(held(), expected);
    }
}

const LENGTH: usize = 1 << 18;

/// Returns a variable on the server, and an op that adds twice its value, computed on the worker.
fn tripled(g: &Graph) -> (Variable<'_>, Operation<'_>) {
    let on = |job: &str| format!("/job:{job}/task:0").parse::<DeviceSpec>().unwrap();
    let w = g.device(on("ps"), || g.variable("w", vec![1.0f32; LENGTH]));
    let read = w.read();
    let next = g.device(on("worker"), || read + read);
    (w, g.device(on("ps"), || w.assign_add(next)))
}

/// Returns [`Two::counts`] after three steps and a fetch.
fn lent(shared_memory: bool) -> [(u64, u64); 2] {
    let two = Two::new(shared_memory);
    let g = Graph::new();
    let (w, add) = tripled(&g);
    let session = Session::on(&two.worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    for _ in 0..3 {
        session.run(add, []).unwrap();
    }
    let found = session.step(w.read(), []).unwrap();
    assert!(found.slice::<f32>(0).unwrap().iter().all(|&v| v == 27.0));
    drop(session);
    two.settle(LENGTH);
    two.counts()
}

#[test]
fn large_values_between_servers_of_one_machine_are_lent_and_given_back() {
    // The values of three steps are read in place, the fetched value is copied.
    assert_eq!(lent(true), [(1, 3), (0, 3)]);
    assert_eq!(lent(false), [(0, 0), (0, 0)]);
}

#[test]
fn an_abandoned_segment_is_unmapped() {
    let memory = Arc::new(Memory::new(None).sharing(1 << 30));
    let maps = SegmentMaps::default();
    let make = || Buffer::try_any_in(MIN_LENT_BYTES, &memory).unwrap();
    let map = |buffer: &Buffer| {
        let (number, file) = (buffer.segment().unwrap(), buffer.segment_file().unwrap());
        let known = maps.get(number, MIN_LENT_BYTES);
        known.unwrap_or_else(|| {
            maps.put(
                number,
                Buffer::mapped(file, number, MIN_LENT_BYTES).unwrap(),
            )
        })
    };
    let (old, used) = (make(), make());
    let old = Arc::downgrade(&map(&old));
    for _ in 0..100 {
        assert!(maps.release(map(&used)));
    }
    assert!(old.upgrade().is_some());
    map(&make());
    assert!(old.upgrade().is_none());
    let used = Arc::downgrade(&map(&used));
    drop(maps);
    assert!(used.upgrade().is_none());
}

#[test]
fn a_buffer_read_twice_in_a_step_is_returned_once() {
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
fn a_kept_value_does_not_change() {
    let two = Two::new(true);
    let g = Graph::new();
    let (w, add) = tripled(&g);
    let worker: DeviceSpec = "/job:worker/task:0".parse().unwrap();
    let read = g.device(worker, || w.read().reshape(vec![2i32, LENGTH as i32 / 2]));
    let session = Session::on(&two.worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut kept = Vec::new();
    for _ in 0..4 {
        kept.push(session.step(read, []).unwrap());
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
    // The values are mapped, and not copied.
    assert_eq!(two.peer(true).counts.kept.load(SeqCst), 4);
    drop((session, kept));
    two.settle(LENGTH);
}

/// Returns a tensor in this buffer.
fn tensor(buffer: &Arc<Buffer>) -> Tensor {
    Tensor::from_buffer(DType::F32, &[MIN_LENT_BYTES / 4], buffer.clone()).unwrap()
}

#[tokio::test]
async fn a_loan_that_is_not_returned_is_never_overwritten() {
    let memory = Arc::new(Memory::new(None).sharing(1 << 30));
    let lender = Arc::<Lender>::default();
    let (runtime, timeout) = (Handle::current(), Duration::from_secs(20));
    let said = lender.socket(&runtime, 1, timeout).unwrap();
    let receiver = ColocatedTask::find(said, &runtime, timeout).await.unwrap();
    let mut loans = Loans::new(lender.clone());
    let mut buffer = Arc::new(Buffer::try_any_in(MIN_LENT_BYTES, &memory).unwrap());
    let loan = loans.lend(&tensor(&buffer)).unwrap();
    let mapped = receiver.map(loan, MIN_LENT_BYTES).await.unwrap();
    assert!(receiver.release(mapped));
    assert!(Buffer::get_mut(&mut buffer).is_none());
    let (stream, dropped) = tokio::sync::oneshot::channel::<()>();
    receiver.return_loans(vec![loan.token], Box::new(stream));
    // The stream stays open until the lender has the return.
    assert!(dropped.await.is_err());
    assert!(Buffer::get_mut(&mut buffer).is_some());

    // It is still mapped and in use, so it is not returned.
    let loan = loans.lend(&tensor(&buffer)).unwrap();
    let mapped = receiver.map(loan, MIN_LENT_BYTES).await.unwrap();
    let kept = mapped.clone();
    assert!(!receiver.release(mapped));
    drop(loans);
    assert!(Buffer::get_mut(&mut buffer).is_none());
    drop(kept);
    assert!(Buffer::get_mut(&mut buffer).is_none());

    // A buffer outside of a segment is not lent.
    let mut heap = Arc::new(Buffer::zeroed(MIN_LENT_BYTES));
    let mut loans = Loans::new(lender);
    assert_eq!(loans.lend(&tensor(&heap)), None);
    assert!(loans.is_empty());
    drop(loans);
    assert!(Buffer::get_mut(&mut heap).is_some());
}

#[test]
fn integers_are_copied_before_use() {
    let two = Two::new(true);
    let g = Graph::new();
    let [ps, worker] = ["ps", "worker"].map(|job| format!("/job:{job}/task:0"));
    let w = g.device(&*ps, || g.variable("w", vec![1i32; LENGTH]));
    let read = [w.read(), w.read()];
    let sum = g.device(&*worker, || (read[0] + read[1]).sum());
    let session = Session::on(&two.worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    for _ in 0..3 {
        let found = session.step(sum, []).unwrap();
        assert_eq!(found.scalar::<i32>(0).unwrap(), 2 * LENGTH as i32);
    }
    drop(session);
    two.settle(LENGTH);
    assert_eq!(two.counts(), [(6, 0), (0, 0)]);
    assert_eq!(two.peer(true).counts.kept.load(SeqCst), 0);
}

#[test]
fn a_task_that_sends_no_descriptor_fails_one_step_and_its_values_then_come_over_the_connection() {
    let two = Two::new(true);
    let g = Graph::new();
    let (w, add) = tripled(&g);
    let session = Session::on(&two.worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let lender = two.ps.worker().lender.clone().unwrap();
    lender.loans.mute.store(true, SeqCst);
    let error = session.step(add, []).unwrap_err();
    assert_eq!(error.cause, crate::error::Cause::Unreachable, "{error}");
    assert!(error.message.contains("shared memory"), "{error}");
    for _ in 0..2 {
        session.run(add, []).unwrap();
    }
    let found = session.step(w.read(), []).unwrap();
    assert!(found.slice::<f32>(0).unwrap().iter().all(|&v| v == 9.0));
    assert_eq!(two.counts()[0], (0, 0));
    drop(session);
    two.settle(LENGTH);
}

#[test]
fn a_task_that_has_restarted_is_found_again() {
    let two = Two::new(true);
    let peer = two.peer(true);
    let find = || {
        let runtime = two.worker.worker().platform.runtime();
        runtime.block_on(peer.colocated())
    };
    let before = find().unwrap().unwrap();
    assert!(Arc::ptr_eq(&find().unwrap().unwrap(), &before));
    drop(two.ps);
    let session = SessionOptions::new().threads(1);
    let options = ServerOptions::listening("").session(session);
    let ps = Server::new(two.cluster.clone(), "ps", 0, options).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let found = find();
        if let Ok(Some(after)) = &found
            && after.incarnation == ps.worker().incarnation
        {
            break;
        }
        assert!(Instant::now() < until, "{found:?}");
    }
}
