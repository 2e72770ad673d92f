//! Regressions of `f32` rows: they have the digits of the same rows as `f64`.

use thalweg_hvd::Hvd;
use thalweg_stats::{LinearModel, LinearRegression, Rows};
use thalweg_tensor::{DType, Tensor};

const ROWS: usize = 3000;

/// Three columns without a pattern, between -1 and 1.
fn columns() -> Vec<[f64; 3]> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..ROWS).map(|_| [next(), next(), next()]).collect()
}

/// Fits two columns `u` and `v` that are made of three, as f32 and as f64, and the largest target: `y` is `3 u - 2 v` in units of their sizes, and noise.
fn fits(sizes: [f64; 2], made: fn(usize, [f64; 3]) -> [f64; 2]) -> ([LinearModel; 2], f64) {
    let all = columns();
    let made = |(row, numbers): (usize, &[f64; 3])| made(row, *numbers);
    let x: Vec<f32> = all
        .iter()
        .enumerate()
        .flat_map(|at| made(at).map(|x| x as f32))
        .collect();
    let target = |at: (usize, &[f64; 3])| {
        let [u, v] = made(at);
        (3.0 * u / sizes[0] - 2.0 * v / sizes[1] + at.1[2] / 10.0) as f32
    };
    let y: Vec<f32> = all.iter().enumerate().map(target).collect();
    let (x, y) = (
        Tensor::new(&[ROWS, 2], &x).unwrap(),
        Tensor::new(&[ROWS, 1], &y).unwrap(),
    );
    let hvd = Hvd::init().unwrap();
    let largest = y
        .as_slice::<f32>()
        .unwrap()
        .iter()
        .fold(0.0f32, |a, y| a.max(y.abs()));
    let fits = [DType::F32, DType::F64].map(|dtype| {
        let as_dtype = |matrix: &Tensor| match dtype {
            DType::F32 => matrix.clone(),
            _ => {
                let wide: Vec<f64> = matrix
                    .as_slice::<f32>()
                    .unwrap()
                    .iter()
                    .map(|x| f64::from(*x))
                    .collect();
                Tensor::new(matrix.dims(), &wide).unwrap()
            }
        };
        let rows = Rows::new(as_dtype(&x)).targets(as_dtype(&y));
        LinearRegression::new().fit(&hvd, &rows).unwrap()
    });
    (fits, f64::from(largest))
}

#[track_caller]
fn assert_same(([narrow, wide], largest): &([LinearModel; 2], f64)) {
    for (a, b) in narrow.coefficients.iter().zip(&wide.coefficients) {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} {b}");
    }
    // An intercept is far from the rows where they are far from zero: it has fewer digits than their prediction.
    let apart = (narrow.intercepts[0] - wide.intercepts[0]).abs();
    assert!(apart <= 1e-5 * largest, "{narrow:?} {wide:?}");
    assert!((narrow.report.r2[0] - wide.report.r2[0]).abs() < 1e-6);
    assert_eq!(narrow.report.solver, wide.report.solver);
}

#[test]
fn products_in_f32_serve_for_columns_that_are_far_from_dependent() {
    let fits = fits([1.0; 2], |_, [a, b, _]| [a, b]);
    assert_same(&fits);
    // They were made in f32: in f64 the sums would be the same.
    assert_ne!(fits.0[0].coefficients, fits.0[1].coefficients);
}

#[test]
fn columns_of_any_size_offset_and_trend_have_the_digits_of_f64() {
    type Made = fn(usize, [f64; 3]) -> [f64; 2];
    let cases: [([f64; 2], Made); 5] = [
        // Too large and too small for squares in f32.
        ([1e25, 1e-25], |_, [a, b, _]| [a * 1e25, b * 1e-25]),
        ([1.0, 1.0], |_, [a, b, _]| [a + 1e4, b - 2e5]),
        ([1.0, 1e3], |row, [a, _, _]| [a, row as f64]),
        ([1.0, 1e4], |row, [a, b, _]| {
            [a, if row < 1000 { 1e4 } else { b }]
        }),
        // Nearly dependent for f32, far from it for f64.
        ([1.0, 1.0], |_, [a, b, _]| [a, a + b / 300.0]),
    ];
    for (sizes, made) in cases {
        assert_same(&fits(sizes, made));
    }
}
