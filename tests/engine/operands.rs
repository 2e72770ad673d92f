//! Operands of builder methods: numbers, ranges and slices, names.

use thalweg::graph::Reason;
use thalweg::ops::{NewAxis, Part, Rest};
use thalweg::prelude::*;

fn value(x: Output<'_>) -> Tensor {
    assert_eq!(x.graph().errors(), []);
    Session::new(x.graph()).unwrap().run(x, []).unwrap()
}

#[test]
fn a_literal_takes_the_tensors_dtype_on_either_side() {
    let g = Graph::new();
    let i = g.constant([1i32, 2]);
    let l = g.constant([1i64, 2]);
    let f = g.constant([1.0f32, 2.0]);
    let d = g.constant([1.0f64, 2.0]);
    assert_eq!(value(i + 1), Tensor::from([2i32, 3]));
    assert_eq!(value(1 - l), Tensor::from([0i64, -1]));
    assert_eq!(value(2.0 * f), Tensor::from([2.0f32, 4.0]));
    assert_eq!(value((2 * f).square() / 2), Tensor::from([2.0f32, 8.0]));
    assert_eq!(value(d - 0.5), Tensor::from([0.5f64, 1.5]));
    // A literal is an `f64` or an `i32` of Rust's, whatever the tensor's dtype is.
    assert_eq!(value(f.maximum(1.5)), Tensor::from([1.5f32, 2.0]));
    assert_eq!(value(f.pow(2)), Tensor::from([1.0f32, 4.0]));
    assert_eq!(value(l.floor_mod(2)), Tensor::from([1i64, 0]));
    let large = f.greater(1.5).select(f, 0);
    assert_eq!(value(large), Tensor::from([0.0f32, 2.0]));
    let small = f.greater(1.5).select(-1.0, f);
    assert_eq!(value(small), Tensor::from([1.0f32, -1.0]));
    let w = g.variable("w", [1.0f32, 2.0]);
    assert_eq!((w + 1).dtype(), DType::F32);
}

#[test]
fn numbers_in_variables_of_the_program_and_methods_of_a_value_need_no_conversion() {
    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0]);
    let w = g.variable("w", [3.0f32, 5.0]);
    let (rate, count) = (0.5f32, 2i64);
    let y = (x * rate).square() + w.square() * count - 0.5 * w / 1;
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let y: Vec<f32> = session.run(y, []).unwrap();
    assert_eq!(y, [0.25 + 18.0 - 1.5, 1.0 + 50.0 - 2.5]);
    let wide = g.constant([1.0f64]) * 0.1f32;
    assert_eq!(value(wide), Tensor::from([f64::from(0.1f32)]));
}

#[test]
fn a_literal_outside_the_dtype_is_a_mistake_with_advice() {
    let said = |build: &dyn for<'g> Fn(&'g Graph) -> Output<'g>| {
        let g = Graph::new();
        assert!(build(&g).is_invalid());
        match &g.errors()[..] {
            [error] => match &error.reason {
                Reason::Argument(text) => text.clone(),
                other => panic!("{other}"),
            },
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        said(&|g| g.constant([1i32]) * 2.0),
        "2.0 is a float and the tensor is i32: write a whole number, or Cast the tensor"
    );
    assert_eq!(said(&|g| g.constant([1u8]) + 256), "256 is no value of u8");
    assert_eq!(said(&|g| g.constant(true) + 1), "1 is no value of bool");
}

#[test]
fn typed_operands_keep_their_dtype() {
    let g = Graph::new();
    let f = g.constant([1.0f32, 2.0]);
    assert!((f + g.constant(1.0f64)).is_invalid());
    assert!(f.maximum([1.0f64, 2.0]).is_invalid());
    assert!(f.maximum(1i64).is_invalid(), "an i64 is no literal");
}

#[test]
fn slices_are_taken_by_numbers_and_ranges() {
    let g = Graph::new();
    let x = g
        .constant((0..24i32).collect::<Vec<_>>())
        .reshape([2, 3, 4]);
    let elements = |y: Output<'_>| {
        let y = value(y);
        (y.dims().to_vec(), y.to_vec::<i32>().unwrap())
    };
    assert_eq!(elements(x.at((1, 2, 3))), (vec![], vec![23]));
    assert_eq!(elements(x.at((-1, -1, -1))), (vec![], vec![23]));
    assert_eq!(elements(x.at((0, 1..3, 2))), (vec![2], vec![6, 10]));
    assert_eq!(elements(x.at((0, 1, 1..=2))), (vec![2], vec![5, 6]));
    assert_eq!(
        elements(x.at((0, 1, Part::between(2, -1)))),
        (vec![1], vec![6])
    );
    assert_eq!(elements(x.at((.., 0, ..1))), (vec![2, 1], vec![0, 12]));
    assert_eq!(
        elements(x.at((Rest, 3))),
        (vec![2, 3], vec![3, 7, 11, 15, 19, 23])
    );
    assert_eq!(elements(x.at((0, NewAxis, 0))).0, [1, 4]);
    let back = Part::from(..).step_by(-1);
    assert_eq!(elements(x.at((0, back, 0))), (vec![3], vec![8, 4, 0]));
    let row: usize = 1;
    assert_eq!(elements(x.at((row, row..2, 3i64))), (vec![1], vec![19]));
    let unknown = g.placeholder("unknown", DType::F32, [None, Some(4)]);
    assert_eq!(unknown.at((0, ..)).shape(), Shape::from([4]));
}

