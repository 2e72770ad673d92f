//! Collectives between the GPUs of ranks; each rank is a process with fakes of CUDA and NCCL.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output as Ended, Stdio};
use std::sync::{Arc, Barrier};
use std::thread::Builder;
use std::time::Duration;

use thalweg::collective::{ALL_RANKS, Coordinator, Join, Progress, Ranks};
use thalweg::device::cuda::Cards;
use thalweg::hvd::{Hvd, ReduceOp};
use thalweg::ops::gpu::HEADER;
use thalweg::prelude::*;
use thalweg::session::RunOptions;
use thalweg::tensor::DType;
use thalweg_tests::emulated::has_compiler;
use thalweg_tests::root;

use crate::fake_cuda::{fakes, use_fakes};

#[path = "../../../crates/collective/tests/support/conformance.rs"]
mod conformance;
mod on_gpu;
use on_gpu::OnGpu;

/// Environment variable of the processes that are ranks: `RANK/SIZE ADDRESS`.
const RANK: &str = "THALWEG_TEST_RANK";
const SECRET: &str = "of the tests";

/// Runs a job of ranks that execute a test of this program; returns their outputs.
fn job(test: &str, size: usize) -> Vec<Ended> {
    let folder = fakes(&format!("{test}-{size}"), &["cuda", "nvrtc", "nccl"]);
    std::fs::rename(folder.join("libnccl.so"), folder.join("libnccl.so.2")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, size, SECRET).unwrap();
    let ranks = (0..size).map(|rank| {
        let place = format!("{rank}/{size} {}", coordinator.address());
        start(test, &folder, &place, rank)
    });
    let ranks: Vec<Child> = ranks.collect();
    let ended = ranks.into_iter().map(|r| r.wait_with_output().unwrap());
    ended.collect()
}

fn start(test: &str, folder: &Path, place: &str, rank: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture"]);
    command.arg(format!("ranks::{test}"));
    command
        .env(RANK, place)
        .env("FAKE_CUDA_FOLDER", folder)
        .env("FAKE_CUDA_EMULATOR", root().join("tests/emulator"))
        .env("FAKE_NCCL_LOG", log(folder, rank))
        .env("THALWEG_CACHE", folder.join("cache"));
    use_fakes(&mut command, folder);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

fn log(folder: &Path, rank: usize) -> std::path::PathBuf {
    folder.join(format!("nccl.{rank}"))
}

/// The result line of a rank.
fn result_line(ended: &Ended) -> String {
    let text = String::from_utf8_lossy(&ended.stdout);
    let line = text.lines().find_map(|l| l.split_once("rank: "));
    let (_, result_line) =
        line.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&ended.stderr)));
    result_line.to_owned()
}

/// In a rank's process: the parameters for joining the others.
fn join() -> Join {
    let place = std::env::var(RANK).unwrap();
    let (place, address) = place.split_once(' ').unwrap();
    let (rank, size) = place.split_once('/').unwrap();
    let number = |text: &str| text.parse().unwrap();
    Join::at(address.parse().unwrap(), number(rank), number(size), SECRET)
}

/// The NCCL calls of this kind on a rank of a job.
fn calls(test: &str, size: usize, rank: usize, what: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fake_cuda/{test}-{size}"));
    let text = std::fs::read_to_string(log(&folder, rank)).unwrap_or_default();
    let calls = text.lines().filter(|l| l.starts_with(what));
    calls.map(str::to_owned).collect()
}

fn count(test: &str, size: usize, rank: usize, what: &str) -> usize {
    calls(test, size, rank, what).len()
}

#[test]
#[ignore = "the body of a rank's process, which the other tests start"]
fn table() {
    conformance::check_all(&mut OnGpu::join(&join()));
    println!("\nrank: passes");
}

#[test]
fn the_table_of_collectives_passes_between_gpus() {
    if !has_compiler() {
        return;
    }
    for size in [1, 2, 3] {
        let ended = job("table", size);
        for (rank, ended) in ended.iter().enumerate() {
            assert_eq!(result_line(ended), "passes", "rank {rank} of {size}");
            // Reductions of all lengths but 0, of dtypes that it has, of rounded sums twice, and in sets.
            let reductions = count("table", size, rank, "all_reduce");
            assert!(reductions > 40, "{reductions}");
            assert_eq!(count("table", size, rank, "broadcast"), 3);
        }
    }
}

