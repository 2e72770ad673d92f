//! What a step on a GPU is made of, seen by an emulated one: what is captured, launched, allocated
//! and waited for, and what happens when something fails.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::emulated::{Emulated, is_there};
use support::emulated_gpu::{Call, EmulatedGpu};
use thalweg::prelude::*;
use thalweg::session::{Cancel, Feed, GpuOptions};

fn emulated() -> Option<Arc<EmulatedGpu>> {
    is_there().then(|| EmulatedGpu::new(&Arc::new(Emulated::new(false))))
}

fn options(gpu: &Arc<EmulatedGpu>) -> SessionOptions {
    let mut options = SessionOptions::with_threads(1);
    options.gpus = vec![GpuOptions::driven_by(gpu.clone())];
    options
}

/// `y = x * w + b`, and a step that brings `w` and `b` nearer to a target.
struct Line<'g> {
    x: Output<'g>,
    y: Output<'g>,
    w: Variable<'g>,
    loss: Output<'g>,
    train: Operation<'g>,
}

fn line(g: &Graph) -> Line<'_> {
    let x = g.placeholder("x", DType::F32, [-1]);
    let y = g.placeholder("y", DType::F32, [-1]);
    let w = g.variable("w", 0.5f32);
    let b = g.variable("b", 0.0f32);
    let loss = (x * w.value() + b.value() - y).square().mean();
    let train = GradientDescent::new(0.1).minimize(loss);
    Line {
        x,
        y,
        w,
        loss,
        train,
    }
}

fn values() -> [Tensor; 2] {
    [[1.0f32, 2.0, 3.0].into(), [2.0f32, 4.0, 6.0].into()]
}

fn feeds<'g>(line: &Line<'g>) -> [Feed<'g>; 2] {
    let [x, y] = values();
    [line.x.feed(x), line.y.feed(y)]
}

#[test]
fn a_warmed_up_step_is_one_launch_and_one_wait() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let line = line(&g);
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut step = session
        .callable((line.loss, line.train), &[line.x, line.y])
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
fn replayed_steps_give_what_uncaptured_ones_give() {
    let Some(gpu) = emulated() else { return };
    let train = |replayed: bool| {
        let g = Graph::new();
        let line = line(&g);
        let session = Session::with_options(&g, options(&gpu)).unwrap();
        session.run(g.initializers(), []).unwrap();
        let watched = match replayed {
            true => RunOptions::default(),
            // Whoever looks at every value wants them one after the other.
            false => RunOptions::checked(),
        };
        let step = || {
            let got = session.run_with((line.loss, line.train), feeds(&line), &watched);
            got.unwrap().0.scalar::<f32>(0).unwrap()
        };
        let losses: Vec<f32> = (0..50).map(|_| step()).collect();
        let w = session.run(line.w, []).unwrap().scalar::<f32>(0).unwrap();
        (losses, w)
    };
    let (losses, w) = train(true);
    assert_eq!((&losses, w), (&train(false).0, train(false).1));
    assert!(losses[49] < losses[0] / 100.0, "{losses:?}");
}

#[test]
fn what_is_read_before_an_update_stays_as_it_was_read() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let before = v.value();
    let update = v.assign_add([10.0f32, 10.0]);
    let after = g.control_dependencies([update], || v.read());
    let late = g.control_dependencies([update], || before + g.constant([0.0f32, 0.0]));
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    session.run(g.initializers(), []).unwrap();
    for round in 0..4 {
        let got = session.run((before, after, late), []).unwrap();
        let base = 10.0 * round as f32;
        assert_eq!(got.slice::<f32>(0).unwrap(), [1.0 + base, 2.0 + base]);
        assert_eq!(got.slice::<f32>(1).unwrap(), [11.0 + base, 12.0 + base]);
        assert_eq!(got.slice::<f32>(2).unwrap(), [1.0 + base, 2.0 + base]);
    }
}