#[test]
fn a_slice_out_of_range_is_a_mistake_at_its_line() {
    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0]);
    let line = line!() + 1;
    assert!(x.at(2).is_invalid());
    let error = &g.errors()[0];
    assert!(
        error
            .origin
            .to_string()
            .ends_with(&format!("operands.rs:{line}")),
        "{error}"
    );
}

#[test]
fn named_renames_an_unnamed_node() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let y = g.name_scope("model", || (x * x + 1).named("y"));
    assert_eq!(y.name(), "model/y:0");
    assert_eq!(g.snapshot().node(y.id().node).op.name, "AddV2");
    assert!(g.find("model/AddV2").is_none());
    // Unique names are counted as if the node had had this name from the start.
    assert_eq!((x + x).named("z").name(), "z:0");
    assert_eq!((x + x).name(), "AddV2:0");
    // A node that has a name, or is not the last one, keeps its own.
    let w = y.named("again");
    assert_eq!((y.name(), w.name()), ("model/y:0".into(), "again:0".into()));
    let (a, _b) = (x.square(), x.sqrt());
    assert_eq!(
        (a.named("s").name(), a.name()),
        ("s:0".into(), "Square:0".into())
    );
    // A device function has seen the node's first name: the node keeps it.
    let on_first = DeviceScope::function(|_| Ok(Some("/cpu:0".parse()?)));
    let r = g.device(on_first, || x.relu().named("r"));
    assert_eq!(g.snapshot().node(r.id().node).op.name, "Identity");
}

#[test]
fn an_invalid_loop_body_names_the_line_of_the_loop() {
    let g = Graph::new();
    let n = g.constant(0);
    let line = line!() + 1;
    let out = g.while_loop(&[n], |_, v| v[0].less(3), |_, v| vec![v[0], v[0]]);
    assert!(out[0].is_invalid());
    let error = &g.errors()[0];
    assert!(
        error
            .origin
            .to_string()
            .ends_with(&format!("operands.rs:{line}")),
        "{error}"
    );
    let line = line!() + 1;
    let _ = g.while_loop(&[n], |_, v| v[0].less(3), |_, v| vec![v[0] + 0.5]);
    let error = &g.errors()[1];
    assert!(
        error
            .origin
            .to_string()
            .ends_with(&format!("operands.rs:{line}")),
        "{error}"
    );
}

#[test]
fn inclusive_ranges_index_and_the_number_of_parts_is_limited() {
    let g = Graph::new();
    let x = g.constant([1i32, 2, 3, 4]);
    let session = Session::new(&g).unwrap();
    assert_eq!(session.run::<Vec<i32>>(x.at(..=1), []).unwrap(), [1, 2]);
    assert_eq!(
        session.run::<Vec<i32>>(x.at(1i64..=i64::MAX), []).unwrap(),
        [2, 3, 4]
    );
    x.at(&[Part::New; 64][..]);
    let said = g.errors()[0].to_string();
    assert!(said.contains("64 parts"), "{said}");
}

#[test]
fn outputs_of_an_invalid_node_are_invalid_in_the_same_number() {
    let g = Graph::new();
    let wrong = g.constant([1.0f32, 2.0]) + g.constant([1.0f32, 2.0, 3.0]);
    let largest = g
        .op("TopKV2")
        .input(wrong)
        .input(g.constant(1i32))
        .outputs();
    assert!(largest.len() == 2 && largest[1].is_invalid());
    assert!(wrong.top_k(1)[0].is_invalid());
    assert_eq!(g.errors().len(), 1);

    let g = Graph::new();
    let [values, indices] = g.constant([3.0f32, 9.0, 5.0]).top_k(2);
    let session = Session::new(&g).unwrap();
    let found: (Vec<f32>, Vec<i32>) = session.run((values, indices), []).unwrap();
    assert_eq!(found, (vec![9.0, 5.0], vec![1, 2]));
}
