//! All-reduce between ranks on emulated hosts with slow or lossy cables.
//!
//! The hosts are network namespaces of this machine, as in `hosts.rs`.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg::collective::{
    ALL_RANKS, Coordinator, Join, Ranks, ReduceOp, Reduction, variables as named,
};
use thalweg::tensor::DType;
use thalweg_tests::network::{Cable, Network};
use thalweg_tests::root;

/// Environment variable with the sizes that a rank reduces, in bytes, separated by commas.
const SIZES: &str = "THALWEG_TEST_SIZES";
const SECRET: &str = "of the tests";
const PORT: u16 = 2222;
/// Sums per measurement.
const RUNS: usize = 8;

#[test]
#[ignore = "the body of a rank's process, which the other tests start"]
fn a_rank() {
    let said = |name: &str| std::env::var(name).unwrap();
    let (first, size) = (said(named::RANK) == "0", said(named::SIZE).parse().unwrap());
    let address: SocketAddr = format!("{}:{PORT}", said(named::ADDRESS)).parse().unwrap();
    let coordinator = first.then(|| {
        let listener = TcpListener::bind(address).unwrap();
        Coordinator::start(listener, size, SECRET).unwrap()
    });
    let mut ranks = Ranks::join(&Join::from_env().unwrap()).unwrap();
    if first {
        println!("\n{:?}", ranks.cost());
    }
    for bytes in said(SIZES).split(',') {
        let bytes: usize = bytes.parse().unwrap();
        let seconds = seconds_per_sum(&mut ranks, bytes / 4);
        if first {
            println!("\nall-reduce {bytes} {seconds}");
        }
    }
    drop(ranks);
    // The others may still wait for data from the first one.
    while coordinator.as_ref().is_some_and(|c| c.ranks() > 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The seconds of a sum of `elements` numbers, checked, from several in a row. After a barrier, a single sum would cost
/// no time on the ranks that leave the barrier last.
fn seconds_per_sum(ranks: &mut Ranks, elements: usize) -> f64 {
    let sum = Reduction::of(ReduceOp::Sum);
    let mut data = vec![0f32; elements];
    let own = ranks.rank() as f32 + 1.0;
    let mut run = |times: usize| {
        let began = Instant::now();
        for _ in 0..times {
            data.fill(own);
            let bytes = bytemuck::cast_slice_mut(&mut data);
            ranks
                .all_reduce(ALL_RANKS, "sum", bytes, DType::F32, sum)
                .unwrap();
        }
        began.elapsed().as_secs_f64() / times as f64
    };
    // The first runs connect, and open TCP's windows.
    run(3);
    let seconds = run(RUNS);
    let n = ranks.size() as f32;
    assert!(data.iter().all(|&x| x == n * (n + 1.0) / 2.0));
    seconds
}

/// Processes on hosts, killed when this is dropped.
struct HostProcesses(Vec<Child>);

impl Drop for HostProcesses {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl HostProcesses {
    /// Starts a process on each host; `command` gets the host's number.
    fn start(network: &Network, hosts: usize, command: impl Fn(usize) -> Command) -> HostProcesses {
        let start = |host: usize| {
            let mut command = command(host);
            network.start(host, command.stdout(Stdio::piped())).unwrap()
        };
        HostProcesses((0..hosts).map(start).collect())
    }

    /// The first rank's measurements: bytes and seconds.
    fn measured(mut self) -> Vec<(usize, f64)> {
        let output = BufReader::new(self.0[0].stdout.take().unwrap());
        let number = |line: String| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["all-reduce", bytes, seconds] => {
                    Some((bytes.parse().ok()?, seconds.parse().ok()?))
                }
                _ => None,
            }
        };
        let found = output.lines().map_while(Result::ok).filter_map(number);
        let found = found.collect();
        for child in &mut self.0 {
            assert!(child.wait().unwrap().success());
        }
        found
    }
}

fn sizes(all: &[usize]) -> String {
    let all: Vec<String> = all.iter().map(usize::to_string).collect();
    all.join(",")
}

/// The ranks of this program, one on each host.
fn own(network: &Network, hosts: usize, all: &[usize]) -> Vec<(usize, f64)> {
    let job = HostProcesses::start(network, hosts, |host| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--nocapture", "rank_hosts::a_rank"]);
        command
            .env(SIZES, sizes(all))
            .env(named::RANK, host.to_string())
            .env(named::SIZE, hosts.to_string())
            .env(named::ADDRESS, network.address(0))
            .env(named::PORT, PORT.to_string())
            .env(named::SECRET, SECRET)
            .env(named::HOST, format!("host{host}"));
        command
    });
    job.measured()
}

