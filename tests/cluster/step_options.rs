//! Options of steps over a cluster: dtypes of transferred values, traces.

use std::time::Instant;

use thalweg::dist::{ClusterOptions, Session};
use thalweg::prelude::*;
use thalweg::session::{Event, Wire, WireType};
use thalweg::tensor::Tensor;
use thalweg_plan::Edge;
use thalweg_tests::chrome_trace::arrows;
use thalweg_tests::servers::{cluster, remote_model, servers, train};

fn with_wire(wire: Wire) -> ClusterOptions {
    ClusterOptions::new().session(SessionOptions::new().wire(wire))
}

/// The values that a step sent to another task in this dtype: names of their nodes.
fn cast_to(events: &[Event], dtype: &str) -> Vec<String> {
    let cast = events.iter().filter(|e| e.op == "Cast");
    let narrow = cast.filter(|e| e.node.ends_with(dtype));
    let of = |e: &Event| e.node.split("/_cast_").next().unwrap().to_owned();
    narrow.map(of).collect()
}

#[test]
fn f32_values_cross_as_bf16_or_f16_on_request() {
    let all = servers(&cluster(&[("worker", 2)]));
    let g = Graph::new();
    // More digits than bf16 has, and than f16 has.
    let given = [
        1.0f32,
        1.0 + 2f32.powi(-7),
        1.0 + 2f32.powi(-10),
        1.0 + 2f32.powi(-20),
    ];
    let x = g.placeholder("x", DType::F32, [4]);
    let far = g.device("/job:worker/task:1", || x.relu());
    let count = g.device("/job:worker/task:1", || {
        x.cast(DType::I32) + g.constant(1i32)
    });
    let (near, counted) = g.device("/job:worker/task:0", || {
        (far * 2.0, count + g.constant(1i32))
    });
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    for (wire, digits) in [
        (WireType::F32, 23),
        (WireType::F16, 10),
        (WireType::BF16, 7),
    ] {
        let session = Session::on(&all[0], &g, with_wire(Wire::all(wire))).unwrap();
        let feed = [x.feed(Tensor::vector(&given))];
        let (found, trace) = session
            .step_with((near, counted, far), &feed, &RunOptions::new().traced())
            .unwrap();
        let rounded = |v: f32| {
            let unit = 2f32.powi(-digits);
            2.0 * (v / unit).round_ties_even() * unit
        };
        assert_eq!(
            found.slice::<f32>(0).unwrap(),
            given.map(rounded),
            "{wire:?}"
        );
        assert_eq!(found.slice::<i32>(1).unwrap(), [3; 4]);
        // Values that a client fetches keep their dtype.
        assert_eq!(found.slice::<f32>(2).unwrap(), given);
        let name = match wire {
            WireType::F32 => continue,
            WireType::F16 => "f16",
            WireType::BF16 => "bf16",
        };
        assert_eq!(
            cast_to(&trace.events, &format!("_{name}")),
            ["Relu"],
            "{trace:?}"
        );
    }
}

#[test]
fn sent_values_are_not_overwritten_by_later_steps() {
    const LENGTH: usize = 1 << 16;
    let all = servers(&cluster(&[("worker", 2)]));
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let far = g.device("/job:worker/task:1", || {
        let ones = g.constant(Tensor::vector(&vec![1.0f32; LENGTH]));
        (ones * x, (ones + x).reshape([LENGTH as i64 / 4, 4]))
    });
    // Both cross unchanged and as derived values; one is also fetched where it was made.
    let near = g.device("/job:worker/task:0", || {
        let passed = |y| g.op("Identity").input(y).output();
        (passed(far.0), passed(far.1), far.0 * 2.0)
    });
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    for shared_memory in [true, false] {
        let options = ClusterOptions::new().shared_memory(shared_memory);
        let session = Session::on(&all[0], &g, options).unwrap();
        let run = |by: usize| {
            let mut kept = Vec::new();
            for step in 0..20 {
                let value = (by * 100 + step) as f32;
                let fetches = (near.0, near.1, near.2, far.0);
                kept.push((value, session.step(fetches, [x.feed(value)]).unwrap()));
                for (value, found) in &kept {
                    let is = |i: usize, expected: f32| {
                        let found = found.slice::<f32>(i).unwrap();
                        assert!(found.iter().all(|&v| v == expected), "{i} of {value}");
                    };
                    is(0, *value);
                    is(1, value + 1.0);
                    is(2, value * 2.0);
                    is(3, *value);
                }
                if kept.len() > 3 {
                    kept.remove(0);
                }
            }
        };
        std::thread::scope(|scope| {
            for by in 0..3 {
                scope.spawn(move || run(by));
            }
        });
    }
}

