//! Dropout in sessions: scaling, gradients, seeds.

use thalweg::prelude::*;

const ROWS: usize = 50;
const COLUMNS: usize = 1024;

fn zeros() -> Tensor {
    Tensor::zeros(DType::F32, &[ROWS, COLUMNS]).unwrap()
}

/// `x + 1` of a fed `x`, so that kept elements differ from dropped ones.
fn input(g: &Graph, shape: impl Into<Shape>) -> (Output<'_>, Output<'_>) {
    let x = g.placeholder("x", DType::F32, shape);
    (x, x + 1.0)
}

#[test]
fn kept_elements_are_scaled_and_only_they_have_gradients() {
    // A batch of unknown size takes the dynamic way to the shape.
    for rows in [ROWS as i64, -1] {
        let g = Graph::new();
        let (x, y) = input(&g, [rows, COLUMNS as i64]);
        let keep = g.placeholder("keep_prob", DType::F32, []);
        let dropped = y.dropout(keep, Some(4));
        let dy = gradients(&[dropped], &[y])[0].unwrap();
        let session = Session::new(&g).unwrap();
        let got = session
            .step((dropped, dy), [x.feed(zeros()), keep.feed(0.25f32)])
            .unwrap();
        let (values, slopes) = (got.slice::<f32>(0).unwrap(), got.slice::<f32>(1).unwrap());
        assert!(values.iter().all(|&v| v == 0.0 || v == 4.0));
        assert_eq!(values, slopes);
        let kept = values.iter().filter(|&&v| v != 0.0).count() as f64;
        // 5 standard deviations of a binomial distribution are under 0.01.
        assert!((kept / values.len() as f64 - 0.25).abs() < 0.01, "{kept}");

        let all = session
            .step(dropped, [x.feed(zeros()), keep.feed(1.0f32)])
            .unwrap();
        assert!(all.slice::<f32>(0).unwrap().iter().all(|&v| v == 1.0));
    }
}

#[test]
fn a_seed_gives_the_same_steps_in_every_session() {
    let g = Graph::new();
    let (x, y) = input(&g, [ROWS as i64, COLUMNS as i64]);
    let dropped = y.dropout(0.5, Some(4));
    let steps = |session: &Session| {
        [(); 2].map(|()| session.run::<Tensor>(dropped, [x.feed(zeros())]).unwrap())
    };
    let [a, b] = steps(&Session::new(&g).unwrap());
    let [c, d] = steps(&Session::new(&g).unwrap());
    assert_eq!(a.bytes(), c.bytes());
    assert_eq!(b.bytes(), d.bytes());
    assert_ne!(a.bytes(), b.bytes());
}

#[test]
fn an_invalid_probability_is_an_error() {
    let g = Graph::new();
    let (_, y) = input(&g, [2]);
    assert_eq!(y.dropout(1.0, None).id(), y.id());
    for keep in [0.0, -0.5, 1.5, f64::NAN] {
        y.dropout(keep, None);
    }
    y.dropout([0.5, 0.5], None);
    y.dropout(y, None);
    let errors = g.errors();
    assert_eq!(errors.len(), 6, "{errors:?}");
    for error in &errors {
        let text = error.to_string();
        assert!(
            text.contains("keep_prob") && text.contains("must be"),
            "{text}"
        );
        assert!(text.contains("dropout.rs"), "{text}");
    }
}
