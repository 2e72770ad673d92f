//! Metrics compared with TensorFlow's after each batch; shapes that metrics and losses accept.

use serde_json::Value as Json;
use thalweg::layers::metrics::{self, Curve, Metric, MetricBuilder};
use thalweg::prelude::*;
use thalweg_tests::golden::tensor;

use crate::losses::{for_each_recorded, placeholder_for, recorded, reduction, value};

fn metric<'g>(
    name: &str,
    arguments: &Json,
    labels: Option<Output<'g>>,
    predictions: Output<'g>,
) -> MetricBuilder<'g> {
    let number = |key: &str| arguments[key].as_i64().unwrap();
    let labels = labels.unwrap_or(predictions);
    match name {
        "mean" => metrics::mean(predictions),
        "accuracy" => metrics::accuracy(labels, predictions),
        "mean_squared_error" => metrics::mean_squared_error(labels, predictions),
        "precision" => metrics::precision(labels, predictions),
        "recall" => metrics::recall(labels, predictions),
        "auc" => {
            let roc = arguments["curve"] == "ROC";
            let curve = if roc { Curve::Roc } else { Curve::Pr };
            metrics::auc(labels, predictions, curve)
        }
        "mean_iou" => metrics::mean_iou(labels, predictions, number("num_classes") as usize),
        "confusion_matrix" => {
            let classes = number("num_classes") as usize;
            metrics::streaming_confusion_matrix(labels, predictions, classes)
        }
        "top_k" => metrics::top_k(labels, predictions, number("k") as i32),
        other => panic!("no metric is called {other}"),
    }
}

fn weighted<'g>(metric: MetricBuilder<'g>, weights: Option<Output<'g>>) -> Metric<'g> {
    match weights {
        Some(weights) => metric.weights(weights).build(),
        None => metric.build(),
    }
}

#[test]
fn metrics_match_tensorflow_after_each_batch() {
    for_each_recorded("metric", |case| {
        let g = Graph::new();
        let batches: Vec<[Option<Tensor>; 3]> = case["batches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|batch| [0, 1, 2].map(|i| recorded(&batch[i])))
            .collect();
        let places = [0, 1, 2].map(|i| {
            let first = batches[0][i].as_ref();
            first.map(|value| placeholder_for(&g, "x", value, false))
        });
        let [labels, predictions, weights] = places;
        let name = case["metric"].as_str().unwrap();
        let metric = metric(name, &case["arguments"], labels, predictions.unwrap());
        let metric = weighted(metric, weights);
        let session = Session::new(&g).unwrap_or_else(|e| panic!("{}: {e}", case["name"]));
        session.run(g.initializers(), []).unwrap();
        let now = || session.run::<Tensor>(metric.value(), []).unwrap();
        // The second time from a reset on.
        let mut results = Vec::new();
        for turn in ["first", "second"] {
            results.push((format!("{turn} start"), now(), tensor(&case["values"][0])));
            for (i, batch) in batches.iter().enumerate() {
                let given = places.iter().flatten().zip(batch.iter().flatten());
                let feeds: Vec<_> = given.map(|(p, value)| p.feed(value)).collect();
                // In one step: the value without the batch, and the value with it.
                let asked = (metric.update(), metric.value(), metric.updated());
                let step = session.step(asked, feeds);
                let step = step.unwrap_or_else(|e| panic!("{}: {e}", case["name"]));
                let [before, after] = [1, 2].map(|i| step.tensor(i).unwrap().clone());
                let [old, new] = [i, i + 1].map(|i| tensor(&case["values"][i]));
                results.push((format!("{turn} batch {i}: before"), before, old));
                results.push((
                    format!("{turn} batch {i}: updated"),
                    after.clone(),
                    new.clone(),
                ));
                results.push((format!("{turn} batch {i}: after"), now(), new));
                if !case["updates"].is_null() {
                    let update = tensor(&case["updates"][i]);
                    results.push((format!("{turn} batch {i}: update_op"), after, update));
                }
            }
            let variables = g.collection(metrics::METRIC_VARIABLES);
            let expected = case["variables"].as_object().unwrap();
            assert_eq!(variables.len(), expected.len(), "{}", case["name"]);
            for (name, value) in expected {
                let info = g.variables().into_iter().find(|v| v.name == *name);
                let info = info.unwrap_or_else(|| panic!("{}: no {name}", case["name"]));
                assert!(!info.trainable);
                assert!(variables.iter().any(|v| v.id() == info.value));
                let found = session.step(g.output(info.value), []).unwrap();
                let found = found.tensor(0).unwrap().clone();
                results.push((format!("{turn}: {name}"), found, tensor(value)));
            }
            session.run(metric.reset(), []).unwrap();
        }
        results
    });
}

#[test]
fn shapes_are_accepted_exactly_where_tensorflow_accepts_them() {
    for_each_recorded("fit", |case| {
        let g = Graph::new();
        let arrays = [tensor(&case["labels"]), tensor(&case["predictions"])];
        let weights = recorded(&case["weights"]);
        let [labels, predictions] = [0, 1].map(|i| placeholder_for(&g, "x", &arrays[i], true));
        let weight = weights
            .as_ref()
            .map(|w| placeholder_for(&g, "weights", w, true));
        let function = case["function"].as_str().unwrap();
        let by = reduction(case["reduction"].as_str().unwrap());
        let value = match function.strip_prefix("metrics/") {
            Some(name) => {
                let metric = metric(name, &Json::Null, Some(labels), predictions);
                weighted(metric, weight).updated()
            }
            None => value(function, &Json::Null, [labels, predictions], weight, by),
        };
        assert_eq!(
            value.is_invalid(),
            !g.errors().is_empty(),
            "{}",
            case["name"]
        );
        let Some(expected) = recorded(&case["value"]) else {
            // One mistake, which names both shapes.
            let errors = g.errors();
            assert_eq!(errors.len(), 1, "{}: {errors:?}", case["name"]);
            return Vec::new();
        };
        let session = Session::new(&g).unwrap_or_else(|e| panic!("{}: {e}", case["name"]));
        session.run(g.initializers(), []).unwrap();
        let mut feeds = vec![labels.feed(&arrays[0]), predictions.feed(&arrays[1])];
        feeds.extend(weight.iter().zip(&weights).map(|(p, w)| p.feed(w)));
        let found = session.step(value, feeds).unwrap();
        vec![(
            "value".to_owned(),
            found.tensor(0).unwrap().clone(),
            expected,
        )]
    });
}
