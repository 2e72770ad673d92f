//! Fits over several ranks: the results of one rank, and errors that name a row or a rank.

#[path = "../../hvd/tests/support/mod.rs"]
mod support;

use support::on_ranks;
use thalweg_hvd::{Hvd, Join};
use thalweg_stats::{
    Block, KMeans, LinearRegression, RowBlocks, Rows, SeededRows, Solver, Start, StatsError,
};
use thalweg_tensor::{DType, Tensor};

fn alone() -> Hvd {
    Hvd::meet(&Join::alone()).unwrap()
}

fn seeded(rows: u64, targets: usize, clusters: usize, share: (usize, usize)) -> SeededRows {
    SeededRows {
        seed: 5,
        rows,
        features: 6,
        targets,
        clusters,
        dtype: DType::F64,
        block_rows: 37,
        share,
    }
}

/// `true` where all numbers differ by at most 1e-12 of the largest.
fn equal(a: &[f64], b: &[f64]) -> bool {
    let largest = a.iter().fold(1e-300f64, |m, x| m.max(x.abs()));
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| (a - b).abs() <= 1e-12 * largest)
}

#[test]
fn ranks_fit_the_regression_of_one_rank_and_all_of_them_have_it() {
    for solver in [Solver::NormalEquations, Solver::Qr] {
        let regression = LinearRegression::new().solver(solver);
        let one = regression
            .fit(&alone(), &seeded(500, 2, 0, (0, 1)))
            .unwrap();
        for ranks in [2, 3] {
            let all = on_ranks(ranks, |hvd| {
                regression
                    .fit(&hvd, &seeded(500, 2, 0, (hvd.rank(), hvd.size())))
                    .unwrap()
            });
            for model in &all {
                assert_eq!(model, &all[0], "{solver:?}");
                assert!(equal(&model.coefficients, &one.coefficients), "{solver:?}");
                assert!(equal(&model.intercepts, &one.intercepts), "{solver:?}");
            }
        }
    }
}

#[test]
fn parts_may_be_uneven_and_empty() {
    let x = Tensor::from([[1.0f64], [2.0], [4.0], [8.0]]);
    let y = Tensor::from([[3.0f64], [5.0], [9.0], [17.0]]);
    let part = |rank: usize| match rank {
        1 => Rows::new(x.clone()).targets(y.clone()),
        _ => Rows::new(Tensor::zeros(DType::F64, &[0, 1]).unwrap())
            .targets(Tensor::zeros(DType::F64, &[0, 1]).unwrap()),
    };
    let found = on_ranks(3, |hvd| {
        let rows = part(hvd.rank());
        let linear = LinearRegression::new().fit(&hvd, &rows).unwrap();
        let parallel = Start::Parallel {
            rounds: 3,
            oversampling: 2.0,
        };
        let clusters = [Start::PlusPlus, parallel].map(|start| {
            let model = KMeans::new(2).start(start).fit(&hvd, &rows).unwrap();
            assert!(model.converged);
            model
        });
        (linear, clusters)
    });
    for (linear, clusters) in &found {
        assert!(
            equal(&linear.coefficients, &[2.0]) && equal(&linear.intercepts, &[1.0]),
            "{linear:?}"
        );
        assert_eq!(clusters, &found[0].1);
    }
}

#[test]
fn k_means_of_ranks_draws_the_start_and_finds_the_clusters_of_one_rank() {
    let parallel = Start::Parallel {
        rounds: 4,
        oversampling: 2.0,
    };
    for start in [Start::PlusPlus, parallel] {
        let kmeans = KMeans::new(7).start(start).seed(3).tolerance(0.0);
        let one = kmeans.fit(&alone(), &seeded(700, 0, 7, (0, 1))).unwrap();
        assert!(one.history.is_sorted_by(|a, b| a >= b), "{:?}", one.history);
        for ranks in [2, 3] {
            let all = on_ranks(ranks, |hvd| {
                kmeans
                    .fit(&hvd, &seeded(700, 0, 7, (hvd.rank(), hvd.size())))
                    .unwrap()
            });
            for model in &all {
                assert_eq!(model, &all[0]);
                assert_eq!(model.iterations, one.iterations);
                let (a, b) = (&model.centroids, &one.centroids);
                assert!(equal(a.as_slice().unwrap(), b.as_slice().unwrap()));
            }
        }
    }
}

#[test]
fn empty_clusters_take_the_farthest_rows_of_any_rank() {
    let rows = |rank: usize| match rank {
        0 => Rows::new(Tensor::from([[0.0f64], [1.0]])),
        _ => Rows::new(Tensor::from([[2.0f64], [50.0], [90.0]])),
    };
    let start = Start::Given(Tensor::from([[0.0f64], [1e6], [2e6]]));
    let kmeans = KMeans::new(3).start(start);
    for model in on_ranks(2, |hvd| kmeans.fit(&hvd, &rows(hvd.rank())).unwrap()) {
        assert_eq!(model.centroids.to_vec::<f64>().unwrap(), [1.0, 90.0, 50.0]);
        assert_eq!(model.inertia, 2.0);
    }
}