/// The same by gloo, of the PyTorch that `TORCH_PYTHON` has.
fn gloo(network: &Network, hosts: usize, all: &[usize]) -> Vec<(usize, f64)> {
    let Ok(python) = std::env::var("TORCH_PYTHON") else {
        return Vec::new();
    };
    let job = HostProcesses::start(network, hosts, |host| {
        let mut command = Command::new(&python);
        command
            .arg(root().join("tests/outages/allreduce_gloo.py"))
            .arg(sizes(all))
            .env("RANK", host.to_string())
            .env("WORLD_SIZE", hosts.to_string())
            .env("MASTER_ADDR", network.address(0))
            .env("MASTER_PORT", PORT.to_string())
            .env("GLOO_SOCKET_IFNAME", "cable");
        command
    });
    job.measured()
}

/// Hosts with these cables; `None` where this machine has no namespaces.
fn emulated_hosts(hosts: usize, megabits: u64, delay: Duration, loss: f64) -> Option<Network> {
    let network = Network::new(hosts)?;
    network.change_all(|cable: &mut Cable| {
        cable.delay = delay;
        cable.rate = megabits * 1_000_000;
        cable.loss = loss;
    });
    Some(network)
}

#[test]
fn ranks_all_reduce_over_slow_and_lossy_cables() {
    let Some(network) = emulated_hosts(3, 100, Duration::from_millis(1), 0.01) else {
        return;
    };
    let all = [4, 4096, 1 << 17];
    assert_eq!(own(&network, 3, &all).len(), all.len());
    assert!(network.lost() > 0);
}

/// The seconds of the better of ring and tree, by the formulas of `Algorithm`, for cables that carry packets of 1,500 bytes
/// with 1,448 of a value in each.
fn lower_bound_seconds(hosts: usize, bytes: usize, megabits: u64, delay: Duration) -> f64 {
    let (p, delay) = (hosts as f64, delay.as_secs_f64());
    let carried = bytes as f64 * 8.0 * 1500.0 / 1448.0 / (megabits as f64 * 1e6);
    let ring = 2.0 * (p - 1.0) * delay + 2.0 * (p - 1.0) / p * carried;
    let tree = 2.0 * p.log2().ceil() * (delay + carried);
    ring.min(tree)
}

#[test]
#[ignore = "measures for minutes: gives a table"]
fn figures() {
    let all = [4096, 1 << 16, 1 << 20, 1 << 22];
    println!("\nhosts Mbit/s delay_us loss bytes seconds bound share gloo quotient");
    for hosts in [2, 4] {
        for (megabits, delay, loss) in [
            (100, 100, 0.0),
            (100, 5000, 0.0),
            (1000, 100, 0.0),
            (1000, 5000, 0.0),
            (100, 1000, 0.01),
        ] {
            let delay = Duration::from_micros(delay);
            let network = emulated_hosts(hosts, megabits, delay, loss).expect("namespaces");
            let (own, gloo) = (own(&network, hosts, &all), gloo(&network, hosts, &all));
            for (i, (bytes, seconds)) in own.into_iter().enumerate() {
                let bound = lower_bound_seconds(hosts, bytes, megabits, delay);
                let peer = gloo.get(i).map_or(f64::NAN, |g| g.1);
                println!(
                    "{hosts} {megabits} {} {loss} {bytes} {seconds:.5} {bound:.5} {:.2} {peer:.5} {:.2}",
                    delay.as_micros(),
                    bound / seconds,
                    peer / seconds
                );
            }
        }
    }
}
