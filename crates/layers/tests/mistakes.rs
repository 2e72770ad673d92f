//! Mistakes in layers and variables name the line that made them, and how to correct them.

use thalweg_graph::{Graph, Output};
use thalweg_layers::{
    Initializer, Layer, Reuse, VariableScope, VariableScopes, Weights, batch_norm, conv2d,
    conv2d_transpose, dense, depthwise_conv2d, dropout, layer_norm,
};
use thalweg_ops::{ArrayOps, FlowOps, NewGraph, Padding, SourceOps, Variable};
use thalweg_tensor::{DType, Shape, Tensor};

/// The only mistake of `build` on a tensor of this shape: its layer, and the text.
#[track_caller]
fn mistake(
    shape: impl Into<Shape>,
    build: impl for<'g> Fn(Output<'g>) -> Output<'g>,
) -> (String, String) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, shape);
    let y = build(x);
    assert!(y.is_invalid());
    // Nodes built on it add none.
    assert!(dense(1).on(y + 1.0).is_invalid());
    let errors = g.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let origin = errors[0].origin.to_string();
    assert!(origin.contains("mistakes.rs"), "{origin}");
    (errors[0].node.clone(), errors[0].reason.to_string())
}

#[test]
fn invalid_inputs_are_mistakes_of_the_layer() {
    let (name, text) = mistake([-1, -1], |x| dense(3).named("fc").on(x));
    assert_eq!(name, "fc");
    assert_eq!(
        text,
        "its input has shape [?,?]: the number of channels must be known to make its weights"
    );
    let (name, text) = mistake(Shape::unknown(), |x| dense(3).on(x));
    assert_eq!(name, "dense");
    assert_eq!(
        text,
        "its input has shape <unknown>, but must have 2 dimensions or more"
    );
    let (name, text) = mistake([1, 28, 28], |x| conv2d(3, 5).on(x));
    assert_eq!(name, "conv2d");
    assert_eq!(
        text,
        "its input has shape [1,28,28], but must have 4 dimensions"
    );
    let (name, _) = mistake([-1, -1], |x| layer_norm().on(x));
    assert_eq!(name, "layer_normalization");
    let (name, _) = mistake([7], |x| batch_norm().on(x));
    assert_eq!(name, "batch_normalization");
}

#[test]
fn conflicting_options_are_mistakes_of_the_layer() {
    let shape = [1, 8, 8, 2];
    let (_, text) = mistake(shape, |x| conv2d(3, 5).multiplier(2).on(x));
    assert!(
        text.starts_with("only depthwise and separable convolutions"),
        "{text}"
    );
    let (_, text) = mistake(shape, |x| conv2d_transpose(3, 5).dilation(2).on(x));
    assert_eq!(text, "a transposed convolution takes no dilation");
    let explicit = Padding::Explicit([[1, 1], [1, 1]]);
    let (_, text) = mistake(shape, |x| conv2d_transpose(3, 5).padding(explicit).on(x));
    assert_eq!(
        text,
        "a transposed convolution takes Padding::Same or Padding::Valid"
    );
    for rate in [1.0, -0.1, f64::NAN] {
        let (name, text) = mistake(shape, |x| dropout(rate).training(true).on(x));
        assert_eq!(name, "dropout");
        assert!(
            text.ends_with("it must be 0 or more, and below 1"),
            "{text}"
        );
    }
    let (_, text) = mistake(shape, |x| batch_norm().training(1i32).on(x));
    assert_eq!(
        text,
        "training is i32 of shape []: it must be a bool, or a scalar of bool"
    );
    // The op itself refuses this one.
    let (name, _) = mistake(shape, |x| depthwise_conv2d(9).on(x));
    assert_eq!(name, "depthwise_conv2d/DepthwiseConv2dNative");
}

/// The only mistake of a variable.
#[track_caller]
fn of_variable(build: impl for<'g> Fn(&'g Graph) -> Variable<'g>) -> (String, String) {
    let g = Graph::new();
    let made = build(&g);
    assert!(made.handle().is_invalid() && (made + 1.0).is_invalid());
    let errors = g.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    (errors[0].node.clone(), errors[0].reason.to_string())
}

