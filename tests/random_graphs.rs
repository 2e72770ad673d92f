//! Random graphs, optimised and planned, on one thread and two, against the naive interpreter: bit
//! for bit the same.

mod support;

use proptest::prelude::*;
use support::interpreter::{Interpreter, Stuck};
use support::random_graph::{Gene, Model, numbers};
use thalweg::graph::{OutputId, Tensor};
use thalweg::prelude::*;
use thalweg::session::Feed;

/// Elements enough for a plan to be worth several threads.
const BALLAST: usize = 1 << 17;

/// The same bits, where one NaN is as good as another.
fn same(a: &Tensor, b: &Tensor) -> bool {
    let element = |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.dims() == b.dims()
        && match (a.as_slice::<f32>(), b.as_slice::<f32>()) {
            (Ok(x), Ok(y)) => x.iter().zip(y).all(element),
            _ => a == b,
        }
}

/// What a step is asked for: outputs, updates, and values for outputs in the middle.
#[derive(Clone, Debug)]
struct Request {
    fetches: Vec<u8>,
    updates: Vec<u8>,
    cuts: Vec<u8>,
}

fn request() -> impl Strategy<Value = Request> {
    let bytes = |n| proptest::collection::vec(any::<u8>(), n);
    (bytes(1..5), bytes(0..5), bytes(0..4)).prop_map(|(fetches, updates, cuts)| Request {
        fetches,
        updates,
        cuts,
    })
}

/// Runs some steps on every kind of session and in the interpreter.
fn compare(genes: &[Gene], vague: bool, requests: &[Request]) -> Result<(), TestCaseError> {
    let g = Graph::new();
    let model = Model::new(&g, genes, vague);
    let ballast = g.placeholder("ballast", DType::F32, [BALLAST as i64]);
    let weight = g.op("Square").input(ballast).output();
    let data = g.snapshot();
    prop_assert!(g.errors().is_empty(), "{:?}", g.errors());

    let mut sessions = Vec::new();
    for (threads, optimise) in [(1, true), (2, true), (1, false), (3, true)] {
        let mut options = SessionOptions::with_threads(threads);
        options.optimise = optimise;
        let session = Session::with_options(&g, options).unwrap();
        session.run(g.initializers(), []).unwrap();
        sessions.push((threads, optimise, session));
    }
    let mut interpreter = Interpreter::new();
    let initial: Vec<_> = g.initializers().iter().map(|n| n.id()).collect();
    interpreter.run(&data, &[], &initial, &[]).unwrap();

    for request in requests {
        let mut fetches: Vec<Output<'_>> =
            request.fetches.iter().map(|&b| model.value(b).0).collect();
        fetches.extend(model.variables.iter().map(|(v, _)| v.value()));
        let count = model.updates.len();
        let chosen = request.updates.iter().filter(|_| count > 0);
        let updates: Vec<Operation<'_>> = chosen
            .map(|&b| model.updates[usize::from(b) % count])
            .collect();
        let mut fed = model.feeds.clone();
        for (i, &b) in request.cuts.iter().enumerate() {
            let (output, dims) = model.value(b);
            if fed.iter().all(|(o, _)| o.id() != output.id()) {
                fed.push((output, numbers(&dims, 1000 + i as u64)));
            }
        }
        let values: Vec<(OutputId, Tensor)> =
            fed.iter().map(|(o, t)| (o.id(), t.clone())).collect();
        let outputs: Vec<OutputId> = fetches.iter().map(|f| f.id()).collect();
        let targets: Vec<_> = updates.iter().map(|u| u.id()).collect();
        let expected = match interpreter.run(&data, &outputs, &targets, &values) {
            Ok(expected) => expected,
            Err(Stuck::Cycle) => {
                return Err(TestCaseError::reject("reads and updates in a circle"));
            }
            Err(Stuck::Failed(e)) => return Err(TestCaseError::fail(e)),
        };
        let mut feeds: Vec<Feed<'_>> = fed.iter().map(|(o, t)| o.feed(t)).collect();
        feeds.push(ballast.feed(numbers(&[BALLAST], 7)));
        for (threads, optimise, session) in &sessions {
            let got = session.run((&fetches, &updates, weight), &feeds);
            let got = got.map_err(|e| TestCaseError::fail(format!("{e}\n{}", data.to_text())))?;
            for (i, expected) in expected.iter().enumerate() {
                let found = got.tensor(i).unwrap();
                prop_assert!(
                    same(found, expected),
                    "{threads} threads, optimise {optimise}: {:?} is {found}, not {expected}\n{}\n{}",
                    fetches[i],
                    data.to_text(),
                    session
                        .explain((&fetches, &updates, weight), &feeds)
                        .unwrap()
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_session_gives_what_the_interpreter_gives(
        genes in proptest::collection::vec(any::<Gene>(), 1..40),
        requests in proptest::collection::vec(request(), 1..4),
    ) {
        compare(&genes, false, &requests)?;
    }

    #[test]
    fn a_session_that_learns_shapes_late_gives_what_the_interpreter_gives(
        genes in proptest::collection::vec(any::<Gene>(), 1..40),
        requests in proptest::collection::vec(request(), 1..3),
    ) {
        compare(&genes, true, &requests)?;
    }
}
