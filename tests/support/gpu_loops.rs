//! Checks of loops on a card or the emulated GPU.

use std::time::Duration;

use thalweg::prelude::*;

use super::gpu_branches::{assert_on_gpu, on_gpu, taken};
use super::test_gpu::Gpu;

/// `i < n`.
fn less<'g>(i: Output<'g>, n: Output<'g>) -> Output<'g> {
    i.graph().op("Less").input(i).input(n).output()
}

pub fn a_loop_gives_the_values_of_its_last_iteration(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let n = g.placeholder("n", DType::I32, []);
    let start = [g.constant(0i32), x * 0.0 + 1.0];
    let end = g.while_loop(
        &start,
        |_, v| less(v[0], n),
        |_, v| vec![v[0] + 1, v[1] * x],
    );
    let session = on_gpu(&g, gpu);
    assert_on_gpu(&session, end[1], &[x.feed([2.0f32, 3.0]), n.feed(1)]);
    for times in [0, 1, 5, 3, 0, 2] {
        let feeds = [x.feed([2.0f32, 3.0]), n.feed(times)];
        let got = session.step((end[0], end[1]), feeds).unwrap();
        assert_eq!(got.scalar::<i32>(0).unwrap(), times);
        let powers = [2.0f32.powi(times), 3.0f32.powi(times)];
        assert_eq!(got.slice::<f32>(1).unwrap(), powers);
    }
}

pub fn a_loop_exchanges_its_values(gpu: &Gpu) {
    let g = Graph::new();
    let n = g.placeholder("n", DType::I32, []);
    let start = [g.constant(0i32), g.constant(0.0f32), g.constant(1.0f32)];
    let end = g.while_loop(
        &start,
        |_, v| less(v[0], n),
        |_, v| vec![v[0] + 1, v[2], v[1] + v[2]],
    );
    let turned = g.while_loop(
        &start,
        |_, v| less(v[0], n),
        |_, v| vec![v[0] + 1, v[2], v[1]],
    );
    let session = on_gpu(&g, gpu);
    assert_on_gpu(&session, end[1], &[n.feed(1)]);
    for (times, fibonacci) in [(0, 0.0f32), (1, 1.0), (9, 34.0), (10, 55.0)] {
        let got = session.step((end[1], turned[1]), [n.feed(times)]).unwrap();
        assert_eq!(got.scalar::<f32>(0).unwrap(), fibonacci);
        assert_eq!(got.scalar::<f32>(1).unwrap(), (times % 2) as f32);
    }
}

pub fn loops_and_branches_in_a_loop_run_on_the_gpu(gpu: &Gpu) {
    let g = Graph::new();
    let n = g.placeholder("n", DType::I32, []);
    let x = g.placeholder("x", DType::F32, [2]);
    let start = [g.constant(0i32), x * 0.0];
    let end = g.while_loop(
        &start,
        |_, v| less(v[0], n),
        |b, v| {
            let (i, sum) = (v[0], v[1]);
            // As many times x as iterations have gone.
            let inner = b.while_loop(
                &[b.constant(0i32), sum],
                |_, w| less(w[0], i),
                |_, w| vec![w[0] + 1, w[1] + x],
            );
            let small = less(i, b.constant(2i32));
            let next = b.cond(small, |_| vec![inner[1] + 100.0], |_| vec![inner[1] - x]);
            vec![i + 1, next[0]]
        },
    );
    let session = on_gpu(&g, gpu);
    assert_on_gpu(&session, end[1], &[n.feed(1), x.feed([1.0f32, 2.0])]);
    for times in [4, 0, 1, 6] {
        let mut sum = [0.0f32; 2];
        for i in 0..times {
            for (sum, x) in sum.iter_mut().zip([1.0f32, 2.0]) {
                *sum += i as f32 * x + if i < 2 { 100.0 } else { -x };
            }
        }
        let got = session.step(end[1], [n.feed(times), x.feed([1.0f32, 2.0])]);
        assert_eq!(got.unwrap().slice::<f32>(0).unwrap(), sum, "{times}");
    }
}

