//! Conditionals, loops and functions, and gradients through them.

use thalweg::prelude::*;

fn scalar(session: &Session<'_>, of: Output<'_>, feeds: &[(Output<'_>, f32)]) -> f32 {
    // Outputs and sessions of one test are of one graph.
    let graph = session.graph();
    let feeds: Vec<_> = feeds
        .iter()
        .map(|(o, v)| graph.output(o.id()).feed(*v))
        .collect();
    let result = session.step(graph.output(of.id()), &feeds).unwrap();
    result.scalar(0).unwrap()
}

/// The slope of `y` at `x`, by differences.
fn slope(session: &Session<'_>, y: Output<'_>, x: Output<'_>, at: f32) -> f32 {
    let h = 1e-2;
    (scalar(session, y, &[(x, at + h)]) - scalar(session, y, &[(x, at - h)])) / (2.0 * h)
}

#[test]
fn a_conditional_and_its_gradient_follow_the_taken_branch() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let pred = g.op("Greater").input(x).input(x.constant_like(1)).output();
    let y = g.cond(
        pred,
        |_| vec![x * x * x],
        |g| vec![g.op("Exp").input(x).output()],
    )[0];
    let dx = gradients(&[y], &[x])[0].unwrap();
    let session = Session::new(&g).unwrap();
    for at in [-0.5f32, 0.5, 2.0, 3.0] {
        let expected = if at > 1.0 { at * at * at } else { at.exp() };
        assert!((scalar(&session, y, &[(x, at)]) - expected).abs() < 1e-4);
        let (found, wanted) = (scalar(&session, dx, &[(x, at)]), slope(&session, y, x, at));
        assert!(
            (found - wanted).abs() < 2e-2 * wanted.abs().max(1.0),
            "{found} {wanted}"
        );
    }
}

#[test]
fn only_the_taken_branch_updates_a_variable() {
    let g = Graph::new();
    let v = g.variable("v", 1.0f32);
    let on = g.placeholder("on", DType::Bool, []);
    let done = g.cond(
        on,
        |b| {
            b.op("AssignAddVariableOp")
                .input(v.handle())
                .input(v.value().constant_like(10.0))
                .build();
            vec![b.constant(1.0f32)]
        },
        |b| vec![b.constant(0.0f32)],
    )[0];
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for (taken, value) in [(false, 1.0f32), (true, 11.0), (false, 11.0), (true, 21.0)] {
        let done = session.step(done, [on.feed(taken)]).unwrap();
        assert_eq!(done.scalar::<f32>(0).unwrap(), f32::from(u8::from(taken)));
        assert_eq!(session.run::<f32>(v, []).unwrap(), value);
    }
}

/// `x` to the power of `n`, in a loop.
fn power<'g>(g: &'g Graph, x: Output<'g>, n: Output<'g>) -> Output<'g> {
    let start = [g.constant(0i32), x.constant_like(1)];
    g.while_loop(
        &start,
        |b, v| b.op("Less").input(v[0]).input(n).output(),
        |_, v| vec![v[0] + 1, v[1] * x],
    )[1]
}

#[test]
fn a_loop_runs_its_iterations_and_its_gradient_runs_them_backwards() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let n = g.placeholder("n", DType::I32, []);
    let y = power(&g, x, n);
    let dx = gradients(&[y], &[x])[0].unwrap();
    let session = Session::new(&g).unwrap();
    for turns in [0i32, 1, 2, 7] {
        let results = session
            .step([y, dx], [x.feed(1.5f32), n.feed(turns)])
            .unwrap();
        let (y, dx) = (
            results.scalar::<f32>(0).unwrap(),
            results.scalar::<f32>(1).unwrap(),
        );
        assert!((y - 1.5f32.powi(turns)).abs() < 1e-4);
        let expected = turns as f32 * 1.5f32.powi(turns - 1);
        assert!(
            (dx - expected).abs() < 1e-3,
            "{turns} turns: {dx}, not {expected}"
        );
    }
}

