//! Fits of scikit-learn, from the same rows and starts: `scikit_learn.py` writes them.

use serde_json::Value;
use thalweg_hvd::Hvd;
use thalweg_stats::{
    Block, KMeans, LinearRegression, MiniBatchKMeans, Rows, Solver, Start, StatsError,
};
use thalweg_tensor::{DType, Tensor};

fn cases(kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("scikit_learn.json")).unwrap();
    all[kind].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

fn matrix(value: &Value) -> Tensor {
    let (rows, all) = (value.as_array().unwrap().len(), numbers(value));
    Tensor::new(&[rows, all.len() / rows], &all).unwrap()
}

fn vector(value: &Value) -> Tensor {
    Tensor::vector(&numbers(value))
}

fn rows_of(case: &Value) -> Rows {
    let rows = Rows::new(matrix(&case["x"]));
    match &case["weights"] {
        Value::Null => rows,
        weights => rows.weights(vector(weights)),
    }
}

/// Fails where numbers differ by more than a millionth of the largest.
#[track_caller]
fn assert_close(name: &str, found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len(), "{name}");
    let largest = wanted.iter().fold(0.0f64, |a, b| a.max(b.abs())).max(1e-9);
    for (f, w) in found.iter().zip(wanted) {
        assert!(
            (f - w).abs() <= 1e-6 * largest,
            "{name}: {found:?}, scikit-learn has {wanted:?}"
        );
    }
}

#[test]
fn linear_regressions_are_those_of_scikit_learn_by_each_solver() {
    let hvd = Hvd::init().unwrap();
    for case in cases("linear") {
        let name = case["name"].as_str().unwrap();
        let x = matrix(&case["x"]);
        let rows = rows_of(&case).targets(matrix(&case["y"]));
        let regression = LinearRegression::new()
            .intercept(case["intercept"].as_bool().unwrap())
            .ridge(case["ridge"].as_f64().unwrap());
        for solver in [Solver::Auto, Solver::Qr] {
            let model = regression.clone().solver(solver).fit(&hvd, &rows).unwrap();
            let predicted = model.predict(&x).unwrap().to_vec::<f64>().unwrap();
            assert_close(
                &format!("{name} {solver:?} predicted"),
                &predicted,
                &numbers(&case["predicted"]),
            );
            // Coefficients of nearly dependent columns are known to fewer digits than predictions.
            if name != "ill_conditioned" {
                assert_close(
                    &format!("{name} {solver:?}"),
                    &model.coefficients,
                    &numbers(&case["coefficients"]),
                );
                assert_close(
                    &format!("{name} {solver:?} intercepts"),
                    &model.intercepts,
                    &numbers(&case["intercepts"]),
                );
            }
        }
    }
}

#[test]
fn normal_equations_are_left_for_qr_where_columns_depend_on_each_other() {
    let hvd = Hvd::init().unwrap();
    for case in cases("linear") {
        let name = case["name"].as_str().unwrap();
        let rows = rows_of(&case).targets(matrix(&case["y"]));
        let regression = LinearRegression::new()
            .intercept(case["intercept"].as_bool().unwrap())
            .ridge(case["ridge"].as_f64().unwrap());
        let report = regression.clone().fit(&hvd, &rows).unwrap().report;
        let dependent = [
            "constant_column",
            "duplicate_column",
            "rank_deficient",
            "ill_conditioned",
            "one_row",
            "fewer_rows_than_columns",
        ];
        let wanted = match dependent.contains(&name) {
            true => Solver::Qr,
            false => Solver::NormalEquations,
        };
        assert_eq!(report.solver, wanted, "{name}: {}", report.reason);
        if wanted == Solver::Qr {
            let refused = regression
                .solver(Solver::NormalEquations)
                .fit(&hvd, &rows)
                .unwrap_err();
            assert!(
                refused.to_string().contains("nearly dependent"),
                "{name}: {refused}"
            );
        }
    }
}

#[test]
fn k_means_is_that_of_scikit_learn_from_the_same_start() {
    let hvd = Hvd::init().unwrap();
    for case in cases("kmeans") {
        let name = case["name"].as_str().unwrap();
        let (x, start) = (matrix(&case["x"]), matrix(&case["start"]));
        let model = KMeans::new(start.dims()[0])
            .start(Start::Given(start))
            .max_iterations(case["iterations"].as_u64().unwrap() as usize)
            .tolerance(case["tolerance"].as_f64().unwrap())
            .fit(&hvd, &rows_of(&case))
            .unwrap();
        assert_close(
            name,
            &model.centroids.to_vec::<f64>().unwrap(),
            &numbers(&case["centroids"]),
        );
        assert_close(name, &[model.inertia], &[case["inertia"].as_f64().unwrap()]);
        let labels: Vec<f64> = model
            .predict(&x)
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect();
        assert_eq!(labels, numbers(&case["labels"]), "{name}");
        assert_eq!(
            Some(model.iterations as u64),
            case["found_iterations"].as_u64(),
            "{name}"
        );
    }
}

#[test]
fn mini_batch_k_means_is_that_of_scikit_learn_from_the_same_start_and_batches() {
    let hvd = Hvd::init().unwrap();
    for case in cases("mini_batches") {
        let name = case["name"].as_str().unwrap();
        let start = matrix(&case["start"]);
        let batches = case["batches"].as_array().unwrap().iter().enumerate();
        let batches = batches.map(|(number, x)| {
            let x = matrix(x);
            Ok(Block {
                y: Tensor::zeros(DType::F64, &[x.dims()[0], 0])?,
                weights: match &case["weights"] {
                    Value::Null => Tensor::zeros(DType::F64, &[0])?,
                    weights => vector(&weights[number]),
                },
                x,
            })
        });
        let model = MiniBatchKMeans::new(start.dims()[0])
            .start(Start::Given(start))
            .fit::<StatsError>(&hvd, batches)
            .unwrap();
        assert_close(
            name,
            &model.centroids.to_vec::<f64>().unwrap(),
            &numbers(&case["centroids"]),
        );
        assert_close(name, &model.history, &numbers(&case["inertias"]));
    }
}
