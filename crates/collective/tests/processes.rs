//! Jobs whose ranks are processes, which are killed and stopped.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg_collective::{
    ALL_RANKS, Coordinator, Join, Ranks, ReduceOp, Reduction, SILENCE_TIMEOUT, variables,
};
use thalweg_tensor::DType;

/// Variable for the processes of ranks: `true` if they share memory.
const MEMORY: &str = "THALWEG_TEST_MEMORY";

/// Process of a rank: it reduces until an error, and prints it.
#[test]
#[ignore = "a process of the other tests"]
fn rank_of_a_job() {
    let join = Join::from_env().unwrap();
    let mut ranks = Ranks::join(&join.memory(std::env::var(MEMORY).unwrap() == "true")).unwrap();
    println!("joined");
    let sum = Reduction::of(ReduceOp::Sum);
    let mut data = vec![0f32; 10_000];
    for step in 0u64.. {
        data.fill(1.0);
        let bytes = bytemuck::cast_slice_mut(&mut data);
        if let Err(error) = ranks.all_reduce(ALL_RANKS, "x", bytes, DType::F32, sum) {
            println!("after {step} steps: {error}");
            return;
        }
        assert!(data.iter().all(|&x| x == ranks.size() as f32));
    }
}

struct Processes {
    all: Vec<Child>,
    outputs: Vec<BufReader<ChildStdout>>,
    coordinator: Coordinator,
}

impl Processes {
    /// Starts ranks, and waits until all have joined and run for a while.
    fn start(size: usize, memory: bool) -> Processes {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = Coordinator::start(listener, size, "secret").unwrap();
        let address = coordinator.address();
        let rank = |rank: usize| {
            Command::new(std::env::current_exe().unwrap())
                .args(["rank_of_a_job", "--exact", "--ignored", "--nocapture"])
                .env(variables::RANK, rank.to_string())
                .env(variables::SIZE, size.to_string())
                .env(variables::ADDRESS, address.ip().to_string())
                .env(variables::PORT, address.port().to_string())
                .env(variables::SECRET, "secret")
                .env(MEMORY, memory.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut processes = Processes {
            all: (0..size).map(rank).collect(),
            outputs: Vec::new(),
            coordinator,
        };
        for child in &mut processes.all {
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            while !line.contains("joined") {
                line.clear();
                assert_ne!(output.read_line(&mut line).unwrap(), 0, "a rank ended");
            }
            processes.outputs.push(output);
        }
        std::thread::sleep(WARM_UP);
        processes
    }

    fn signal(&self, rank: usize, signal: &str) {
        let id = self.all[rank].id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits until all ranks but one have ended, and returns their output.
    fn others(&mut self, but: usize, limit: Duration) -> Vec<String> {
        let began = Instant::now();
        while self
            .all
            .iter_mut()
            .enumerate()
            .any(|(r, c)| r != but && c.try_wait().unwrap().is_none())
        {
            assert!(began.elapsed() < limit, "ranks still run after {limit:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(child) = self.all.get_mut(but) {
            let _ = child.kill();
        }
        let texts = self.outputs.iter_mut().map(|output| {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            text
        });
        let texts: Vec<String> = texts.collect();
        let others = texts.into_iter().enumerate().filter(|(r, _)| *r != but);
        others.map(|(_, text)| text).collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.all {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Time for which ranks reduce before a fault.
const WARM_UP: Duration = Duration::from_millis(300);

#[test]
fn a_killed_rank_is_named_by_all_others_within_seconds() {
    for memory in [true, false] {
        let mut processes = Processes::start(4, memory);
        processes.signal(2, "-KILL");
        for text in processes.others(2, Duration::from_secs(5)) {
            assert!(
                text.contains("rank 2 is lost: its process has ended"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_stopped_rank_is_named_by_all_others_after_the_silence_timeout() {
    let mut processes = Processes::start(3, true);
    processes.signal(1, "-STOP");
    for text in processes.others(1, SILENCE_TIMEOUT + Duration::from_secs(10)) {
        assert!(
            text.contains("rank 1 is lost: nothing was heard of it for 10s"),
            "{text}"
        );
    }
}

#[test]
fn ranks_end_when_their_coordinator_is_lost() {
    let mut processes = Processes::start(2, true);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    processes.coordinator = Coordinator::start(listener, 1, "other").unwrap();
    for text in processes.others(usize::MAX, Duration::from_secs(5)) {
        assert!(text.contains("the coordinator is lost"), "{text}");
    }
}

#[test]
fn a_wrong_secret_size_or_rank_is_refused_with_a_reason() {
    let coordinator =
        Coordinator::start(TcpListener::bind("127.0.0.1:0").unwrap(), 2, "secret").unwrap();
    let at = |rank, size, secret| {
        let join = Join::at(coordinator.address(), rank, size, secret);
        let joined = Ranks::join(&join.timeout(Duration::from_secs(5)));
        joined.err().expect("an error").to_string()
    };
    assert!(at(0, 2, "guess").contains("the secret of the job is another one"));
    assert!(at(0, 3, "secret").contains("the job has 2 ranks, not 3"));
    assert!(at(2, 2, "secret").contains("there is no rank 2 of 2"));
}

#[test]
fn garbage_at_the_coordinator_ends_its_connection_alone() {
    use std::io::Write;
    let coordinator =
        Coordinator::start(TcpListener::bind("127.0.0.1:0").unwrap(), 1, "secret").unwrap();
    let garbage: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 100],
        b"{\"rank\": -1, \"secret\": \"secret\"}\n",
        &[b'x'; 10_000],
    ];
    for bytes in garbage {
        let mut stream = std::net::TcpStream::connect(coordinator.address()).unwrap();
        let mut answer = Vec::new();
        // The connection may be closed at any time.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{:?}", String::from_utf8_lossy(&answer));
    }
    Ranks::join(&Join::at(coordinator.address(), 0, 1, "secret")).unwrap();
}
