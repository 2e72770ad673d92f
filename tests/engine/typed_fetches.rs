//! Results of steps as the types that a program requests.

use thalweg::prelude::*;
use thalweg::session::Run;

#[test]
fn results_have_the_types_and_nesting_of_the_fetches() {
    let g = Graph::new();
    let n = g.variable("n", 7i64);
    let x = g.constant([[1.0f32, 2.0], [3.0, 4.0]]);
    let word = g.constant("word");
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();

    let ((count,), [a, b]): ((i64,), [Vec<f32>; 2]) = session.run(((n,), [x, x * 2]), []).unwrap();
    assert_eq!((count, a), (7, vec![1.0, 2.0, 3.0, 4.0]));
    assert_eq!(b, [2.0, 4.0, 6.0, 8.0]);
    let (text, tensor, four): (String, Tensor, [f32; 4]) = session.run((word, x, x), []).unwrap();
    assert_eq!((&text[..], tensor.dims()), ("word", &[2, 2][..]));
    assert_eq!(four, [1.0, 2.0, 3.0, 4.0]);
    // A slice of fetches of a length known only at run time, and an empty one.
    let sums: Vec<f32> = session.run(&[x.sum(), x.mean()][..], []).unwrap();
    assert_eq!(sums, [10.0, 2.5]);
    session.run((), []).unwrap();
}

#[test]
fn operations_in_fetches_have_no_value() {
    let g = Graph::new();
    let n = g.variable("n", 1i32);
    let add = n.assign_add(1);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let (_, before, _): (_, i32, _) = session.run((add, n, [add]), []).unwrap();
    assert_eq!(before, 1);
    assert_eq!(session.run::<i32>(n, []).unwrap(), 2);
}

#[test]
fn a_result_of_another_type_is_an_error_that_names_it() {
    let g = Graph::new();
    let pair = g.constant([1.0f32, 2.0]).named("pair");
    let session = Session::new(&g).unwrap();
    let said = |error: SessionError| error.to_string();
    assert_eq!(
        said(session.run::<Vec<f64>>(pair, []).unwrap_err()),
        "'pair:0' was fetched: the tensor holds f32, not f64: read it as f32, or Cast it in the graph"
    );
    assert_eq!(
        said(session.run::<f32>(pair, []).unwrap_err()),
        "'pair:0' was fetched: a tensor of shape [2] is not one value: read it as a Vec or a Tensor"
    );
    let second: Result<((), [f32; 3]), _> = session.run((pair.operation(), pair), []);
    assert_eq!(
        said(second.unwrap_err()),
        "'pair:0' was fetched: a tensor of shape [2] does not have 3 elements"
    );
}

#[test]
fn names_and_indices_work_as_fetches_and_feeds() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let y = (x * 2).named("y");
    let total = g.variable("total", 0.0f32);
    g.group("add", [total.assign_add(y)]);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let (a, b, c): (f32, f32, f32) = session
        .run(("y", "y:0", y.id()), ["x:0".feed(3.0f32)])
        .unwrap();
    assert_eq!([a, b, c], [6.0; 3]);
    session.run(Run("add"), [x.id().feed(4.0f32)]).unwrap();
    assert_eq!(session.run::<f32>(total, []).unwrap(), 8.0);
}

#[test]
fn an_unknown_name_is_an_error_with_a_suggestion() {
    let g = Graph::new();
    let x = g.placeholder("pixels", DType::F32, []);
    g.group("train", [x.operation()]);
    let session = Session::new(&g).unwrap();
    let fetched = |name: &str| session.run::<f32>(name, []).unwrap_err().to_string();
    assert_eq!(
        fetched("pixel"),
        "there is no 'pixel' to fetch: did you mean 'pixels'?"
    );
    assert_eq!(
        fetched("pixels:1"),
        "there is no 'pixels:1' to fetch: the outputs of 'pixels' are numbered from 0 to 0"
    );
    assert_eq!(
        fetched("train"),
        "there is no 'train' to fetch: 'train' is an operation without outputs: run it, with Run(\"train\")"
    );
    let fed = session.run::<f32>(x, ["pixl".feed(1.0f32)]).unwrap_err();
    assert_eq!(
        fed.to_string(),
        "there is no 'pixl' to feed: did you mean 'pixels'?"
    );
    let run = session.step(Run("trian"), []).unwrap_err();
    assert_eq!(
        run.to_string(),
        "there is no 'trian' to fetch: did you mean 'train'?"
    );
}

#[test]
fn an_error_returned_from_main_prints_its_message() {
    let (g, other) = (Graph::new(), Graph::new());
    let stranger = other.placeholder("stranger", DType::F32, []);
    let session = Session::new(&g).unwrap();
    let error = session.run::<f32>(stranger, []).unwrap_err();
    // The text that `fn main() -> Result<(), SessionError>` and `unwrap` print.
    assert_eq!(
        format!("{error:?}"),
        "fetch 'stranger:0' belongs to another graph than the session's: build both in one"
    );
}
