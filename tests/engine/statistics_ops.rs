//! Passes over tall matrices, compared with values that are worked out by hand and with each other.

use thalweg::ops::StatisticsOps;
use thalweg::prelude::*;

fn none(g: &Graph) -> Output<'_> {
    g.constant(Vec::<f64>::new())
}

#[test]
fn a_gram_matrix_has_the_products_of_ones_x_and_y_less_their_shift() {
    let g = Graph::new();
    let (x, y) = (
        g.constant([[2.0f64, 3.0], [4.0, 7.0]]),
        g.constant([[5.0f64], [6.0]]),
    );
    let gram = x.gram_matrix(y, none(&g), [2.0f64, 3.0, 5.0], DType::F64);
    let weighted = x.gram_matrix(
        y,
        g.constant([1.0f64, 0.25]),
        [2.0f64, 3.0, 5.0],
        DType::F64,
    );
    let (gram, weighted): (Tensor, Tensor) =
        Session::new(&g).unwrap().run((gram, weighted), []).unwrap();
    // The rows are (1, 0, 0, 0) and (1, 2, 4, 1).
    let second = [1.0, 2.0, 4.0, 1.0];
    let wanted = |weight: f64| -> Vec<f64> {
        let product = |i: usize| weight * second[i / 4] * second[i % 4] + f64::from(i == 0);
        (0..16).map(product).collect()
    };
    assert_eq!(gram.to_vec::<f64>().unwrap(), wanted(1.0));
    assert_eq!(weighted.to_vec::<f64>().unwrap(), wanted(0.25));
}

#[test]
fn products_in_f32_are_those_in_f64_to_six_digits_and_infinite_where_they_are_too_large() {
    let g = Graph::new();
    let value = |i: usize| ((i * 7919) % 1009) as f32 / 300.0 - 1.5;
    let matrix = |rows: usize, columns: usize| {
        let values: Vec<f32> = (0..rows * columns).map(value).collect();
        g.constant(Tensor::new(&[rows, columns], &values).unwrap())
    };
    let none = g.constant(Vec::<f32>::new());
    let (x, y) = (matrix(5003, 19), matrix(5003, 2));
    let [narrow, wide] =
        [DType::F32, DType::F64].map(|products| x.gram_matrix(y, none, [0.25; 21], products));
    let large = g.constant([[1e30f32]]);
    let large = large.gram_matrix(large, none, [0.0f64; 2], DType::F32);
    let (narrow, wide, large): (Vec<f64>, Vec<f64>, Vec<f64>) = Session::new(&g)
        .unwrap()
        .run((narrow, wide, large), [])
        .unwrap();
    assert_ne!(narrow, wide);
    for (at, found) in narrow.iter().enumerate() {
        // The squares of both columns bound their product.
        let bound = (wide[at / 22 * 23] * wide[at % 22 * 23]).sqrt();
        assert!(
            (found - wide[at]).abs() < 5e-7 * bound,
            "{at}: {found} {}",
            wide[at]
        );
    }
    assert_eq!(large[8], f64::INFINITY);
}

#[test]
fn a_triangular_factor_of_blocks_has_the_products_of_all_rows() {
    let g = Graph::new();
    let value = |i: usize| ((i * 7919) % 101) as f32 / 17.0 - 3.0;
    let matrix = |rows: usize, columns: usize, from: usize| {
        let values: Vec<f32> = (from..from + rows * columns).map(value).collect();
        g.constant(Tensor::new(&[rows, columns], &values).unwrap())
    };
    let none = g.constant(Vec::<f32>::new());
    let shift = [0.5f64, -1.0, 0.25, 2.0];
    let zeros = g.constant(Tensor::zeros(DType::F64, &[5, 5]).unwrap());
    let (first, second) = (
        (matrix(150, 3, 0), matrix(150, 1, 900)),
        (matrix(7, 3, 40), matrix(7, 1, 3)),
    );
    let r = first.0.triangular_factor(first.1, none, shift, zeros);
    let r = second.0.triangular_factor(second.1, none, shift, r);
    let products = r.matmul_t(r, true, false);
    let gram = first.0.gram_matrix(first.1, none, shift, DType::F64)
        + second.0.gram_matrix(second.1, none, shift, DType::F64);
    let (r, products, gram): (Tensor, Tensor, Tensor) = Session::new(&g)
        .unwrap()
        .run((r, products, gram), [])
        .unwrap();
    for (a, b) in products
        .as_slice::<f64>()
        .unwrap()
        .iter()
        .zip(gram.as_slice::<f64>().unwrap())
    {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(100.0), "{a} {b}");
    }
    for (i, x) in r.as_slice::<f64>().unwrap().iter().enumerate() {
        assert!(i % 5 >= i / 5 || *x == 0.0, "{r:?}");
    }
}

