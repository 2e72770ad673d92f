//! Mistakes in building a graph: each is kept with its source line, nodes built on it add no further ones, and it is
//! reported when a session is made.

use thalweg::graph::{GraphError, Origin, Reason};
use thalweg::prelude::*;

/// Returns the only mistake of a graph, and checks that a session reports it.
#[track_caller]
fn only_mistake(g: &Graph) -> GraphError {
    let errors = g.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let error = errors[0].clone();
    match Session::new(g).map(drop) {
        Err(SessionError::Graph { first, count: 1 }) => assert_eq!(*first, error),
        other => panic!("{other:?}"),
    }
    let text = error.to_string();
    assert!(text.contains("tests/engine/graph_errors.rs:"), "{text}");
    error
}

#[test]
fn a_mistake_names_the_line_that_made_it() {
    let g = Graph::new();
    let (a, b) = (g.constant([1.0f32, 2.0]), g.constant([1.0f32, 2.0, 3.0]));
    let line = line!() + 1;
    let sum = a + b;
    assert!(sum.is_invalid());
    let error = only_mistake(&g);
    let Origin::Line(origin) = error.origin else {
        panic!("{:?}", error.origin);
    };
    assert_eq!(origin.line(), line);
    assert_eq!((error.node.as_str(), error.op.as_str()), ("AddV2", "AddV2"));
    assert!(matches!(error.reason, Reason::Infer(_)));
}

#[test]
fn nodes_built_on_a_mistake_add_no_further_mistakes() {
    let g = Graph::new();
    let wrong = g.constant([1.0f32, 2.0]) + g.constant([1.0f32, 2.0, 3.0]);
    let more = (-wrong * 2.0).square().named("more");
    let w = g.variable("w", 1.0f32);
    let update = w.assign_add(more);
    assert!(more.is_invalid() && update.is_invalid());
    assert!(gradients(&[more], &[w.handle()])[0].unwrap().is_invalid());
    assert!(g.variable("v", more).handle().is_invalid());
    assert_eq!(more.name(), "<invalid>:0");
    only_mistake(&g);
}

#[test]
fn a_session_reports_the_number_of_mistakes() {
    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0]);
    for _ in 0..3 {
        let _ = x + g.constant([1.0f32, 2.0, 3.0]);
    }
    let error = Session::new(&g).map(drop).unwrap_err();
    assert!(matches!(error, SessionError::Graph { count: 3, .. }));
    assert!(error.to_string().contains("and 2 more mistakes"), "{error}");
}

#[test]
fn messages_use_the_singular_and_no_article_before_a_dtype() {
    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0]);
    g.op("Tanh").input(x).input(x).build();
    g.constant(1i32).constant_like(0.5);
    g.op("Cast").input(x).attr("DstT", 1i64).build();
    let said: Vec<String> = g.errors().iter().map(|e| e.reason.to_string()).collect();
    assert_eq!(
        said,
        [
            "it takes 1 input, not 2",
            "0.5 is a float and the tensor is i32: write a whole number, or Cast the tensor",
            "attribute DstT is of kind int, but must be of kind type",
        ]
    );

    let g = Graph::new();
    for _ in 0..2 {
        let _ = g.constant([1.0f32, 2.0]) + g.constant([1.0f32, 2.0, 3.0]);
    }
    let error = Session::new(&g).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with("(and 1 more mistake in this graph)"),
        "{text}"
    );

    let error = Tensor::new(&[1], &[1.0f32, 2.0]).unwrap_err();
    assert!(
        error.to_string().contains("needs 1 element, not 2"),
        "{error}"
    );
}

#[test]
fn a_mistake_after_the_session_is_reported_with_the_next_plan() {
    let g = Graph::new();
    let x = g.constant(1.0f32);
    let session = Session::new(&g).unwrap();
    session.step(x, []).unwrap();
    let wrong = g.constant([1.0f32, 2.0]) + g.constant([1.0f32, 2.0, 3.0]);
    assert!(matches!(
        session.step(wrong, []).unwrap_err(),
        SessionError::Graph { .. }
    ));
    session.step(x, []).unwrap();
}

#[test]
fn mixed_dtypes_are_rejected() {
    let g = Graph::new();
    let _ = g.constant(1.0f32) + g.constant(1i32);
    let error = only_mistake(&g);
    assert!(matches!(
        error.reason,
        Reason::InputType {
            input: 1,
            expected: DType::F32,
            found: DType::I32,
            ..
        }
    ));
    assert!(error.to_string().contains("Cast"), "{error}");
}

#[test]
fn a_constant_outside_its_dtypes_range_is_rejected() {
    let g = Graph::new();
    let _ = g.constant(1i32) * 1.5;
    assert!(only_mistake(&g).to_string().contains("1.5"));
    let g = Graph::new();
    let _ = g.constant(1u8) + 256.0;
    assert!(only_mistake(&g).to_string().contains("u8"));
    let g = Graph::new();
    let _ = g.constant(1i64) + f64::NAN;
    only_mistake(&g);
}