#[test]
fn what_a_gpu_cannot_do_runs_on_the_host_and_the_plan_says_why() {
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
        let got = session.run(sum, &feeds).unwrap();
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
fn a_gpu_without_memory_is_an_error_that_names_node_and_device_and_the_session_goes_on() {
    if !is_there() {
        return;
    }
    let gpu = EmulatedGpu::of(&Arc::new(Emulated::new(false)), 1 << 16);
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let y = x.square().sum();
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    let run = |n: usize| session.run(y, [x.feed(vec![1.0f32; n])]);
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
fn a_limit_holds_and_logical_devices_have_memory_of_their_own() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let on = |device: &str| g.device(device, || x.square().sum());
    let (first, second) = (on("/gpu:0"), on("/gpu:1"));
    let mut options = SessionOptions::with_threads(1);
    let part = GpuOptions::driven_by(gpu);
    options.gpus = vec![part.clone().limited_to(1 << 12), part.limited_to(1 << 20)];
    let session = Session::with_options(&g, options).unwrap();
    let feed = [x.feed(vec![1.0f32; 5000])];
    let refused = session.run(first, &feed);
    assert!(
        matches!(refused, Err(SessionError::Memory { .. })),
        "{refused:?}"
    );
    assert_eq!(
        session
            .run(second, &feed)
            .unwrap()
            .scalar::<f32>(0)
            .unwrap(),
        5000.0
    );
}

#[test]
fn a_command_that_fails_is_an_error_of_its_node_and_the_session_goes_on() {
    let Some(gpu) = emulated() else { return };
    let mut failures = 0;
    for after in 0..12 {
        let g = Graph::new();
        let line = line(&g);
        let session = Session::with_options(&g, options(&gpu)).unwrap();
        session.run(g.initializers(), []).unwrap();
        let run = || session.run(line.loss, feeds(&line));
        // On its way through the first step, or the capture, or a replay.
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
fn a_variable_without_a_value_is_an_error_that_names_it() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let line = line(&g);
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    let error = session
        .run(line.train, feeds(&line))
        .unwrap_err()
        .to_string();
    assert!(error.contains("variable 'w' is not initialized"), "{error}");
    session.run(g.initializers(), []).unwrap();
    session.run(line.train, feeds(&line)).unwrap();
}

#[test]
fn steps_of_several_threads_take_turns() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let v = g.variable("v", 0.0f32);
    let add = v.assign_add(1.0f32);
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    session.run(g.initializers(), []).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| drop(session.run(add, []).unwrap())));
        }
    });
    assert_eq!(session.run(v, []).unwrap().scalar::<f32>(0).unwrap(), 200.0);
}

#[test]
fn a_cancelled_step_and_one_without_time_end_and_the_session_goes_on() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let line = line(&g);
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    session.run(g.initializers(), []).unwrap();
    for _ in 0..3 {
        let cancel = Cancel::new();
        cancel.cancel();
        let cancelled = RunOptions::cancelled_by(&cancel);
        let got = session.run_with(line.train, feeds(&line), &cancelled);
        assert!(
            matches!(got, Err(SessionError::Cancelled { .. })),
            "{got:?}"
        );
        let late = RunOptions::timeout(Duration::ZERO);
        let got = session.run_with(line.train, feeds(&line), &late);
        assert!(matches!(got, Err(SessionError::Timeout { .. })), "{got:?}");
        session.run(line.train, feeds(&line)).unwrap();
    }
}

#[test]
fn a_trace_names_kernels_and_copies_with_their_bytes() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let line = line(&g);
    let session = Session::with_options(&g, options(&gpu)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let (_, trace) = session
        .run_with(line.loss, feeds(&line), &RunOptions::traced())
        .unwrap();
    let traffic = trace.traffic();
    assert_eq!(
        (traffic.to_gpus, traffic.from_gpus),
        (24, 4),
        "{:?}",
        trace.events
    );
    assert!(trace.events.iter().any(|e| e.op == "Mean"));
    assert!(trace.events.iter().all(|e| e.device.ends_with("GPU:0")));
}

#[test]
fn a_value_between_two_gpus_is_copied_once_and_not_through_the_host() {
    let Some(gpu) = emulated() else { return };
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let square = g.device("/gpu:0", || x.square());
    let sum = g.device("/gpu:1", || square + square.tanh());
    let mut options = SessionOptions::with_threads(1);
    options.gpus = vec![GpuOptions::driven_by(gpu.clone()); 2];
    let session = Session::with_options(&g, options).unwrap();
    let feed = [x.feed([1.0f32, 2.0])];
    for _ in 0..4 {
        gpu.calls();
        let got = session.run(sum, &feed).unwrap();
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
        .run_with(sum, &feed, &RunOptions::traced())
        .unwrap()
        .1;
    assert_eq!(traced.traffic().between_gpus, 8, "{:?}", traced.events);
}