pub fn a_loop_updates_a_variable_in_each_iteration(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let n = g.placeholder("n", DType::I32, []);
    let before = v.value();
    let end = g.while_loop(
        &[g.constant(0i32), before * 0.0],
        |_, w| less(w[0], n),
        |b, w| {
            let read = b.op("ReadVariableOp").input(v.handle());
            let read = read.attr("dtype", DType::F32).output();
            let update = b.op("AssignVariableOp").input(v.handle());
            let update = update.input(read * 2.0).build();
            b.control_dependencies([update], || vec![w[0] + 1, w[1] + before])
        },
    );
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    assert_on_gpu(&session, end[1], &[n.feed(1)]);
    let mut expected = [1.0f32, 2.0];
    for times in [3, 0, 1, 2] {
        let got = session.step(end[1], [n.feed(times)]).unwrap();
        // The value from before the loop, in each iteration.
        let sums = expected.map(|v| v * times as f32);
        assert_eq!(got.slice::<f32>(0).unwrap(), sums);
        expected = expected.map(|v| v * 2.0f32.powi(times));
        assert_eq!(session.run::<Vec<f32>>(v, []).unwrap(), expected);
    }
}

pub fn an_element_that_an_iteration_rejects_is_an_error(gpu: &Gpu) {
    let g = Graph::new();
    let table = g.placeholder("table", DType::F32, [4]);
    let n = g.placeholder("n", DType::I32, []);
    let end = g.while_loop(
        &[g.constant(0i32), g.constant(0.0f32)],
        |_, v| less(v[0], n),
        |_, v| vec![v[0] + 1, v[1] + table.gather(v[0], 0).named("row")],
    );
    let session = on_gpu(&g, gpu);
    let rows = [1.0f32, 2.0, 3.0, 4.0];
    for _ in 0..3 {
        for (times, sum) in [(4, Some(10.0f32)), (5, None), (2, Some(3.0))] {
            let got = session.step(end[1], [table.feed(rows), n.feed(times)]);
            match (got, sum) {
                (Ok(got), Some(sum)) => assert_eq!(got.scalar::<f32>(0).unwrap(), sum),
                (Err(e), None) => assert!(e.to_string().contains("row'"), "{e}"),
                (got, _) => panic!("{times}: {got:?}"),
            }
        }
    }
}

pub fn an_endless_loop_ends_at_its_timeout(gpu: &Gpu) {
    let g = Graph::new();
    let n = g.placeholder("n", DType::I32, []);
    let end = g.while_loop(
        &[g.constant(0i32)],
        |_, v| less(v[0], n),
        |_, v| vec![v[0] * 1],
    );
    let session = on_gpu(&g, gpu);
    assert_on_gpu(&session, end[0], &[n.feed(1)]);
    let limit = RunOptions::new().timeout(Duration::from_millis(200));
    match session.step_with(end[0], [n.feed(1)], &limit) {
        Err(SessionError::Timeout { .. }) => {}
        other => panic!("{other:?}"),
    }
    let got = session.step(end[0], [n.feed(0)]).unwrap();
    assert_eq!(got.scalar::<i32>(0).unwrap(), 0);
}

pub fn a_loop_returns_what_it_read_before_its_update(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", 1.0f32);
    let n = g.placeholder("n", DType::I32, []);
    let end = g.while_loop(
        &[g.constant(0i32), g.constant(0.0f32)],
        |_, w| less(w[0], n),
        |b, w| vec![w[0] + 1, taken(b, v, 1.0)],
    );
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    assert_on_gpu(&session, end[1], &[n.feed(1)]);
    for (times, last, after) in [(3, 3.0f32, 4.0f32), (0, 0.0, 4.0), (2, 5.0, 6.0)] {
        assert_eq!(session.run::<f32>(end[1], [n.feed(times)]).unwrap(), last);
        assert_eq!(session.run::<f32>(v, []).unwrap(), after);
    }
}

pub fn a_value_that_a_loop_keeps_stays_beside_an_update(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let n = g.placeholder("n", DType::I32, []);
    let before = v.value();
    let end = g.while_loop(
        &[g.constant(0i32), before],
        |_, w| less(w[0], n),
        |_, w| vec![w[0] + 1, w[1]],
    );
    let update = g.control_dependencies([end[0]], || v.assign_add([10.0f32, 10.0]));
    let kept = g.control_dependencies([update], || end[1] * 2.0);
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    for round in 0..3 {
        let base = 10.0 * round as f32;
        let got = session.run::<Vec<f32>>(kept, [n.feed(2)]).unwrap();
        assert_eq!(got, [2.0 * (1.0 + base), 2.0 * (2.0 + base)]);
    }
}
