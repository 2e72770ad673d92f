//! The names of metrics' variables, and mistakes of metrics.

use thalweg_graph::Graph;
use thalweg_layers::metrics::{self, Curve, Metric};
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::DType;

#[test]
fn variables_have_tensorflows_names_in_a_scope_that_is_made_unique() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    metrics::accuracy(x, x).build();
    metrics::accuracy(x, x).build();
    g.name_scope("eval", || metrics::mean(x).named("loss").build());
    metrics::recall(x, x).build();
    let names: Vec<String> = g.variables().into_iter().map(|v| v.name).collect();
    let expected = [
        "accuracy/total",
        "accuracy/count",
        "accuracy_1/total",
        "accuracy_1/count",
        "eval/loss/total",
        "eval/loss/count",
        "recall/true_positives/count",
        "recall/false_negatives/count",
    ];
    assert_eq!(names, expected);
    assert!(g.trainable_variables().is_empty());
    assert_eq!(g.collection("metric_variables").len(), expected.len());
    for node in ["value", "update_op", "update", "reset"] {
        assert!(g.find(&format!("accuracy_1/{node}")).is_some(), "{node}");
    }
}

#[test]
fn two_metrics_of_one_graph_do_not_share_variables() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let (a, b) = (metrics::mean(x).build(), metrics::mean(x).build());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(a.update(), [x.feed([1.0f32, 3.0])]).unwrap();
    session.run(b.update(), [x.feed([8.0f32])]).unwrap();
    let both = session.step((a.value(), b.value()), []).unwrap();
    assert_eq!(
        (
            both.scalar::<f32>(0).unwrap(),
            both.scalar::<f32>(1).unwrap()
        ),
        (2.0, 8.0)
    );
    session.run(a.reset(), []).unwrap();
    let both = session.step((a.value(), b.value()), []).unwrap();
    assert_eq!(
        (
            both.scalar::<f32>(0).unwrap(),
            both.scalar::<f32>(1).unwrap()
        ),
        (0.0, 8.0)
    );
}

#[test]
fn a_metric_reads_the_model_before_the_update() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let metric = metrics::mean(w).build();
    let train = w.assign_add(1.0f32);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for expected in [1.0f32, 1.5, 2.0] {
        let step = session.step((train, metric.updated()), []).unwrap();
        assert_eq!(step.scalar::<f32>(1).unwrap(), expected);
    }
}

#[test]
fn shapes_that_do_not_fit_are_one_mistake_at_the_callers_line() {
    let build: [fn(&Graph) -> Metric<'_>; 7] = [
        |g| metrics::accuracy([1, 2], g.constant([1, 2, 3])).build(),
        |g| metrics::mean_squared_error([1.0f32, 2.0], g.constant([1.0f32; 3])).build(),
        |g| {
            let metric = metrics::precision([1, 2], g.constant([1, 2, 3]));
            metric.weights([1, 2]).build()
        },
        |g| {
            let metric = metrics::recall([1, 2, 3], g.constant([1, 2, 3]));
            metric.weights([1, 2]).build()
        },
        |g| metrics::auc([1, 2], g.constant([1.0f32; 3]), Curve::Roc).build(),
        |g| metrics::mean(g.constant([1, 2, 3])).weights([1, 2]).build(),
        |g| metrics::mean_iou([1, 2], g.constant([1, 2, 3]), 4).build(),
    ];
    for (i, build) in build.iter().enumerate() {
        let g = Graph::new();
        assert!(build(&g).updated().is_invalid());
        let errors = g.errors();
        assert_eq!(errors.len(), 1, "{i}: {errors:?}");
        let text = errors[0].to_string();
        assert!(
            text.contains("metrics.rs") && text.contains("[3]"),
            "{i}: {text}"
        );
        assert!(Session::new(&g).is_err());
    }
}

#[test]
fn a_probability_out_of_range_ends_the_step_of_an_auc() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let labels = g.constant([true, false]);
    let auc = metrics::auc(labels, x, Curve::Pr).build();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(auc.update(), [x.feed([0.0f32, 1.0])]).unwrap();
    for wrong in [[0.5, 1.5], [-0.25, 0.5], [f32::NAN, 0.0]] {
        let error = session.step(auc.update(), [x.feed(wrong)]).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("predictions must be from 0 to 1"),
            "{error}"
        );
    }
}

#[test]
fn a_class_out_of_range_ends_the_step_of_a_confusion_matrix() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::I64, [-1]);
    let matrix = metrics::confusion_matrix([0i64, 2], x, 3);
    let total = metrics::streaming_confusion_matrix([0i64, 2], x, 3).build();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let step = session
        .step((matrix, total.updated()), [x.feed([1i64, 2])])
        .unwrap();
    assert_eq!(step.slice::<i32>(0).unwrap(), [0, 1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(step.slice::<f64>(1).unwrap().iter().sum::<f64>(), 2.0);
    for wrong in [[3i64, 0], [-1, 0]] {
        assert!(session.step(matrix, [x.feed(wrong)]).is_err());
        assert!(session.step(total.update(), [x.feed(wrong)]).is_err());
    }
}

#[test]
fn a_target_among_the_largest_counts() {
    let g = Graph::new();
    let predictions = g.constant([[0.1f32, 0.7, 0.2], [0.5, 0.2, 0.3]]);
    let labels = g.constant([2i64, 1]);
    let top = [1, 2, 3].map(|k| metrics::top_k(labels, predictions, k).build());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let step = session.step(&top.map(|t| t.updated())[..], []).unwrap();
    let found: Vec<f32> = (0..3).map(|i| step.scalar::<f32>(i).unwrap()).collect();
    assert_eq!(found, [0.0, 0.5, 1.0]);
}
