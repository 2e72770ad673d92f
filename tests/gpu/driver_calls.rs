//! Driver calls of steps on the emulated GPU: captures, launches, allocations, waits, and errors.

use std::sync::Arc;

use thalweg::prelude::*;
use thalweg::session::GpuOptions;
use thalweg_tests::emulated::{Checks, Emulated, has_compiler};
use thalweg_tests::emulated_gpu::{Call, EmulatedGpu};
use thalweg_tests::line::{feeds, line, values};

fn emulated() -> Option<Arc<EmulatedGpu>> {
    has_compiler().then(|| EmulatedGpu::new(&Arc::new(Emulated::new(Checks::None))))
}

fn options(gpu: &Arc<EmulatedGpu>) -> SessionOptions {
    SessionOptions::new()
        .threads(1)
        .gpu(GpuOptions::driven_by(gpu.clone()))
}

#[test]
fn a_warmed_up_step_is_one_launch_and_one_wait() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let line = line(&g);
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut step = session
        .callable((line.loss, line.train), [line.x, line.y])
        .unwrap();
    let values = values();
    gpu.calls();
    step.call(&values).unwrap();
    let first = gpu.calls();
    assert!(!first.contains(&Call::Begin), "{first:?}");
    step.call(&values).unwrap();
    let second = gpu.calls();
    let count = |call: &Call| second.iter().filter(|c| *c == call).count();
    assert_eq!(
        (count(&Call::Begin), count(&Call::End)),
        (1, 1),
        "{second:?}"
    );
    for _ in 0..3 {
        step.call(&values).unwrap();
        let later = gpu.calls();
        assert_eq!(later, [Call::Submit("launch a graph", None), Call::Wait]);
    }
}

#[test]
fn nodes_without_gpu_kernels_run_on_the_host_with_a_reason_in_the_plan() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, Shape::unknown());
    let axes = g.placeholder("axes", DType::I32, [-1]);
    let sum = g.device("/gpu:0", || {
        g.op("Sum").input(x.square()).input(axes).output() * g.constant(2.0f32)
    });
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    let feeds = [
        x.feed(Tensor::new(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap()),
        axes.feed([1i32]),
    ];
    for _ in 0..4 {
        let got = session.step(sum, &feeds).unwrap();
        assert_eq!(got.slice::<f32>(0).unwrap(), [10.0, 50.0]);
    }
    let plan = session.explain(sum, &feeds).unwrap();
    let why = "runs on the host of /job:localhost/replica:0/task:0/device:GPU:0: an input that \
               shapes it is known only when it runs";
    assert!(plan.contains(why), "{plan}");
    let launched = |c: &Call| matches!(c, Call::Submit(_, Some("Square")));
    assert!(
        gpu.calls().iter().any(launched),
        "the square ran on the GPU"
    );
}

#[test]
fn a_full_gpu_is_an_error_that_names_node_and_device() {
    if !has_compiler() {
        return;
    }
    let gpu = EmulatedGpu::of(&Arc::new(Emulated::new(Checks::None)), 1 << 16);
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let y = x.square().sum();
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    let run = |n: usize| session.step(y, [x.feed(vec![1.0f32; n])]);
    for _ in 0..3 {
        match run(1 << 20) {
            Err(SessionError::Memory { device, .. }) => {
                assert_eq!(
                    device.to_string(),
                    "/job:localhost/replica:0/task:0/device:GPU:0"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(run(100).unwrap().scalar::<f32>(0).unwrap(), 100.0);
    }
    drop(session);
    assert_eq!(gpu.used(), 0);
}

#[test]
fn a_failing_command_is_an_error_of_its_node() {
    let Some(gpu) = emulated() else { return };
    let mut failures = 0;
    for after in 0..12 {
        let g = Graph::new();
        let line = line(&g);
        let session = Session::with_options(&g, options(&gpu)).unwrap();
        session.run(g.initializers(), []).unwrap();
        let run = || session.step(line.loss, feeds(&line));
        // During the first step, the capture, or a replay.
        gpu.fail_after(after);
        let results: Vec<_> = (0..3).map(|_| run()).collect();
        for error in results.iter().filter_map(|r| r.as_ref().err()) {
            failures += 1;
            let what = error.to_string();
            assert!(what.contains("CUDA_ERROR_LAUNCH_FAILED"), "{what}");
        }
        gpu.fail_after(usize::MAX);
        for _ in 0..3 {
            assert_eq!(run().unwrap().scalar::<f32>(0).unwrap(), 10.5);
        }
    }
    assert_eq!(failures, 12);
}

#[test]
fn a_value_between_two_gpus_is_copied_directly() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let square = g.device("/gpu:0", || x.square());
    let sum = g.device("/gpu:1", || square + square.tanh());
    let options = options(&gpu).gpu(GpuOptions::driven_by(gpu.clone()));
    let session = Session::with_options(&g, options).unwrap();
    let feed = [x.feed([1.0f32, 2.0])];
    for _ in 0..4 {
        gpu.calls();
        let got = session.step(sum, &feed).unwrap();
        let expected = [1.0f32, 4.0].map(|v| v + v.tanh());
        assert_eq!(got.slice::<f32>(0).unwrap(), expected);
    }
    // The step is two launches of graphs, one on each, and the copy between them.
    let calls = gpu.calls();
    let submitted = calls.iter().filter_map(|c| match c {
        Call::Submit(what, _) => Some(*what),
        _ => None,
    });
    let submitted: Vec<&str> = submitted.collect();
    assert_eq!(submitted, ["launch a graph", "copy", "launch a graph"]);
    let traced = session
        .step_with(sum, &feed, &RunOptions::new().traced())
        .unwrap()
        .1;
    assert_eq!(traced.traffic().between_gpus, 8, "{:?}", traced.events);
}

#[test]
fn libraries_may_use_tf32_where_the_session_allows_it() {
    if !has_compiler() {
        return;
    }
    for allowed in [false, true] {
        let driver = EmulatedGpu::with_libraries(&Arc::new(Emulated::new(Checks::None)));
        let g = Graph::new();
        let y = g.device("/gpu:0", || {
            let x = g.truncated_normal([2, 2], 0.0, 1.0, DType::F32, None);
            x.matmul(x)
        });
        let options = SessionOptions::new().gpu(GpuOptions::driven_by(driver.clone()));
        let session = Session::with_options(&g, options.allow_tf32(allowed)).unwrap();
        session.run::<Tensor>(y, []).unwrap();
        assert_eq!(driver.tf32(), [allowed]);
    }
}