#[test]
fn cluster_sums_are_those_of_the_nearest_centroids() {
    let g = Graph::new();
    let x = g.constant([[0.0f32, 0.0], [1.0, 0.0], [9.0, 9.0], [5.0, 5.0]]);
    let centroids = g.constant([[0.0f32, 0.0], [10.0, 10.0], [99.0, 99.0]]);
    let of = x.cluster_sums(g.constant([1.0f32, 2.0, 3.0, 1.0]), centroids);
    let [nearest, distances] = x.nearest_centroids(centroids);
    let session = Session::new(&g).unwrap();
    let found: (Vec<i32>, Vec<f32>) = session.run((nearest, distances), []).unwrap();
    // The last row is as far from both: the first one has it.
    assert_eq!(found, (vec![0, 0, 1, 0], vec![0.0, 1.0, 2.0, 50.0]));
    let again: (Vec<i32>, Vec<f32>) = session.run((of.nearest, of.distances), []).unwrap();
    assert_eq!(again, found);
    let (sums, counts, inertia): (Tensor, Vec<f64>, f64) =
        session.run((of.sums, of.counts, of.inertia), []).unwrap();
    assert_eq!(
        sums,
        Tensor::from([[7.0f64, 5.0], [27.0, 27.0], [0.0, 0.0]])
    );
    assert_eq!((counts, inertia), (vec![4.0, 3.0, 0.0], 58.0));
}

#[test]
fn a_number_that_is_not_finite_is_an_error_with_its_row_and_column() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [-1, 2]);
    let y = g.placeholder("y", DType::F64, [-1, 1]);
    let weights = g.placeholder("weights", DType::F64, [-1]);
    let gram = x.gram_matrix(y, weights, [0.0f64; 3], DType::F64);
    let zeros = g.constant(Tensor::zeros(DType::F64, &[4, 4]).unwrap());
    let factor = x.triangular_factor(y, weights, [0.0f64; 3], zeros);
    let sums = x.cluster_sums(weights, g.constant([[0.0f64, 0.0]])).sums;
    let session = Session::new(&g).unwrap();
    let good = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
    let error = |fetch: Output<'_>, x_value: [[f64; 2]; 2], y_value: [[f64; 1]; 2], w: [f64; 2]| {
        let feeds = [x.feed(x_value), y.feed(y_value), weights.feed(w)];
        let ran: Result<Tensor, SessionError> = session.run(fetch, feeds);
        ran.unwrap_err().to_string()
    };
    for fetch in [gram, factor] {
        let nan = error(fetch, [[1.0, 2.0], [3.0, f64::NAN]], [[1.0]; 2], [1.0; 2]);
        assert!(
            nan.contains("input 0") && nan.contains("row 1, column 1 is NaN"),
            "{nan}"
        );
        let infinite = error(fetch, [[1.0; 2]; 2], [[f64::INFINITY], [1.0]], [1.0; 2]);
        assert!(
            infinite.contains("input 1") && infinite.contains("row 0, column 0 is inf"),
            "{infinite}"
        );
        let negative = error(fetch, [[1.0; 2]; 2], [[1.0]; 2], [1.0, -2.0]);
        assert!(
            negative.contains("the weight of row 1 is -2.0"),
            "{negative}"
        );
    }
    let large = error(gram, [[1e200; 2]; 2], [[1.0]; 2], [1.0; 2]);
    assert!(large.contains("scale the columns"), "{large}");
    let nan = error(sums, [[f64::NAN, 2.0], [3.0, 1.0]], [[1.0]; 2], [1.0; 2]);
    assert!(nan.contains("row 0, column 0 is NaN"), "{nan}");
    let negative = error(sums, [[1.0; 2]; 2], [[1.0]; 2], [-0.5, 1.0]);
    assert!(
        negative.contains("the weight of row 0 is -0.5"),
        "{negative}"
    );
    let ran: Result<Tensor, SessionError> = session.run(
        gram,
        [
            x.feed(good),
            y.feed([[1.0f64], [2.0]]),
            weights.feed([1.0f64; 2]),
        ],
    );
    assert!(ran.is_ok());
}

#[test]
fn shapes_that_do_not_fit_are_errors_when_the_graph_is_built() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [4, 2]);
    let y = g.placeholder("y", DType::F64, [4, 1]);
    let three = g.placeholder("three", DType::F64, [3, 1]);
    let refused = |made: Output<'_>| made.is_invalid();
    assert!(refused(x.gram_matrix(
        three,
        none(&g),
        [0.0f64; 3],
        DType::F64
    )));
    assert!(refused(x.gram_matrix(y, none(&g), [0.0f64; 2], DType::F64)));
    let weights = g.constant([1.0f64; 3]);
    assert!(refused(x.gram_matrix(y, weights, [0.0f64; 3], DType::F64)));
    assert!(refused(x.gram_matrix(y, none(&g), [0.0f64; 3], DType::F32)));
    let wide = g.placeholder("wide", DType::F64, [4, 5]);
    assert!(refused(x.triangular_factor(y, none(&g), [0.0f64; 3], wide)));
    assert!(refused(x.nearest_centroids(wide)[0]));
    let nothing = g.constant(Tensor::zeros(DType::F64, &[0, 2]).unwrap());
    assert!(refused(x.nearest_centroids(nothing)[0]));
    assert!(!refused(x.gram_matrix(
        y,
        none(&g),
        [0.0f64; 3],
        DType::F64
    )));
}