#[test]
fn gradients_go_through_nested_loops_and_branches() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let rows = g.while_loop(
        &[g.constant(0i32), x],
        |b, v| b.op("Less").input(v[0]).input(b.constant(3i32)).output(),
        |b, v| {
            let odd = b.op("Equal").input(v[0]).input(b.constant(1i32)).output();
            let next = b.cond(
                odd,
                |c| vec![power(c, v[1], c.constant(2i32))],
                |c| vec![c.op("Sin").input(v[1]).output() * x],
            );
            vec![v[0] + 1, next[0]]
        },
    )[1];
    let dx = gradients(&[rows], &[x])[0].unwrap();
    let session = Session::new(&g).unwrap();
    for at in [0.3f32, 0.7, 1.2] {
        let expected = (((at.sin() * at).powi(2)).sin()) * at;
        assert!((scalar(&session, rows, &[(x, at)]) - expected).abs() < 1e-5);
        let (found, wanted) = (
            scalar(&session, dx, &[(x, at)]),
            slope(&session, rows, x, at),
        );
        assert!(
            (found - wanted).abs() < 2e-2 * wanted.abs().max(0.1),
            "{found} {wanted}"
        );
    }
}

#[test]
fn the_gradient_of_a_loop_uses_the_drawn_random_numbers() {
    let g = Graph::new();
    let x = g.variable("x", [1.0f32, 2.0, 3.0]);
    let sums = g.while_loop(
        &[g.constant(0i32), g.constant([0.0f32, 0.0, 0.0])],
        |b, v| b.op("Less").input(v[0]).input(b.constant(4i32)).output(),
        |b, v| {
            let drawn = b.random_uniform([3i32], 0.0, 1.0, DType::F32, None);
            vec![v[0] + 1, v[1] + drawn * x.value()]
        },
    )[1];
    let dx = gradients(&[sums], &[x.handle()])[0].unwrap();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let results = session.step([sums, dx], []).unwrap();
    let (sums, dx) = (
        results.slice::<f32>(0).unwrap(),
        results.slice::<f32>(1).unwrap(),
    );
    for (i, x) in [1.0f32, 2.0, 3.0].into_iter().enumerate() {
        // The sum is linear in x: its slope is the sum of the drawn numbers of all iterations.
        assert!((sums[i] - dx[i] * x).abs() < 1e-5, "{sums:?} {dx:?}");
        assert!(dx[i] > 0.0);
    }
}

#[test]
fn the_gradient_of_a_branch_uses_the_drawn_random_numbers() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let on = g.placeholder("on", DType::Bool, []);
    let y = g.cond(
        on,
        |b| vec![b.random_uniform(Vec::<i32>::new(), 0.0, 1.0, DType::F32, None) * x],
        |_| vec![x * x],
    )[0];
    let dx = gradients(&[y], &[x])[0].unwrap();
    let session = Session::new(&g).unwrap();
    for _ in 0..3 {
        let results = session
            .step([y, dx], [x.feed(2.0f32), on.feed(true)])
            .unwrap();
        let (y, dx) = (
            results.scalar::<f32>(0).unwrap(),
            results.scalar::<f32>(1).unwrap(),
        );
        assert!((y - 2.0 * dx).abs() < 1e-6 && dx > 0.0, "{y} {dx}");
    }
    let results = session
        .step([y, dx], [x.feed(2.0f32), on.feed(false)])
        .unwrap();
    assert_eq!(results.scalar::<f32>(1).unwrap(), 4.0);
}