/// Trains a small network for some steps on a device; returns its variables, and the plan's nodes that were moved to
/// the host.
fn trained(hvd: &Hvd, device: &str) -> (Vec<f32>, String) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [4, 3]);
    let (train, loss, all) = g.device(device, || {
        let first: Vec<f32> = (0..15).map(|i| (i as f32).sin() * 0.5).collect();
        let w1 = g.variable("w1", Tensor::new(&[3, 5], &first).unwrap());
        let b1 = g.variable("b1", vec![0.1f32; 5]);
        let w2 = g.variable("w2", Tensor::new(&[5, 2], &first[..10]).unwrap());
        let found = (x.matmul(w1.value()) + b1.value())
            .tanh()
            .matmul(w2.value());
        let loss = (found - x.matmul(g.constant([[1.0f32, -2.0]; 3])))
            .square()
            .mean();
        let train = hvd.distributed(Momentum::new(0.1, 0.9)).minimize(loss);
        let all = [w1, b1, w2].map(|w| w.value());
        (train, loss, all)
    });
    let options = hvd.session(SessionOptions::new().threads(1));
    let options = options.for_device(&device.parse().unwrap());
    let session = Session::with_options(&g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    session
        .run(hvd.broadcast_global_variables(&g, 0), [])
        .unwrap();
    let rank = hvd.rank() as f32;
    let own: Vec<f32> = (0..12).map(|i| (i as f32 + 3.0 * rank).cos()).collect();
    let own = Tensor::new(&[4, 3], &own).unwrap();
    let plan = session.explain([loss], [x.feed(own.clone())]).unwrap();
    // The first steps submit commands one by one, a later one captures them, and the rest replay the capture.
    for _ in 0..6 {
        session.run::<()>(train, [x.feed(own.clone())]).unwrap();
    }
    let values = all.iter().map(|&v| session.run::<Tensor>(v, []).unwrap());
    let values = values.flat_map(|t| t.to_vec::<f32>().unwrap());
    (values.collect(), plan)
}

#[test]
#[ignore = "the body of a rank's process, which the other tests start"]
fn training() {
    let hvd = Hvd::meet(&join()).unwrap();
    let (on_cpu, _) = trained(&hvd, "/cpu:0");
    let (on_gpu, plan) = trained(&hvd, "/gpu:0");
    assert!(!plan.contains("runs on the host"), "{plan}");
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
    assert!(
        on_cpu.iter().zip(&on_gpu).all(near),
        "{on_cpu:?} {on_gpu:?}"
    );
    println!(
        "\nrank: {:?}",
        on_gpu.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    );
}

#[test]
fn ranks_on_gpus_match_ranks_on_cpus_and_have_equal_bits() {
    if !has_compiler() {
        return;
    }
    let ended = job("training", 3);
    let all: Vec<String> = ended.iter().map(result_line).collect();
    assert!(all.iter().all(|bits| *bits == all[0]), "{all:?}");
    // One bucket of gradients: twice in steps that are not replayed, and once where it is captured.
    let reductions = count("training", 3, 0, "all_reduce");
    assert!((2..6).contains(&reductions), "{reductions}");
    assert_eq!(count("training", 3, 1, "broadcast"), 6);
}

#[test]
#[ignore = "the body of a rank's process, which the other tests start"]
fn beside() {
    let hvd = Hvd::meet(&join()).unwrap();
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2, 2]);
    let y = g.device("/gpu:0", || {
        let read = x.matmul(x);
        let (sum, other) = (read.all_reduce(ReduceOp::Sum), x.all_reduce(ReduceOp::Sum));
        // It is the last reader of the sum's input, and the next value has the same size.
        let twice = g.constant([[2.0f32, 0.0], [0.0, 2.0]]);
        let last = g.control_dependencies([sum, other], || read.matmul(twice));
        last.matmul(x) + sum + other
    });
    let options = hvd.session(SessionOptions::new().threads(1)).gpus(1);
    let session = Session::with_options(&g, options).unwrap();
    let own = Tensor::new(&[2, 2], &[1.0f32, 1.0, 0.0, 1.0]).unwrap();
    let found: Tensor = session.run(y, [x.feed(own)]).unwrap();
    println!("\nrank: {:?}", found.to_vec::<f32>().unwrap());
}

#[test]
fn nodes_beside_an_all_reduce_do_not_overwrite_its_input() {
    if !has_compiler() {
        return;
    }
    // x x = [[1, 2], [0, 1]] and x = [[1, 1], [0, 1]] from each of two ranks, and 2 x x x = [[2, 6], [0, 2]].
    for (rank, ended) in job("beside", 2).iter().enumerate() {
        assert_eq!(result_line(ended), "[6.0, 12.0, 0.0, 6.0]");
        // Both sums start together.
        assert_eq!(count("beside", 2, rank, "group"), 1);
    }
}

