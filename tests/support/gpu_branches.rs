//! Checks of branches on a card or the emulated GPU.

use thalweg::layers::Initializer;
use thalweg::parallel::{DataParallel, LossScale, ParameterDevice, VariableUpdate};
use thalweg::prelude::*;
use thalweg::session::{Feed, Feeding};

use super::test_gpu::Gpu;

fn text(x: Output<'_>) -> Output<'_> {
    x.graph().op("AsString").input(x).output()
}

pub(super) fn on_gpu<'g>(g: &'g Graph, gpu: &Gpu) -> Session<'g> {
    Session::with_options(g, gpu.options().soft_placement(true)).unwrap()
}

/// Panics if a node of the step runs on the host.
pub(super) fn assert_on_gpu<'g>(session: &Session<'g>, step: Output<'g>, feeds: &[Feed<'g>]) {
    let text = session.explain(step, feeds).unwrap();
    assert!(!text.contains("runs on the host"), "{text}");
}

pub fn a_branch_gives_the_value_of_the_side_that_the_condition_says(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [3]);
    let [outer, inner] = ["outer", "inner"].map(|name| g.placeholder(name, DType::Bool, []));
    let y = g.cond(
        outer,
        |b| {
            let deep = b.cond(
                inner,
                |b| vec![x * b.constant(10.0f32), x],
                |_| vec![x + x, x.square()],
            );
            vec![deep[0] + x, deep[1]]
        },
        |b| vec![b.constant([7.0f32, 8.0, 9.0]), x.square()],
    );
    let sum = y[0] + y[1] * 100.0;
    let session = on_gpu(&g, gpu);
    let value = [1.0f32, 2.0, 3.0];
    let feeds = |a: bool, b: bool| [outer.feed(a), inner.feed(b), x.feed(value)];
    assert_on_gpu(&session, sum, &feeds(true, true));
    // Each combination runs uncaptured, captured and replayed.
    for round in 0..12 {
        let (a, b) = (round % 2 == 0, round / 2 % 2 == 0);
        let of = |x: f32| match (a, b) {
            (true, true) => 11.0 * x + 100.0 * x,
            (true, false) => 3.0 * x + 100.0 * x * x,
            (false, _) => x + 6.0 + 100.0 * x * x,
        };
        let got = session.step(sum, feeds(a, b)).unwrap();
        assert_eq!(got.slice::<f32>(0).unwrap(), value.map(of), "{a} {b}");
    }
}

pub fn a_branch_updates_variables_where_it_is_taken(gpu: &Gpu) {
    let g = Graph::new();
    let [v, w] = ["v", "w"].map(|name| g.variable(name, [1.0f32, 2.0]));
    let on = g.placeholder("on", DType::Bool, []);
    let update = |b: &Graph, v: Variable<'_>, by: f32| {
        let by = v.value() * 0.0 + by;
        b.op("AssignAddVariableOp")
            .input(v.handle())
            .input(by)
            .build();
    };
    let done = g.cond(
        on,
        |b| {
            update(b, v, 10.0);
            vec![v.value()]
        },
        |b| {
            update(b, w, 1.0);
            vec![w.value()]
        },
    )[0];
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    assert_on_gpu(&session, done, &[on.feed(true)]);
    let mut expected = ([1.0f32, 2.0], [1.0f32, 2.0]);
    for round in 0..9 {
        let taken = round % 3 > 0;
        session.step(done, [on.feed(taken)]).unwrap();
        match taken {
            true => expected.0 = expected.0.map(|v| v + 10.0),
            false => expected.1 = expected.1.map(|w| w + 1.0),
        }
        let got = session.step((v, w), []).unwrap();
        let got = [0, 1].map(|i| got.slice::<f32>(i).unwrap().to_vec());
        assert_eq!(got, [expected.0.to_vec(), expected.1.to_vec()], "{round}");
    }
}

