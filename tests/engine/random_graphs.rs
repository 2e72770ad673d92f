//! Random graphs in sessions of all kinds, compared bit for bit with the naive interpreter.

use proptest::prelude::*;
use thalweg::graph::OutputId;
use thalweg::prelude::*;
use thalweg::session::Feed;
use thalweg::session::Parallel;
use thalweg::tensor::Tensor;
use thalweg_tests::interpreter::{Interpreter, NoResult};
use thalweg_tests::random_graph::{Gene, RandomModel, numbers};

/// The same bits, where one NaN is as good as another.
fn same(a: &Tensor, b: &Tensor) -> bool {
    let element = |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.dims() == b.dims()
        && match (a.as_slice::<f32>(), b.as_slice::<f32>()) {
            (Ok(x), Ok(y)) => x.iter().zip(y).all(element),
            _ => a == b,
        }
}

/// A step's request: fetched outputs, updates, and feeds of inner outputs.
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

/// A kind of session: threads, CPU devices, whether graphs are optimised, whether nodes run at the
/// same time.
type SessionKind = (usize, usize, bool, Parallel);

/// On one device.
const ONE_DEVICE: &[SessionKind] = &[
    (1, 1, true, Parallel::Never),
    (2, 1, true, Parallel::Always),
    (1, 1, false, Parallel::WhereWorth),
    (3, 1, true, Parallel::Always),
];

/// On several.
const SEVERAL_DEVICES: &[SessionKind] = &[
    (2, 2, true, Parallel::Always),
    (4, 4, false, Parallel::Always),
    (8, 8, true, Parallel::Always),
    (3, 3, true, Parallel::Never),
    (8, 2, true, Parallel::Always),
];

/// Puts each node on one of eight devices, by its name; nodes that use a variable are where it is.
fn scatter(node: &thalweg::graph::Node) -> Option<DeviceSpec> {
    let uses_variable = ["VariableOp", "ResourceApply"];
    if uses_variable.iter().any(|op| node.op.name.contains(op)) {
        return None;
    }
    let hash = node
        .name
        .bytes()
        .fold(7u32, |h, b| h.wrapping_mul(31) ^ u32::from(b));
    Some(DeviceSpec {
        device_type: Some("CPU".into()),
        index: Some((hash >> 3) % 8),
        ..DeviceSpec::default()
    })
}

/// Runs some steps on every kind of session and in the interpreter.
fn compare(
    genes: &[Gene],
    vague: bool,
    requests: &[Request],
    kinds: &[SessionKind],
) -> Result<(), TestCaseError> {
    let g = Graph::new();
    let most = kinds.iter().map(|k| k.1).max().unwrap_or(1) as u32;
    let placed = DeviceScope::function(move |node| {
        Ok(scatter(node).map(|d| DeviceSpec {
            index: d.index.map(|i| i % most),
            ..d
        }))
    });
    let model = g.device(placed, || RandomModel::new(&g, genes, vague));
    let data = g.snapshot();
    prop_assert!(g.errors().is_empty(), "{:?}", g.errors());

    let mut sessions = Vec::new();
    for &kind in kinds {
        let (threads, cpus, optimise, parallel) = kind;
        let options = SessionOptions::new()
            .cpus(cpus)
            .threads(threads)
            .parallel(parallel)
            .optimise(optimise)
            // A graph for eight devices, on fewer.
            .soft_placement(true);
        let session = Session::with_options(&g, options).unwrap();
        session.run(g.initializers(), []).unwrap();
        sessions.push((kind, session));
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
            Err(NoResult::Cycle) => {
                return Err(TestCaseError::reject("reads and updates in a circle"));
            }
            Err(NoResult::Failed(e)) => return Err(TestCaseError::fail(e)),
        };
        let feeds: Vec<Feed<'_>> = fed.iter().map(|(o, t)| o.feed(t)).collect();
        for (kind, session) in &sessions {
            let got = session.step((&fetches, &updates), &feeds);
            let got = got.map_err(|e| TestCaseError::fail(format!("{e}\n{}", data.to_text())))?;
            for (i, expected) in expected.iter().enumerate() {
                let found = got.tensor(i).unwrap();
                prop_assert!(
                    same(found, expected),
                    "{kind:?}: {:?} is {found}, not {expected}\n{}\n{}",
                    fetches[i],
                    data.to_text(),
                    session.explain((&fetches, &updates), &feeds).unwrap()
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
    fn a_session_matches_the_interpreter(
        genes in proptest::collection::vec(any::<Gene>(), 1..40),
        requests in proptest::collection::vec(request(), 1..4),
    ) {
        compare(&genes, false, &requests, ONE_DEVICE)?;
    }

    #[test]
    fn a_session_with_late_shapes_matches_the_interpreter(
        genes in proptest::collection::vec(any::<Gene>(), 1..40),
        requests in proptest::collection::vec(request(), 1..3),
    ) {
        compare(&genes, true, &requests, ONE_DEVICE)?;
    }

    #[test]
    fn a_graph_scattered_over_devices_matches_the_interpreter(
        genes in proptest::collection::vec(any::<Gene>(), 1..40),
        requests in proptest::collection::vec(request(), 1..4),
        vague in any::<bool>(),
    ) {
        compare(&genes, vague, &requests, SEVERAL_DEVICES)?;
    }
}

#[test]
fn scattered_graphs_are_partitioned() {
    let genes: Vec<Gene> = (0..40u8).map(|i| [i, i * 3, i * 5, i * 6, 11, i]).collect();
    let g = Graph::new();
    let placed = DeviceScope::function(|node| Ok(scatter(node)));
    let model = g.device(placed, || RandomModel::new(&g, &genes, false));
    let session = Session::with_options(&g, SessionOptions::new().cpus(8)).unwrap();
    let fetches: Vec<Output<'_>> = model.values.iter().map(|v| v.0).collect();
    let feeds: Vec<Feed<'_>> = model.feeds.iter().map(|(o, t)| o.feed(t)).collect();
    let text = session.explain(&fetches, &feeds).unwrap();
    assert!(text.matches("/device:CPU:").count() >= 4, "{text}");
    assert!(text.matches(" = _Recv").count() > 8, "{text}");
}