#[test]
fn a_variable_names_the_line_where_it_was_made_before() {
    let line = line!() + 2;
    let (name, text) = of_variable(|g| {
        g.variable_scope("m", || g.get_variable("w", [2]).build());
        g.variable_scope("m", || g.get_variable("w", [2]).build())
    });
    assert_eq!(name, "m/w");
    assert_eq!(
        text,
        format!(
            "it was made before, at {}:{line}: to share it, enter its variable scope with \
             Reuse::Yes or Reuse::Auto",
            file!()
        )
    );
    let line = line!() + 3;
    let (name, text) = of_variable(|g| {
        let x = g.placeholder("x", DType::F32, [1, 4]);
        dense(2).named("fc").on(x);
        let scope = g.current_variable_scope().reuse(Reuse::Auto);
        g.variable_scope(scope, || g.get_variable("fc/kernel", [4, 3]).build())
    });
    assert_eq!(name, "fc/kernel");
    let (asked, made) = ("is asked for with shape [4,3]", "was made with shape [4,2]");
    assert_eq!(
        text,
        format!("it {asked}, but {made}, at {}:{line}", file!())
    );
}

#[test]
fn invalid_initial_values_are_mistakes_of_the_variable() {
    let (_, text) = of_variable(|g| {
        let one = Initializer::Tensor(Tensor::vector(&[1.0f32]));
        g.get_variable("w", [2]).initializer(one).build()
    });
    assert!(
        text.contains("is f32 of shape [1], but it is to be f32 of shape [2]"),
        "{text}"
    );
    let (_, text) = of_variable(|g| g.get_variable("w", [-1, 2]).build());
    assert_eq!(text, "it has shape [?,2], but a variable needs a known one");
    let (_, text) = of_variable(|g| {
        let scaled = Initializer::variance_scaling(
            0.0,
            thalweg_layers::initializers::Fan::In,
            thalweg_layers::initializers::Distribution::Normal,
        );
        g.get_variable("w", [2]).initializer(scaled).build()
    });
    assert_eq!(
        text,
        "the scale of its initializer is 0: it must be above 0"
    );
    let (_, text) = of_variable(|g| {
        g.get_variable("w", [2])
            .initializer(Initializer::orthogonal(1.0))
            .build()
    });
    assert!(
        text.contains("two dimensions or more, not of shape [2]"),
        "{text}"
    );
    let (_, text) = of_variable(|g| {
        let half = Initializer::Constant(0.5);
        g.get_variable("w", [2])
            .dtype(DType::I32)
            .initializer(half)
            .build()
    });
    assert!(text.starts_with("0.5 is no value of i32"), "{text}");
    // Its dtype may come from the initial value.
    let g = Graph::new();
    let ids = Initializer::Tensor(Tensor::vector(&[1i32, 2]));
    let ids = g.get_variable("ids", [2]).initializer(ids).build();
    assert_eq!(ids.value().dtype(), DType::I32);
}

#[test]
fn a_scope_with_a_unique_name_reuses_nothing() {
    let g = Graph::new();
    g.variable_scope(VariableScope::unique("a").reuse(Reuse::Yes), || {});
    let text = g.errors()[0].to_string();
    assert!(text.ends_with("name the scope to be reused"), "{text}");
}

#[test]
fn a_variable_is_not_made_inside_of_a_branch_but_used_there() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [1, 3]);
    let pred = g.placeholder("pred", DType::Bool, []);
    let zero = || vec![x.zeros_like().slice([0, 0], [1, 2])];
    g.variable_scope(VariableScope::new("m").reuse(Reuse::Auto), || {
        let first = dense(2).named("fc").on(x);
        let again = g.cond(pred, |_| vec![dense(2).named("fc").on(x)], |_| zero());
        assert_eq!(again[0].shape(), first.shape());
        assert_eq!(g.errors(), []);
        g.cond(pred, |_| vec![dense(2).on(x)], |_| zero());
    });
    let errors = g.errors();
    assert_eq!(errors[0].node, "m/dense/kernel");
    let text = errors[0].to_string();
    assert!(
        text.contains("get it before, and use its value there"),
        "{text}"
    );
    assert_eq!(g.variables().len(), 2);
}

#[test]
fn a_scope_is_left_by_a_panic_too() {
    let g = Graph::new();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        g.variable_scope("a", || panic!("on purpose"))
    }));
    assert!(panicked.is_err());
    assert_eq!(g.current_variable_scope().name(), "");
    assert_eq!(g.get_variable("w", [2]).build().handle().name(), "w:0");
}
