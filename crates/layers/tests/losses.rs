//! Mistakes of losses, and the names of their nodes.

use thalweg_graph::{Graph, gradients};
use thalweg_layers::losses::{self, Reduction};
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::{DType, Shape};

/// The only mistake of the graph, as text.
fn mistake(g: &Graph) -> String {
    let errors = g.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].to_string()
}

#[test]
fn a_loss_has_its_own_scope_and_is_in_the_collection() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let first = losses::hinge_loss([0, 1], x).value();
    let second = g.name_scope("tower", || losses::hinge_loss([0, 1], x).value());
    let third = losses::hinge_loss([0, 1], x);
    let named: Vec<String> = g.collection("losses").iter().map(|l| l.name()).collect();
    assert_eq!(named, ["hinge_loss/value:0", "tower/hinge_loss/value:0"]);
    assert_eq!(
        (first.shape(), second.shape()),
        (Shape::scalar(), Shape::scalar())
    );
    // A loss whose value is not taken is not in the graph's collection.
    drop(third);
    assert_eq!(g.collection("losses").len(), 2);
    assert!(g.find("hinge_loss_1/value").is_none());
}

#[test]
fn labels_of_another_shape_are_a_mistake_at_the_callers_line() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [4, 2]);
    let line = line!() + 1;
    let loss = losses::mean_squared_error([1.0f32, 2.0], x);
    assert!(loss.weights(2.0f32).value().is_invalid());
    let text = mistake(&g);
    assert!(
        text.contains("labels have shape [2]") && text.contains("[4,2]"),
        "{text}"
    );
    assert!(text.contains(&format!("losses.rs:{line}")), "{text}");
    assert!(g.collection(losses::LOSSES).is_empty());
}

#[test]
fn weights_that_do_not_fit_are_a_mistake_with_both_shapes() {
    for (weights, why) in [
        (
            vec![1.0f32; 3],
            "each dimension must be 1 or that of the values",
        ),
        (
            vec![1.0f32; 5],
            "each dimension must be 1 or that of the values",
        ),
    ] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [2]);
        let shape = format!("[{}]", weights.len());
        losses::absolute_difference([1, 2], x)
            .weights(weights)
            .value();
        let text = mistake(&g);
        assert!(text.contains("absolute_difference/weights"), "{text}");
        assert!(
            text.contains(&shape) && text.contains("of shape [2]") && text.contains(why),
            "{text}"
        );
    }
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [4, 2]);
    let loss = losses::absolute_difference(x, x).weights([1.0f32, 2.0]);
    let line = line!() + 1;
    loss.value();
    let text = mistake(&g);
    assert!(
        text.contains("[2]") && text.contains("[4,2]") && text.contains("same rank"),
        "{text}"
    );
    assert!(text.contains(&format!("losses.rs:{line}")), "{text}");
}

#[test]
fn weights_of_unknown_rank_are_a_mistake() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [4]);
    let weights = g.placeholder("weights", DType::F32, Shape::unknown());
    losses::absolute_difference(x, x).weights(weights).value();
    assert!(mistake(&g).contains("ranks must be known"));
}

#[test]
fn weights_that_turn_out_not_to_fit_end_the_step() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let weights = g.placeholder("weights", DType::F32, [-1]);
    let loss = losses::absolute_difference(x, x).weights(weights);
    let loss = loss.reduction(Reduction::Sum).value();
    let session = Session::new(&g).unwrap();
    let run = |x_of: usize, weights_of: usize| {
        let feeds = [
            x.feed(vec![1.0f32; x_of]),
            weights.feed(vec![1.0f32; weights_of]),
        ];
        session.step(loss, feeds).map(|_| ())
    };
    run(4, 4).unwrap();
    run(4, 1).unwrap();
    // A product would accept both of these, or the second.
    assert!(run(4, 3).is_err());
    assert!(run(1, 4).is_err());
}

#[test]
fn a_smoothing_outside_0_to_1_is_a_mistake() {
    for share in [-0.1, 1.5, f64::NAN] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [2, 3]);
        let loss = losses::softmax_cross_entropy(x, x).label_smoothing(share);
        assert!(loss.weights(2.0f32).value().is_invalid());
        let text = mistake(&g);
        assert!(
            text.contains("label smoothing") && text.contains("from 0 to 1"),
            "{text}"
        );
        assert!(text.contains("losses.rs"), "{text}");
    }
}

#[test]
fn a_graph_without_losses_has_no_total() {
    let g = Graph::new();
    assert!(losses::total(&g).is_invalid());
    assert!(mistake(&g).contains("has no losses"));
    let none = losses::regularization(&g);
    assert_eq!(none.dtype(), DType::F32);
}

#[test]
fn losses_have_the_dtypes_of_tensorflows() {
    for (dtype, of) in [
        (DType::F16, DType::F32),
        (DType::BF16, DType::F32),
        (DType::F32, DType::F32),
        (DType::F64, DType::F64),
    ] {
        let g = Graph::new();
        let x = g.placeholder("x", dtype, [2, 3]);
        let all = [
            losses::mean_squared_error(x, x).value(),
            losses::softmax_cross_entropy(x, x).weights(0.5f32).value(),
            losses::sigmoid_cross_entropy(x, x).value(),
            losses::sparse_softmax_cross_entropy([0, 1], x).value(),
            losses::mean_pairwise_squared_error(x, x, 1),
            losses::compute_weighted_loss(x).weights(3).value(),
        ];
        assert!(g.errors().is_empty(), "{:?}", g.errors());
        // Cross entropies and weighted losses return to the dtype of their inputs.
        let expected = [of, dtype, dtype, dtype, of, dtype];
        assert_eq!(all.map(|loss| loss.dtype()), expected);
        assert_eq!(gradients(&all[..1], &[x])[0].unwrap().dtype(), dtype);
    }
}

#[test]
fn no_gradient_reaches_the_labels_of_a_softmax() {
    let g = Graph::new();
    let (labels, x) = (
        g.variable("labels", [[0.5f32, 0.5]]),
        g.variable("x", [[1.0f32, 2.0]]),
    );
    let loss = losses::softmax_cross_entropy(labels.value(), x).value();
    let found = gradients(&[loss], &[labels.value(), x.value()]);
    assert!(found[0].is_none() && found[1].is_some());
}