#[test]
fn a_growing_loop_value_has_the_common_shape_of_all_iterations() {
    let g = Graph::new();
    let start = g.constant([1.0f32]);
    let grown = g.while_loop(
        &[g.constant(0i32), start],
        |b, v| b.op("Less").input(v[0]).input(b.constant(3i32)).output(),
        |b, v| {
            let twice = b
                .op("ConcatV2")
                .input(v[1])
                .input(v[1])
                .input(b.constant(0i32))
                .output();
            vec![v[0] + 1, twice]
        },
    )[1];
    assert_eq!(grown.shape(), Shape::from([-1]));
    let session = Session::new(&g).unwrap();
    assert_eq!(session.run::<Vec<f32>>(grown, []).unwrap(), [1.0; 8]);
}

#[test]
fn mistakes_in_branches_and_loops_name_their_line() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let on = g.placeholder("on", DType::Bool, []);
    g.cond(on, |_| vec![x + x], |b| vec![b.constant(1i32)]);
    g.while_loop(&[x], |b, _| b.constant(1i32), |_, v| vec![v[0]]);
    g.while_loop(&[x], |b, _| b.constant(true), |_, _| vec![]);
    g.cond(
        on,
        |b| vec![b.op("MatMul").input(x).input(x).output()],
        |_| vec![x],
    );
    let texts: Vec<String> = g.errors().iter().map(ToString::to_string).collect();
    assert!(
        texts[0].contains("tests/engine/control_flow.rs") && texts[0].contains("same dtypes"),
        "{texts:?}"
    );
    assert!(texts[1].contains("must be bool"), "{texts:?}");
    assert!(texts[2].contains("it must give what it takes"), "{texts:?}");
    assert!(
        texts[3].contains("MatMul") && texts[3].contains("tests/engine/control_flow.rs"),
        "{texts:?}"
    );
    assert_eq!(texts.len(), 4, "{texts:?}");
}

#[test]
fn a_loop_without_end_stops_at_its_deadline() {
    let g = Graph::new();
    let endless = g.while_loop(
        &[g.constant(0.0f32)],
        |b, _| b.constant(true),
        |_, v| vec![v[0] + 1],
    )[0];
    let session = Session::new(&g).unwrap();
    let options = RunOptions::new().timeout(std::time::Duration::from_millis(50));
    let error = session.step_with(endless, [], &options).unwrap_err();
    assert!(matches!(error, SessionError::Timeout { .. }), "{error}");
}

/// Defines a function of one number that calls `called` twice.
fn define_caller(g: &Graph, name: &str, called: &str) {
    let body = g.body(name);
    let a = body.argument("a", &thalweg::graph::Fact::new(DType::F32, Shape::scalar()));
    let call = |x| {
        body.op("PartitionedCall")
            .input(x)
            .attr("f", thalweg::graph::Func::named(called))
            .attr("Tout", vec![DType::F32])
            .output()
    };
    let result = call(call(a));
    for mut function in g.close_bodies(&[(body, &[a], &[result])]).functions {
        function.name = name.to_owned();
        g.define(function);
    }
}

#[test]
fn updates_of_nested_functions_are_collected_once_each() {
    let g = Graph::new();
    for i in 0..200 {
        define_caller(&g, &format!("f{i}"), &format!("f{}", i + 1));
    }
    let first = g.function("f0").unwrap();
    assert_eq!(first.updates(&g.snapshot()).len(), 1);
}

#[test]
fn a_function_that_calls_itself_is_an_error() {
    let g = Graph::new();
    define_caller(&g, "endless", "endless");
    let y = g
        .op("PartitionedCall")
        .input(g.constant(1.0f32))
        .attr("f", thalweg::graph::Func::named("endless"))
        .attr("Tout", vec![DType::F32])
        .output();
    let error = Session::new(&g).unwrap().step(y, []).unwrap_err();
    assert!(error.to_string().contains("use a While"), "{error}");
}

