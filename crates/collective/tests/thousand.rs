//! Scaling to 1,000 ranks, as threads: messages, bytes and memory of each rank grow as its algorithm predicts.
//!
//! `cargo test --release -p thalweg-collective --test thousand -- --include-ignored --nocapture` prints them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_collective::links::threads::ThreadLinks;
use thalweg_collective::links::{Incoming, Links, Outgoing};
use thalweg_collective::{
    ALL_RANKS, Algorithm, Channel, Coordinator, Join, Ranks, ReduceOp, Reducer, Reduction, Result,
    all_reduce,
};
use thalweg_tensor::DType;

/// System allocator that counts the bytes in use.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Lock of the running test, which counts the bytes of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Links that count the messages of a rank.
struct Counted {
    links: ThreadLinks,
    messages: usize,
    bytes: usize,
    peers: HashSet<usize>,
}

impl Links for Counted {
    fn rank(&self) -> usize {
        self.links.rank()
    }

    fn size(&self) -> usize {
        self.links.size()
    }

    fn exchange(
        &mut self,
        send: Option<Outgoing<'_>>,
        receive: Option<Incoming<'_>>,
    ) -> Result<()> {
        if let Some(send) = &send {
            self.messages += 1;
            self.bytes += send.bytes.len();
            self.peers.insert(send.to);
        }
        if let Some(receive) = &receive {
            self.peers.insert(receive.from);
        }
        self.links.exchange(send, receive)
    }
}

/// Maxima over all ranks of messages, bytes and peers, and the bytes of memory for each rank.
#[derive(Debug)]
struct Maxima {
    messages: usize,
    bytes: usize,
    peers: usize,
    memory: usize,
}

/// Sums `elements` f32 of so many ranks.
fn measure_sum(size: usize, elements: usize, algorithm: Algorithm) -> Maxima {
    let members: Vec<usize> = (0..size).collect();
    let before = USED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let rank = |links: ThreadLinks| {
        let mut links = Counted {
            links,
            messages: 0,
            bytes: 0,
            peers: HashSet::new(),
        };
        let mut data = vec![1f32; elements];
        let sum = Reducer::new(ReduceOp::Sum, DType::F32, size, 1.0).unwrap();
        let mut channel = Channel::new(&mut links, &members, 1).unwrap();
        all_reduce(
            &mut channel,
            algorithm,
            bytemuck::cast_slice_mut(&mut data),
            sum,
        )
        .unwrap();
        assert!(data.iter().all(|&x| x == size as f32));
        (links.messages, links.bytes, links.peers.len())
    };
    let found: Vec<(usize, usize, usize)> = thread::scope(|scope| {
        let ranks = ThreadLinks::all(size).into_iter().map(|links| {
            let thread = thread::Builder::new().stack_size(64 << 10);
            thread.spawn_scoped(scope, || rank(links)).unwrap()
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    });
    let most = |of: fn(&(usize, usize, usize)) -> usize| found.iter().map(of).max().unwrap();
    Maxima {
        messages: most(|f| f.0),
        bytes: most(|f| f.1),
        peers: most(|f| f.2),
        memory: (PEAK.load(Ordering::Relaxed) - before) / size,
    }
}

/// Predicted messages of the rank that sends most, and its bytes as multiples of the value's.
fn predicted(algorithm: Algorithm, size: usize) -> (usize, f64) {
    let rounds = size.ilog2() as usize;
    let fold = usize::from(!size.is_power_of_two());
    let share = (size - 1) as f64 / size as f64;
    match algorithm {
        Algorithm::Doubling => (rounds + fold, (rounds + fold) as f64),
        Algorithm::Halving => (2 * rounds + fold, 2.0 + fold as f64),
        Algorithm::Ring => (2 * (size - 1), 2.0 * share),
        // The first rank sends to all its children.
        Algorithm::Tree => (rounds + fold, (rounds + fold) as f64),
    }
}

#[test]
fn messages_and_memory_of_a_thousand_ranks_grow_as_predicted() {
    let _alone = ALONE.lock().unwrap();
    // Parts of whole elements for any of these.
    let elements = 8_000;
    let value = 4 * elements;
    for algorithm in Algorithm::ALL {
        for size in [2, 10, 33, 128, 1000] {
            let most = measure_sum(size, elements, algorithm);
            let (messages, bytes) = predicted(algorithm, size);
            println!("{algorithm:>8} {size:>5} ranks: {most:?}, predicted {messages} messages");
            assert!(most.messages <= messages, "{most:?} {messages}");
            let sent = most.bytes as f64 / value as f64;
            // Parts are rounded to whole elements.
            assert!(sent <= bytes * 1.01 + 0.01, "{sent} {bytes}");
            let peers = match algorithm {
                Algorithm::Ring => 2,
                _ => size.ilog2() as usize + 1,
            };
            assert!(most.peers <= peers, "{most:?} {peers}");
            // Its value, a copy of it, messages on the way, and a record for each rank.
            let room = 4 * value + 4096 + 16 * size;
            assert!(most.memory <= room, "{most:?} {room}");
        }
    }
}

/// 1,000 ranks of TCP in one process: their threads, connections and tables.
#[test]
#[ignore = "takes thousands of threads and descriptors: run it by name"]
fn a_thousand_ranks_join_and_reduce_over_tcp() {
    let _alone = ALONE.lock().unwrap();
    for size in [10, 100, 1000] {
        let before = USED.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = Coordinator::start(listener, size, "secret").unwrap();
        let address = coordinator.address();
        let began = Instant::now();
        thread::scope(|scope| {
            for rank in 0..size {
                let thread = thread::Builder::new().stack_size(256 << 10);
                let rank = move || {
                    let join = Join::at(address, rank, size, "secret").memory(false);
                    let mut ranks = Ranks::join(&join.timeout(Duration::from_secs(300))).unwrap();
                    let mut data = [1f32];
                    let sum = Reduction::of(ReduceOp::Sum);
                    let bytes = bytemuck::cast_slice_mut(&mut data);
                    ranks
                        .all_reduce(ALL_RANKS, "sum", bytes, DType::F32, sum)
                        .unwrap();
                    assert_eq!(data[0], size as f32);
                };
                thread.spawn_scoped(scope, rank).unwrap();
            }
        });
        let memory = (PEAK.load(Ordering::Relaxed) - before) / size;
        println!("{size} ranks: {:?}, {memory} bytes each", began.elapsed());
    }
}