#[test]
fn unknown_ops_and_attributes_are_named() {
    let g = Graph::new();
    g.op("MatMull").input(g.constant(1.0f32)).build();
    let error = only_mistake(&g);
    assert_eq!(
        error.reason,
        Reason::UnknownOp {
            nearest: Some("MatMul")
        }
    );
    assert!(
        error.to_string().contains("did you mean MatMul?"),
        "{error}"
    );

    let g = Graph::new();
    g.op("Neg")
        .input(g.constant(1.0f32))
        .attr("speed", 3i64)
        .build();
    assert!(matches!(only_mistake(&g).reason, Reason::UnknownAttr { attr } if attr == "speed"));

    let g = Graph::new();
    g.op("Placeholder").build();
    assert!(matches!(
        only_mistake(&g).reason,
        Reason::MissingAttr { attr: "dtype" }
    ));

    let g = Graph::new();
    g.op("Placeholder").attr("dtype", 3i64).build();
    assert!(matches!(
        only_mistake(&g).reason,
        Reason::AttrKind { attr: "dtype", .. }
    ));

    let g = Graph::new();
    let t = g.op("MatMul").attr("transpose_a", 1i64);
    t.input(g.constant([[1.0f32]]))
        .input(g.constant([[1.0f32]]))
        .build();
    assert!(matches!(
        only_mistake(&g).reason,
        Reason::AttrKind {
            attr: "transpose_a",
            ..
        }
    ));
}

#[test]
fn a_wrong_number_of_inputs_is_rejected() {
    for count in [0usize, 1, 3] {
        let g = Graph::new();
        let x = g.constant(1.0f32);
        g.op("AddV2").inputs(std::iter::repeat_n(x, count)).build();
        assert_eq!(
            only_mistake(&g).reason,
            Reason::InputCount {
                expected: 2,
                found: count
            }
        );
    }
}

#[test]
fn a_missing_output_as_input_is_rejected() {
    let g = Graph::new();
    let x = g.constant(1.0f32).operation();
    let _ = -x.output(1);
    assert!(only_mistake(&g).to_string().contains("Const:1"));
}

#[test]
fn nodes_of_another_graph_are_rejected() {
    let (g, other) = (Graph::new(), Graph::new());
    let strangers: Vec<_> = (0..9).map(|_| other.constant(1.0f32)).collect();
    let stranger = strangers[8];
    let _ = g.constant(1.0f32) + stranger;
    assert_eq!(only_mistake(&g).reason, Reason::OtherGraph { input: 1 });

    let g = Graph::new();
    g.op("NoOp").control(stranger).build();
    assert!(matches!(only_mistake(&g).reason, Reason::OtherGraph { .. }));

    let g = Graph::new();
    g.control_dependencies([stranger], || g.constant(1.0f32));
    assert!(matches!(only_mistake(&g).reason, Reason::OtherGraph { .. }));

    for part in 0..4 {
        let g = Graph::new();
        let x = g.constant(1.0f32);
        let y = x.square();
        let at = |i: usize, own| if i == part { stranger } else { own };
        let _ = gradients_with(
            &[y, at(0, y)],
            &[at(1, x)],
            &[None, Some(at(2, x))],
            &[at(3, x)],
        );
        assert!(
            matches!(only_mistake(&g).reason, Reason::OtherGraph { .. }),
            "part {part}"
        );
    }
}

#[test]
fn invalid_characters_in_names_are_rejected() {
    for bad in ["a b", "é", "_x", "a:0", ""] {
        let g = Graph::new();
        let x = g.constant(1.0f32);
        assert!(x.named(bad).is_invalid(), "{bad:?}");
        assert_eq!(only_mistake(&g).reason, Reason::Name, "{bad:?}");
    }
    let g = Graph::new();
    g.name_scope("bad scope", || g.constant(1.0f32));
    assert_eq!(only_mistake(&g).reason, Reason::Name);
}

#[test]
fn a_finalized_graph_grows_only_inside_extend() {
    let g = Graph::new();
    let x = g.constant(1.0f32);
    g.finalize();
    let y = g.extend(|| x + 1.0);
    assert!(!y.is_invalid() && g.is_finalized() && g.errors().is_empty());
    let sum: f32 = Session::new(&g).unwrap().run(y, []).unwrap();
    assert_eq!(sum, 2.0);
    assert!((-x).is_invalid());
    let error = only_mistake(&g);
    assert_eq!(error.reason, Reason::Finalized);
    assert!(error.to_string().contains("extend"), "{error}");
}

#[test]
fn gradients_of_integers_are_rejected() {
    let g = Graph::new();
    let x = g.constant(2i32);
    let _ = gradients(&[x.square()], &[x]);
    let error = only_mistake(&g);
    assert_eq!(
        error.reason,
        Reason::NotDifferentiable { found: DType::I32 }
    );

    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0]);
    let wrong = g.constant([1.0f32, 2.0, 3.0]);
    let _ = gradients_with(&[x.square()], &[x], &[Some(wrong)], &[]);
    assert!(matches!(
        only_mistake(&g).reason,
        Reason::GradientShape { .. }
    ));
}

#[test]
fn a_variable_needs_a_known_shape_and_a_fitting_value() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    assert!(g.variable("v", x).handle().is_invalid());
    assert!(only_mistake(&g).to_string().contains("known"));

    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    v.assign([1.0f32, 2.0, 3.0]);
    assert!(matches!(only_mistake(&g).reason, Reason::Infer(_)));

    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    v.assign_add([1.0f64, 2.0]);
    only_mistake(&g);
}