#[test]
fn a_gradient_goes_through_a_call() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let body = g.body("square");
    let a = body.argument("a", &x.fact());
    let closed = g.close_bodies(&[(body, &[a], &[a * a])]);
    let name = closed.functions[0].name.clone();
    closed.functions.into_iter().for_each(|f| g.define(f));
    for op in ["PartitionedCall", "StatefulPartitionedCall"] {
        let y = g
            .op(op)
            .input(x)
            .attr("f", thalweg::graph::Func::named(&name))
            .attr("Tout", vec![DType::F32])
            .output();
        let dx = gradients(&[y], &[x])[0].unwrap();
        let session = Session::new(&g).unwrap();
        let results = session.step([y, dx], [x.feed(3.0f32)]).unwrap();
        assert_eq!(results.scalar::<f32>(0).unwrap(), 9.0);
        assert_eq!(results.scalar::<f32>(1).unwrap(), 6.0);
    }
}

#[test]
fn an_endless_empty_loop_ends_at_its_deadline() {
    let g = Graph::new();
    let start = [g.placeholder("x", DType::F32, [])];
    let end = g.while_loop(&start, |b, _| b.constant(true), |_, v| vec![v[0]])[0];
    let session = Session::new(&g).unwrap();
    let options = RunOptions::new().timeout(std::time::Duration::from_millis(30));
    let error = session.step_with(end, [start[0].feed(1.0f32)], &options);
    assert!(
        matches!(error, Err(SessionError::Timeout { .. })),
        "{error:?}"
    );
}

/// A reference variable with this value.
fn referenced(g: &Graph, value: f32) -> (Output<'_>, Operation<'_>) {
    let v = g.op("VariableV2").name("v").attr("dtype", DType::F32);
    let v = v.attr("shape", Shape::known(&[])).output();
    let init = g.op("Assign").input(v).input(g.constant(value)).build();
    (v, init)
}

/// In TensorFlow's `cond`, a branch's result is an Identity, here of the reference that a Switch passed on.
#[test]
fn a_branch_may_return_a_reference_the_other_one_does_not_use() {
    let g = Graph::new();
    let (v, init) = referenced(&g, 2.0);
    let on = g.placeholder("on", DType::Bool, []);
    let side = |side: u32| {
        let reference = g.op("RefSwitch").input(v).input(on).build();
        reference.output(side)
    };
    let pivot = g.op("Switch").input(on).input(on).build().output(0);
    let no = g.op("Identity").input(pivot).build();
    // A control dependency puts it into the branch.
    let one = g.op("Const").attr("dtype", DType::F32);
    let one = one.attr("value", Tensor::scalar(1.0f32)).control(no);
    let less = side(0) - one.output();
    let same = g.op("Identity").input(side(1)).output();
    let merged = g.op("Merge").inputs([less, same]).output();
    // The same without an Identity.
    let bare = g.op("Merge").inputs([less, side(1)]).output();
    let session = Session::new(&g).unwrap();
    session.run(init, []).unwrap();
    for (taken, expected) in [(true, 2.0f32), (false, 1.0)] {
        let found = session.step([merged, bare], [on.feed(taken)]).unwrap();
        assert_eq!(found.scalar::<f32>(0).unwrap(), expected);
        assert_eq!(found.scalar::<f32>(1).unwrap(), expected);
    }
}

/// `then(data)` where `on` is true, and `otherwise(data)` elsewhere, by Switch and Merge.
fn switched<'g>(
    on: Output<'g>,
    data: Output<'g>,
    then: impl FnOnce(Output<'g>) -> Output<'g>,
    otherwise: impl FnOnce(Output<'g>) -> Output<'g>,
) -> Output<'g> {
    let switch = data.graph().op("Switch").input(data).input(on).build();
    let sides = [otherwise(switch.output(0)), then(switch.output(1))];
    data.graph().op("Merge").inputs(sides).output()
}