pub fn an_element_that_a_branch_rejects_is_an_error_where_it_is_taken(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", [0.0f32; 2]);
    let table = g.placeholder("table", DType::F32, [4, 2]);
    let [first, second] = ["first", "second"].map(|name| g.placeholder(name, DType::I32, []));
    let on = g.placeholder("on", DType::Bool, []);
    let outside = table.gather(first, 0).named("outside");
    let y = g.cond(
        on,
        |_| vec![table.gather(second, 0).named("row")],
        |_| vec![table.at(0)],
    )[0];
    let step = v.assign_add(y + outside);
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    let rows = Tensor::new(&[4, 2], &[1.0f32; 8]).unwrap();
    let mut added = 0.0;
    for round in 0..4 {
        for (taken, at, inside, wrong) in [
            (true, 1, 3, None),
            (false, 1, 9, None),
            (true, 1, 9, Some("row")),
            (false, 9, 1, Some("outside")),
            (true, 9, 1, Some("outside")),
            (true, 2, 2, None),
        ] {
            let feeds = [
                table.feed(rows.clone()),
                on.feed(taken),
                first.feed(at),
                second.feed(inside),
            ];
            let got = session.run::<()>(step, feeds).map_err(|e| e.to_string());
            match wrong {
                None => added += 2.0,
                Some(name) => {
                    let error = got.clone().unwrap_err();
                    assert!(error.contains(&format!("{name}'")), "{error}");
                }
            }
            assert_eq!(
                got.is_ok(),
                wrong.is_none(),
                "{round} {taken} {at} {inside}"
            );
            assert_eq!(session.run::<Vec<f32>>(v, []).unwrap(), [added; 2]);
        }
    }
}

/// Branches so many deep in each other, each of which adds 1.
fn deep<'g>(g: &'g Graph, on: Output<'g>, x: Output<'g>, depth: usize) -> Output<'g> {
    match depth {
        0 => x,
        _ => g.cond(on, |b| vec![deep(b, on, x + 1.0, depth - 1)], |_| vec![x])[0],
    }
}

pub fn branches_that_are_too_deep_run_on_the_host(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let on = g.placeholder("on", DType::Bool, []);
    let feeds = || [on.feed(true), x.feed(1.0f32)];
    let (few, many) = (deep(&g, on, x, 8), deep(&g, on, x, 12));
    let session = on_gpu(&g, gpu);
    assert_on_gpu(&session, few, &feeds());
    let text = session.explain(many, feeds()).unwrap();
    assert!(text.contains("nested more than 8 deep"), "{text}");
    assert_eq!(session.run::<f32>(few, feeds()).unwrap(), 9.0);
    assert_eq!(session.run::<f32>(many, feeds()).unwrap(), 13.0);
}

pub fn a_branch_that_a_gpu_cannot_run_runs_on_the_host(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [3]);
    let on = g.placeholder("on", DType::Bool, []);
    // Of different lengths, and with an op that GPUs do not have.
    let lengths = g.cond(on, |_| vec![x], |_| vec![x.at(..2)])[0].sum();
    let texts = g.cond(on, |_| vec![text(x)], |_| vec![text(-x)])[0];
    let session = on_gpu(&g, gpu);
    for (taken, sum, first) in [(true, 6.0f32, "1.000000"), (false, 3.0, "-1.000000")] {
        let got = session.step(
            (lengths, texts),
            [on.feed(taken), x.feed([1.0f32, 2.0, 3.0])],
        );
        let got = got.unwrap();
        assert_eq!(got.scalar::<f32>(0).unwrap(), sum);
        assert_eq!(
            got.tensor(1).unwrap().as_strings().unwrap()[0].as_ref(),
            first.as_bytes()
        );
    }
}