#[test]
fn wire_dtypes_by_edge_work_in_training() {
    let all = servers(&cluster(&[("ps", 1), ("worker", 1)]));
    let g = Graph::new();
    let line = remote_model(&g);
    // Gradients go as bf16, weights as they are.
    let gradients = Wire::each(|edge: &Edge<'_>| match edge.to.job.as_deref() {
        Some("ps") => WireType::BF16,
        _ => WireType::F32,
    });
    let session = Session::on(&all[1], &g, with_wire(gradients)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let losses = train(&session, &line, 40);
    assert!(losses[39] < losses[0] * 1e-3, "{losses:?}");
    let feed = [line.x.feed(Tensor::vector(&[1.0f32, 2.0, 3.0]))];
    let (_, trace) = session
        .step_with(line.train, &feed, &RunOptions::new().traced())
        .unwrap();
    let narrow = cast_to(&trace.events, "_bf16");
    assert_eq!(narrow.len(), 1, "{narrow:?}");
    assert!(cast_to(&trace.events, "_f16").is_empty());
}

#[test]
fn a_trace_covers_all_tasks_on_one_clock() {
    let all = servers(&cluster(&[("ps", 1), ("worker", 1)]));
    let g = Graph::new();
    let line = remote_model(&g);
    for session in [
        Session::on(&all[1], &g, ClusterOptions::default()).unwrap(),
        // Where all tasks are others.
        Session::connect(&all[1].target(), &g, ClusterOptions::default()).unwrap(),
    ] {
        session.run(g.initializers(), []).unwrap();
        let feed = [line.x.feed(Tensor::vector(&[1.0f32, 2.0, 3.0]))];
        let (_, trace) = session
            .step_with(line.train, &feed, &RunOptions::default())
            .unwrap();
        assert!(trace.events.is_empty());
        let began = Instant::now();
        let (_, trace) = session
            .step_with(line.train, &feed, &RunOptions::new().traced())
            .unwrap();
        let step = began.elapsed().as_secs_f64() * 1e6;
        let of = |job: &str| {
            let own = trace.events.iter().filter(move |e| e.device.contains(job));
            own.map(|e| (e.op.as_str(), e.start_us)).collect::<Vec<_>>()
        };
        let (ps, worker) = (of("/job:ps/"), of("/job:worker/"));
        assert!(ps.len() > 1 && worker.len() > 1, "{trace:?}");
        let starts = trace.events.iter().map(|e| e.start_us);
        assert!(
            starts.clone().is_sorted() && starts.clone().all(|s| s >= 0.0),
            "{trace:?}"
        );
        let end = trace.events.iter().map(|e| e.start_us + e.duration_us);
        let took = end.fold(0.0, f64::max);
        assert!(took <= step, "{took} us of {step}");
        let arrows = arrows(&trace);
        for [from, to] in [["ps", "worker"], ["worker", "ps"]] {
            let is = |name: &str, job: &str| name.contains(&format!("/job:{job}/"));
            let mut between = arrows.iter().filter(|[f, t]| is(f, from) && is(t, to));
            assert!(between.next().is_some(), "{from} to {to}: {arrows:?}");
        }
    }
}