#[test]
fn conditionals_nest_deeper_than_calls_may() {
    let g = Graph::new();
    let (x, on) = (
        g.placeholder("x", DType::F32, []),
        g.placeholder("on", DType::Bool, []),
    );
    /// One more than what is inside, as deep as `depth`.
    fn nested<'g>(on: Output<'g>, x: Output<'g>, depth: usize) -> Output<'g> {
        match depth {
            0 => x,
            _ => {
                let here = x.graph().op("Switch").input(on).input(on).build().output(1);
                switched(on, x, |x| nested(here, x, depth - 1) + 1.0, |x| x)
            }
        }
    }
    let y = nested(on, x, 100);
    let session = Session::new(&g).unwrap();
    for (taken, expected) in [(true, 102.0f32), (false, 2.0)] {
        let found = session.run::<f32>(y, [x.feed(2.0f32), on.feed(taken)]);
        assert_eq!(found.unwrap(), expected);
    }
}

#[test]
fn thousands_of_conditionals_and_chains_of_merges_run() {
    let g = Graph::new();
    let (x, ons) = (
        g.placeholder("x", DType::F32, []),
        g.placeholder("ons", DType::F32, [3]),
    );
    let on = |i: usize| {
        let limit = g.constant(vec![i as f32 / 1500.0; 3]);
        let all = g.op("Greater").input(ons).input(limit).output();
        g.op("All")
            .input(all)
            .input(g.constant(vec![0i32]))
            .output()
    };
    let mut y = x;
    for i in 0..1500 {
        y = switched(on(i), y, |y| y + 1.0, |y| y);
    }
    let mut chain = y;
    for _ in 0..20_000 {
        chain = g.op("Merge").inputs([chain, chain]).output();
    }
    let session = Session::new(&g).unwrap();
    let half = vec![0.5f32; 3];
    let found = session.run::<f32>(chain, [x.feed(0.0f32), ons.feed(half)]);
    assert_eq!(found.unwrap(), 750.0);
}

#[test]
fn a_switch_takes_a_scalar_alone() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let on = g.placeholder("on", DType::Bool, Shape::unknown());
    let y = switched(on, x, |x| x + 1.0, |x| x);
    let session = Session::new(&g).unwrap();
    assert_eq!(
        session
            .run::<f32>(y, [x.feed(1.0f32), on.feed(true)])
            .unwrap(),
        2.0
    );
    assert!(
        session
            .run::<f32>(y, [x.feed(1.0f32), on.feed(vec![true, false])])
            .is_err()
    );
}

#[test]
fn products_of_the_gradient_of_a_loop_follow_it() {
    let g = Graph::new();
    let w = g.placeholder("w", DType::F64, [64, 64]);
    let x = g.placeholder("x", DType::F64, [2, 64]);
    let looped = g.while_loop(
        &[g.constant(0i32), x],
        |_, v| v[0].less(4),
        |_, v| vec![v[0] + 1, v[1].matmul(w).tanh()],
    )[1];
    let unrolled = (0..4).fold(x, |h, _| h.matmul(w).tanh());
    let slopes = [looped, unrolled].map(|y| gradients(&[y], &[w])[0].unwrap());
    let numbers = |len: i32| (0..len).map(|i| f64::from(i * 37 % 101) / 505.0 - 0.1);
    let [w_value, x_value] = [(64, w), (2, x)].map(|(rows, of)| {
        let values: Vec<f64> = numbers(rows * 64).collect();
        of.feed(Tensor::new(&[rows as usize, 64], &values).unwrap())
    });
    let feeds = [w_value, x_value];
    let session = Session::new(&g).unwrap();
    let plan = session.explain(slopes[0], &feeds).unwrap();
    assert!(plan.contains("= TensorListConcatV2("), "{plan}");
    let results = session.step(slopes, &feeds).unwrap();
    let [one, other] = [0, 1].map(|i| results.slice::<f64>(i).unwrap());
    let apart = one.iter().zip(other).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f64::max) < 1e-12);
    assert!(one.iter().any(|d| d.abs() > 1e-3));
}