pub fn an_automatic_loss_scale_skips_updates_and_stays_on_the_gpu(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let parallel = DataParallel::new(VariableUpdate::ParameterServer)
        .device_type("gpu")
        .parameter_device(ParameterDevice::Towers)
        .loss_scale(LossScale::Automatic {
            initial: 8.0,
            double_after: 2,
        });
    let training = parallel.build(
        &g,
        |_| Momentum::new(0.1, 0.9),
        |tower| {
            let a = tower.graph().get_variable("a", [2]);
            let a = a.initializer(Initializer::Constant(1.0)).build();
            (a.value() * x).square().mean()
        },
    );
    let training = training.unwrap();
    let session = on_gpu(&g, gpu);
    training.initialize(&session).unwrap();
    let text = session
        .explain(training.step, [x.feed([1.0f32, 1.0])])
        .unwrap();
    assert!(!text.contains("runs on the host"), "{text}");
    let all = g.variables();
    let scale = all.iter().find(|v| v.name == "loss_scale").unwrap().value;
    let a = training.towers[0][0].value();
    let (mut value, mut speed) = (1.0f32, 0.0f32);
    let inputs = [1.0, 1.0, 1.0, f32::INFINITY, 1.0, f32::NAN, 1.0];
    let scales = [8.0f32, 16.0, 16.0, 8.0, 8.0, 4.0, 4.0];
    for (input, expected) in inputs.into_iter().zip(scales) {
        session
            .run::<()>(training.step, [x.feed([1.0f32, input])])
            .unwrap();
        assert_eq!(session.run::<f32>(scale, []).unwrap(), expected);
        if input.is_finite() {
            // The mean of two squares has the gradient a x^2.
            speed = 0.9 * speed + value;
            value -= 0.1 * speed;
        }
        let got = session.run::<Vec<f32>>(a, []).unwrap();
        assert!((got[0] - value).abs() < 1e-5, "{got:?} {value}");
    }
}

/// The same number, by way of the host.
fn number(x: Output<'_>) -> Output<'_> {
    x.graph().op("StringToNumber").input(text(x)).output()
}

/// Reads a variable, and adds to it after that.
pub(super) fn taken<'g>(b: &'g Graph, v: Variable<'g>, by: f32) -> Output<'g> {
    let handle = v.handle();
    let read = b.op("ReadVariableOp").input(handle);
    let read = read.attr("dtype", DType::F32).output();
    let update = b.op("AssignAddVariableOp").input(handle);
    b.control_dependencies([read], || update.input(b.constant(by)).build());
    read
}

pub fn a_branch_returns_what_it_read_before_its_update(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", 1.0f32);
    let on = g.placeholder("on", DType::Bool, []);
    let got = g.cond(
        on,
        |b| vec![taken(b, v, 10.0)],
        |b| vec![b.constant(-1.0f32)],
    )[0];
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    assert_on_gpu(&session, got, &[on.feed(true)]);
    for (taken, before, after) in [
        (true, 1.0f32, 11.0f32),
        (false, -1.0, 11.0),
        (true, 11.0, 21.0),
    ] {
        assert_eq!(session.run::<f32>(got, [on.feed(taken)]).unwrap(), before);
        assert_eq!(session.run::<f32>(v, []).unwrap(), after);
    }
}

pub fn a_branch_runs_whole_between_nodes_of_the_host(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let on = g.placeholder("on", DType::Bool, []);
    let y = g.cond(on, |_| vec![x * 2.0 + 1.0], |_| vec![x - 5.0])[0];
    let z = number(y) + y;
    let w = g.cond(on, |_| vec![z.square()], |_| vec![z + z + z])[0];
    let end = number(w) + w + 1.0;
    let session = on_gpu(&g, gpu);
    for (taken, expected) in [
        (true, 393.0f32),
        (false, 13.0),
        (true, 393.0),
        (false, 13.0),
    ] {
        let x = [on.feed(taken), x.feed(if taken { 3.0f32 } else { 6.0 })];
        assert_eq!(session.run::<f32>(end, x).unwrap(), expected, "{taken}");
    }
}