/// A graph with a sum over ranks on the GPU, and its feed.
fn sums(hvd: &Hvd, steps: impl Fn(&dyn Fn(Option<u64>) -> Result<f32, String>)) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [1]);
    let y = g.device("/gpu:0", || {
        let sum = (x + x).all_reduce(ReduceOp::Sum).named("sum");
        sum + sum
    });
    let options = hvd.session(SessionOptions::new().threads(1)).gpus(1);
    let session = Session::with_options(&g, options).unwrap();
    steps(&|limit| {
        let mut options = RunOptions::new();
        if let Some(limit) = limit {
            options = options.timeout(std::time::Duration::from_millis(limit));
        }
        let found = session.step_with([y], [x.feed(vec![1.0f32])], &options);
        let (found, _) = found.map_err(|e| e.to_string())?;
        Ok(found.tensor(0).unwrap().to_vec::<f32>().unwrap()[0])
    });
}

#[test]
#[ignore = "the body of a rank's process, which the other tests start"]
fn lost() {
    let hvd = Hvd::meet(&join()).unwrap();
    sums(&hvd, |step| {
        for _ in 0..3 {
            assert_eq!(step(None), Ok(12.0));
        }
        // A rank that ends while others still wait for the end of a step fails that step.
        hvd.barrier().unwrap();
        if hvd.rank() == 1 {
            println!("\nrank: goes");
            std::process::abort();
        }
        println!("\nrank: {}", step(None).unwrap_err());
    });
}

#[test]
fn a_rank_lost_during_a_gpu_all_reduce_is_named() {
    if !has_compiler() {
        return;
    }
    let all: Vec<String> = job("lost", 3).iter().map(result_line).collect();
    for rank in [0, 2] {
        assert!(all[rank].contains("'sum'"), "{all:?}");
        assert!(all[rank].contains("rank 1"), "{all:?}");
    }
}

#[test]
#[ignore = "the body of a rank's process, which the other tests start"]
fn late() {
    let hvd = Hvd::meet(&join()).unwrap();
    sums(&hvd, |step| {
        assert_eq!(step(None), Ok(8.0));
        if hvd.rank() == 0 {
            println!("\nrank: {}", step(Some(300)).unwrap_err());
            return;
        }
        // It does not join the step; the other rank sends it the reason for the end of the job.
        while hvd.barrier().is_ok() {}
        println!("\nrank: {}", hvd.barrier().unwrap_err());
    });
}

#[test]
fn a_timeout_during_a_gpu_all_reduce_ends_the_job() {
    if !has_compiler() {
        return;
    }
    let all: Vec<String> = job("late", 2).iter().map(result_line).collect();
    assert!(all[0].contains("within its 300ms"), "{all:?}");
    assert!(all[1].contains("'sum' ended"), "{all:?}");
}

#[test]
#[ignore = "the body of a rank's process, which the other tests start"]
fn crossed() {
    let join = join();
    let ranks = Ranks::join(&join).unwrap();
    let rank = ranks.rank();
    let progress = Arc::new(Progress::start(ranks).unwrap());
    let collectives = progress.session();
    let begun = &Barrier::new(2);
    std::thread::scope(|scope| {
        // Rank 0 begins with GPU 0 and rank 1 with GPU 1: each waits for the other rank's second thread.
        for order in 0..2 {
            let number = (rank + order) % 2;
            let collectives = &collectives;
            let body = move || {
                let driver = Cards::new(HEADER).open(0).unwrap();
                begun.wait();
                if order == 1 {
                    std::thread::sleep(Duration::from_millis(100));
                }
                let gpus = collectives.for_gpus().unwrap();
                gpus.communicator(ALL_RANKS, number as u32, &driver)
                    .unwrap();
            };
            let named = Builder::new().name(format!("gpu {number}"));
            named.spawn_scoped(scope, body).unwrap();
        }
    });
    println!("\nrank: met");
}

#[test]
fn two_gpus_of_a_process_meet_those_of_their_numbers_in_any_order() {
    if !has_compiler() {
        return;
    }
    for ended in job("crossed", 2) {
        assert_eq!(result_line(&ended), "met");
    }
    let meetings = |rank| -> BTreeSet<String> {
        let all = calls("crossed", 2, rank, "meet ");
        all.into_iter().collect()
    };
    // A line is an identity and the number of the GPU.
    assert_eq!(meetings(0), meetings(1));
    assert_eq!(meetings(0).len(), 2);
}
