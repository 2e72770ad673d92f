//! Accepted and rejected arguments of layers, beyond the comparisons with TensorFlow in `layer_cases`.

use thalweg::layers::{Regularizer, batch_norm, dense, depthwise_conv2d, dropout, losses};
use thalweg::prelude::*;

#[test]
fn depthwise_convolutions_take_explicit_padding() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 4, 4, 2]);
    let sides = Padding::Explicit([[1, 2], [0, 1]]);
    let y = depthwise_conv2d(3).padding(sides).on(x);
    assert_eq!(g.errors(), []);
    assert_eq!(y.shape(), Shape::from([-1, 5, 3, 2]));
}

#[test]
fn a_dense_layer_rejects_integers() {
    let g = Graph::new();
    dense(3).on(g.placeholder("ids", DType::I64, [-1, 4]));
    let said = g.errors()[0].to_string();
    assert!(said.contains("'dense'") && said.contains("i64"), "{said}");
}

#[test]
fn a_constant_channel_normalizes_to_beta_with_zero_epsilon() {
    let g = Graph::new();
    let y = batch_norm()
        .epsilon(0.0)
        .training(true)
        .on(g.constant(Tensor::new(&[2, 2, 2, 1], &[3.0f32; 8]).unwrap()));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    assert_eq!(session.run::<Vec<f32>>(y, []).unwrap(), [0.0; 8]);
}

#[test]
fn half_precision_losses_and_penalties_add_up() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F16, [2, 3]);
    let logits = dense(2).kernel_regularizer(Regularizer::L2(0.1)).on(x);
    let loss = losses::sparse_softmax_cross_entropy(vec![0i32, 1], logits).value();
    assert_eq!(loss.dtype(), DType::F16);
    assert_eq!(losses::total(&g).dtype(), DType::F16);
    assert_eq!(g.errors(), []);
}

#[test]
fn flatten_keeps_the_first_dimension_of_any_shape() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 2, 3]);
    assert_eq!(x.flatten().shape(), Shape::from([-1, 6]));
    let vague = g.placeholder("vague", DType::F32, [-1, -1, 2]);
    let session = Session::new(&g).unwrap();
    let rows = Tensor::zeros(DType::F32, &[3, 4, 2]).unwrap();
    let flat: Tensor = session.run(vague.flatten(), [vague.feed(rows)]).unwrap();
    assert_eq!(flat.dims(), [3, 8]);
}

#[test]
fn a_layer_without_variables_names_itself_in_its_scope() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2, 3]);
    g.variable_scope("encoder", || dropout(2.0).training(true).on(x));
    assert_eq!(g.errors()[0].node, "encoder/dropout");
}

#[test]
fn ftrl_rejects_arguments_out_of_range() {
    for (ftrl, what) in [
        (
            Ftrl::new(0.1).initial_accumulator(-1.0),
            "initial_accumulator is -1",
        ),
        (Ftrl::new(0.1).learning_rate_power(0.5), "at most 0"),
        (Ftrl::new(0.1).l2_shrinkage(-0.5), "l2_shrinkage is -0.5"),
    ] {
        let g = Graph::new();
        ftrl.minimize(g.variable("w", 1.0f32).value().square());
        let said = g.errors()[0].to_string();
        assert!(said.contains(what), "{said}");
    }
}
