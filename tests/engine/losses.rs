//! Losses compared with TensorFlow's: values and gradients.

use serde_json::Value as Json;
use thalweg::layers::losses::{self, Loss, Reduction};
use thalweg::prelude::*;
use thalweg_tests::golden::{Tolerance, difference, lines, tensor};

/// The recorded cases of a kind.
fn cases(kind: &str) -> Vec<Json> {
    let mut cases = lines("losses.jsonl.gz");
    cases.retain(|case| case["kind"] == kind);
    assert!(!cases.is_empty(), "no case is of kind {kind}");
    cases
}

/// Runs `check` on each recorded case of a kind; panics with all differences.
pub(super) fn for_each_recorded(
    kind: &str,
    check: impl Fn(&Json) -> Vec<(String, Tensor, Tensor)>,
) {
    let mut wrong = Vec::new();
    for case in &cases(kind) {
        let number = |key: &str| case["tolerance"][key].as_f64().unwrap();
        let tolerance = Tolerance {
            rel: number("rel"),
            abs: number("abs"),
        };
        for (what, found, expected) in check(case) {
            if let Some(text) = difference(&found, &expected, tolerance) {
                wrong.push(format!("{}: {what}: {text}", case["name"]));
            }
        }
    }
    let count = wrong.len();
    wrong.truncate(20);
    assert!(count == 0, "{count} differ:\n{}", wrong.join("\n"));
}

/// A placeholder for a recorded tensor, with known or unknown dimensions.
pub(super) fn placeholder_for<'g>(
    g: &'g Graph,
    name: &str,
    value: &Tensor,
    known: bool,
) -> Output<'g> {
    let shape = match known {
        true => value.shape(),
        false => Shape::of_rank(value.dims().len()),
    };
    g.placeholder(name, value.dtype(), shape)
}

pub(super) fn recorded(value: &Json) -> Option<Tensor> {
    (!value.is_null()).then(|| tensor(value))
}

pub(super) fn reduction(name: &str) -> Reduction {
    match name {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        "sum_over_batch_size" => Reduction::SumOverBatchSize,
        "sum_over_nonzero_weights" => Reduction::SumOverNonzeroWeights,
        "mean" => Reduction::Mean,
        other => panic!("no reduction is called {other}"),
    }
}

/// The loss of this name, weighted and reduced.
pub(super) fn value<'g>(
    name: &str,
    arguments: &Json,
    [labels, predictions]: [Output<'g>; 2],
    weights: Option<Output<'g>>,
    by: Reduction,
) -> Output<'g> {
    let number = |key: &str| arguments[key].as_f64().unwrap_or(0.0);
    let smoothing = number("label_smoothing");
    let loss: Loss<'g> = match name {
        "absolute_difference" => losses::absolute_difference(labels, predictions),
        "mean_squared_error" => losses::mean_squared_error(labels, predictions),
        "huber_loss" => losses::huber_loss(labels, predictions, number("delta")),
        "hinge_loss" => losses::hinge_loss(labels, predictions),
        "log_loss" => losses::log_loss(labels, predictions, number("epsilon")),
        "cosine_distance" => losses::cosine_distance(labels, predictions, number("axis") as i32),
        "sigmoid_cross_entropy" => {
            losses::sigmoid_cross_entropy(labels, predictions).label_smoothing(smoothing)
        }
        "softmax_cross_entropy" => {
            losses::softmax_cross_entropy(labels, predictions).label_smoothing(smoothing)
        }
        "sparse_softmax_cross_entropy" => losses::sparse_softmax_cross_entropy(labels, predictions),
        "mean_pairwise_squared_error" => {
            let one = predictions.graph().constant(1.0f32);
            let weights = weights.unwrap_or(one);
            return losses::mean_pairwise_squared_error(labels, predictions, weights);
        }
        other => panic!("no loss is called {other}"),
    };
    let loss = loss.reduction(by);
    match weights {
        Some(weights) => loss.weights(weights).value(),
        None => loss.value(),
    }
}

#[test]
fn losses_and_their_gradients_match_tensorflow() {
    for known in [true, false] {
        for_each_recorded("loss", |case| {
            let g = Graph::new();
            let arrays = [tensor(&case["labels"]), tensor(&case["predictions"])];
            let weights = recorded(&case["weights"]);
            let places = [0, 1].map(|i| placeholder_for(&g, "x", &arrays[i], known));
            let weight = weights
                .as_ref()
                .map(|w| placeholder_for(&g, "weights", w, known));
            let by = reduction(case["reduction"].as_str().unwrap());
            let name = case["loss"].as_str().unwrap();
            let value = value(name, &case["arguments"], places, weight, by);
            let session = Session::new(&g).unwrap_or_else(|e| panic!("{}: {e}", case["name"]));
            assert_eq!(g.collection(losses::LOSSES).len(), 1);

            let mut feeds: Vec<_> = places.iter().zip(&arrays).map(|(p, a)| p.feed(a)).collect();
            feeds.extend(weight.iter().zip(&weights).map(|(p, w)| p.feed(w)));
            let mut asked = vec![("value", value)];
            asked.push(("gradient", gradients(&[value], &places[1..])[0].unwrap()));
            if !case["weights_gradient"].is_null() {
                let gradient = gradients(&[value], &[weight.unwrap()])[0].unwrap();
                asked.push(("weights_gradient", gradient));
            }
            let outputs: Vec<Output<'_>> = asked.iter().map(|a| a.1).collect();
            let found: Result<Vec<Tensor>, _> = session.run(&outputs, feeds);
            let found = found.unwrap_or_else(|e| panic!("{}: {e}", case["name"]));
            asked
                .iter()
                .enumerate()
                .map(|(i, (key, _))| {
                    let found = found[i].clone();
                    (format!("{key}, known {known}"), found, tensor(&case[key]))
                })
                .collect()
        });
    }
}

#[test]
fn the_total_loss_sums_losses_and_regularization() {
    for_each_recorded("total", |case| {
        let g = Graph::new();
        for (key, numbers) in case["collections"].as_object().unwrap() {
            for number in numbers.as_array().unwrap() {
                let value = g.constant(number.as_f64().unwrap() as f32);
                g.add_to_collection(key, value);
            }
        }
        let both = [losses::total(&g), losses::regularization(&g)];
        let found: [Tensor; 2] = Session::new(&g).unwrap().run(both, []).unwrap();
        ["total", "regularization"]
            .iter()
            .enumerate()
            .map(|(i, key)| {
                let found = found[i].clone();
                ((*key).to_owned(), found, tensor(&case[key]))
            })
            .collect()
    });
}
