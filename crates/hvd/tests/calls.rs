//! Collectives outside of graphs; timelines and traces.

mod support;

use support::{on_ranks, on_ranks_that};
use thalweg_graph::Graph;
use thalweg_hvd::{Hvd, Join, ReduceOp};
use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
use thalweg_optim::{GradientDescent, Optimizer};
use thalweg_session::{Session, SessionOptions};
use thalweg_tensor::Tensor;

const STEPS: usize = 5;

#[test]
fn grouped_allreduce_equals_separate_allreduces() {
    let found = on_ranks(3, |hvd| {
        let own = hvd.rank() as f32;
        let tensors = [
            Tensor::vector(&[own, 2.0 * own]),
            Tensor::vector(&[hvd.rank() as i64]),
            Tensor::new(&[2, 1], &[1.0f32, own]).unwrap(),
            Tensor::vector::<f32>(&[]),
        ];
        let alone = |t: &Tensor| hvd.allreduce(t.clone(), ReduceOp::Sum).unwrap();
        let each: Vec<Tensor> = tensors.iter().map(alone).collect();
        (
            each,
            hvd.grouped_allreduce(&tensors, ReduceOp::Sum).unwrap(),
        )
    });
    for (each, grouped) in found {
        assert_eq!(each, grouped);
        assert_eq!(grouped[0], Tensor::vector(&[3.0f32, 6.0]));
    }
}

#[test]
fn the_timeline_of_rank_0_is_complete_and_has_waits_and_runs() {
    let folder = std::env::temp_dir().join(format!("thalweg-timeline-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |rank: usize| folder.join(format!("{rank}.json"));
    on_ranks(2, |hvd| {
        hvd.start_timeline(file(hvd.rank())).unwrap();
        let g = Graph::new();
        let loss = g.variable("w", [3.0f32, -4.0]).value().square().sum();
        let train = hvd.distributed(GradientDescent::new(0.1)).minimize(loss);
        let options = hvd.session(SessionOptions::new().threads(1));
        let session = Session::with_options(&g, options).unwrap();
        session.run(g.initializers(), []).unwrap();
        for _ in 0..STEPS {
            session.run(train, []).unwrap();
        }
        hvd.stop_timeline();
        hvd.allreduce(Tensor::scalar(1.0f32), ReduceOp::Sum)
            .unwrap();
    });
    assert!(!file(1).exists(), "rank 0 alone writes");
    let text = std::fs::read_to_string(file(0)).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let named = |name: &str| events.iter().filter(|e| e["name"] == name).count();
    // One bucket of all gradients, at each step.
    assert_eq!([named("QUEUE"), named("ALLREDUCE")], [STEPS, STEPS]);
    let rows = events.iter().filter(|e| e["name"] == "process_name");
    let rows: Vec<&str> = rows.filter_map(|e| e["args"]["name"].as_str()).collect();
    assert!(
        rows.iter().all(|r| r.contains("DistributedOptimizer")),
        "{rows:?}"
    );
    // A collective begins when its wait in the queue ends.
    let end = |e: &serde_json::Value| e["ts"].as_f64().unwrap() + e["dur"].as_f64().unwrap();
    for pair in events.windows(2).filter(|p| p[0]["name"] == "QUEUE") {
        let begin = pair[1]["ts"].as_f64().unwrap();
        assert!((end(&pair[0]) - begin).abs() < 1.0, "{pair:?}");
    }
    let missing = folder.join("none").join("t.json");
    let alone = Hvd::meet(&Join::alone()).unwrap();
    let error = alone.start_timeline(&missing).unwrap_err().to_string();
    assert!(error.contains("t.json: No such file"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_trace_of_each_rank_has_its_collectives_and_their_phases() {
    let folder = std::env::temp_dir().join(format!("thalweg-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for memory in [true, false] {
        let path = folder.join(format!("{memory}.json"));
        on_ranks_that(
            2,
            |join| join.memory(memory),
            |hvd| {
                hvd.start_trace(&path).unwrap();
                for _ in 0..STEPS {
                    let value = Tensor::vector(&vec![1.0f32; 100_000]);
                    hvd.called("sum").allreduce(value, ReduceOp::Sum).unwrap();
                }
            },
        );
        for rank in 0..2 {
            let text = std::fs::read_to_string(folder.join(format!("{memory}.json.{rank}")));
            let events: Vec<serde_json::Value> = serde_json::from_str(&text.unwrap()).unwrap();
            assert!(events.iter().all(|e| e["pid"] == rank), "{events:?}");
            let slices = |name: &str| {
                let all = events
                    .iter()
                    .filter(|e| e["ph"] == "X" && e["name"] == name);
                all.cloned().collect::<Vec<_>>()
            };
            let span = |e: &serde_json::Value| {
                let at = e["ts"].as_f64().unwrap();
                (at, at + e["dur"].as_f64().unwrap())
            };
            let sums = slices("sum");
            assert_eq!(sums.len(), STEPS);
            assert!(sums.iter().all(|e| e["args"]["bytes"] == 400_000));
            for part in ["copy", "reduce"] {
                assert_eq!(slices(part).len(), STEPS, "{part} {events:?}");
            }
            // Each part lies within a collective.
            for part in ["wait", "copy", "reduce"]
                .iter()
                .flat_map(|name| slices(name))
            {
                let (from, to) = span(&part);
                let within = |sum| span(sum).0 <= from && to <= span(sum).1 + 1.0;
                assert!(sums.iter().any(within), "{part}");
            }
            let waits = |ph: &str| events.iter().filter(|e| e["ph"] == ph).count();
            assert_eq!([waits("b"), waits("e")], [STEPS; 2]);
        }
    }
    let missing = folder.join("none").join("t.json");
    let alone = Hvd::meet(&Join::alone()).unwrap();
    let error = alone.start_trace(&missing).unwrap_err().to_string();
    assert!(error.contains("t.json.0: No such file"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