#[test]
fn an_error_in_the_rows_of_a_rank_names_the_row_and_ends_the_others() {
    let errors = on_ranks(2, |hvd| {
        let mut x = vec![1.0f64; 20];
        if hvd.rank() == 1 {
            x[13] = f64::NAN;
        }
        let rows = Rows::new(Tensor::new(&[10, 2], &x).unwrap())
            .targets(Tensor::new(&[10, 1], &x[..10]).unwrap());
        LinearRegression::new()
            .fit(&hvd, &rows)
            .unwrap_err()
            .to_string()
    });
    assert!(errors[1].contains("row 6, column 1 is NaN"), "{errors:?}");
    assert!(errors[0].contains("rank 1"), "{errors:?}");
}

#[test]
fn ranks_with_other_columns_are_an_error_on_all_of_them() {
    let errors = on_ranks(2, |hvd| {
        let x = Tensor::zeros(DType::F64, &[4, 2 + hvd.rank()]).unwrap();
        KMeans::new(2)
            .fit(&hvd, &Rows::new(x))
            .unwrap_err()
            .to_string()
    });
    assert!(
        errors.iter().all(|e| e.contains("other columns or dtypes")),
        "{errors:?}"
    );
}

#[test]
fn rows_and_options_that_cannot_be_fitted_are_errors() {
    let hvd = alone();
    let x = || Rows::new(Tensor::from([[1.0f64], [2.0]]));
    let linear = |rows: &dyn RowBlocks| {
        LinearRegression::new()
            .fit(&hvd, rows)
            .unwrap_err()
            .to_string()
    };
    assert!(linear(&x()).contains("no targets"));
    let none = Rows::new(Tensor::zeros(DType::F64, &[0, 3]).unwrap());
    assert!(
        linear(&none.targets(Tensor::zeros(DType::F64, &[0, 1]).unwrap()))
            .contains("no rank has any rows")
    );
    let ints = Rows::new(Tensor::from([[1i32], [2]])).targets(Tensor::from([[1i32], [2]]));
    assert!(linear(&ints).contains("convert them to f32 or f64"));
    for solver in [Solver::Auto, Solver::Qr] {
        let weightless = x()
            .targets(Tensor::from([[1.0f64], [2.0]]))
            .weights(Tensor::from([0.0f64, 0.0]));
        let error = LinearRegression::new()
            .solver(solver)
            .fit(&hvd, &weightless)
            .unwrap_err();
        assert!(
            error.to_string().contains("the weights of all rows are 0"),
            "{error}"
        );
    }
    let ridge = LinearRegression::new()
        .ridge(-1.0)
        .fit(&hvd, &x())
        .unwrap_err();
    assert!(ridge.to_string().contains("at least 0"));

    let no_columns = Rows::new(Tensor::zeros(DType::F64, &[3, 0]).unwrap());
    let error = KMeans::new(1).fit(&hvd, &no_columns).unwrap_err();
    assert!(
        error.to_string().contains("no columns of features"),
        "{error}"
    );
    let kmeans = |kmeans: KMeans| kmeans.fit(&hvd, &x()).unwrap_err().to_string();
    assert!(kmeans(KMeans::new(3)).contains("3 clusters are asked for, of 2 rows"));
    assert!(kmeans(KMeans::new(0)).contains("at least one cluster"));
    assert!(kmeans(KMeans::new(1).tolerance(f64::NAN)).contains("tolerance"));
    let start = Start::Given(Tensor::from([[1.0f64, 2.0]]));
    assert!(kmeans(KMeans::new(1).start(start)).contains("need f32 or f64 of [1, 1]"));
}

#[test]
fn equal_rows_fill_all_clusters() {
    let rows = Rows::new(Tensor::new(&[5, 2], &[3.0f32; 10]).unwrap());
    for start in [
        Start::PlusPlus,
        Start::Parallel {
            rounds: 2,
            oversampling: 2.0,
        },
    ] {
        let model = KMeans::new(3).start(start).fit(&alone(), &rows).unwrap();
        assert_eq!(
            (model.inertia, model.centroids),
            (0.0, Tensor::new(&[3, 2], &[3.0f32; 6]).unwrap())
        );
    }
}

/// Rows of which a pass fails.
struct Failing;

impl RowBlocks for Failing {
    fn dtype(&self) -> DType {
        DType::F64
    }

    fn columns(&self) -> (usize, usize) {
        (1, 1)
    }

    fn for_each(
        &self,
        _: &mut dyn FnMut(Block) -> Result<(), StatsError>,
    ) -> Result<(), StatsError> {
        Err(StatsError::Source("the disk is gone".into()))
    }
}

#[test]
fn an_error_of_the_source_is_returned() {
    let error = LinearRegression::new().fit(&alone(), &Failing).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the rows are not read: the disk is gone"),
        "{error}"
    );
}

/// Blocks of rows, of which each pass counts those that it gives.
struct Counted {
    given: std::sync::atomic::AtomicUsize,
}

impl RowBlocks for Counted {
    fn dtype(&self) -> DType {
        DType::F64
    }

    fn columns(&self) -> (usize, usize) {
        (6, 1)
    }

    fn for_each(
        &self,
        take: &mut dyn FnMut(Block) -> Result<(), StatsError>,
    ) -> Result<(), StatsError> {
        seeded(370, 1, 0, (0, 1)).for_each(&mut |block| {
            self.given
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            take(block)
        })
    }
}

#[test]
fn a_regression_reads_its_rows_once() {
    let rows = Counted {
        given: Default::default(),
    };
    LinearRegression::new().fit(&alone(), &rows).unwrap();
    // Ten blocks, and the first one for the shift.
    assert_eq!(rows.given.into_inner(), 11);
}
