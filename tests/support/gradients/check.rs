//! Compares gradients with central finite differences in `f64`.

use thalweg::gradient_check::GradientCheck;
use thalweg::prelude::*;

use super::array::lookups;
use super::case::GradientCase;
use super::collect::collected;
use super::complex::complex_numbers;
use super::elementwise::elementwise;
use super::images::images;
use super::linalg::decompositions;
use super::lists::listed;
use super::math::functions;
use super::moves::moves;
use super::nn::layers;
use super::ragged::ragged;
use super::rearrange::rearranged;
use super::recurrent::recurrent;
use super::reductions::reductions;
use super::regions::regions;
use super::sparse::sparse;
use super::volumes::volumes;

/// Every case.
pub fn all_cases() -> Vec<GradientCase> {
    let all = [
        elementwise(),
        functions(),
        reductions(),
        moves(),
        rearranged(),
        collected(),
        lookups(),
        layers(),
        images(),
        volumes(),
        regions(),
        recurrent(),
        decompositions(),
        listed(),
        sparse(),
        ragged(),
        complex_numbers(),
    ];
    all.into_iter().flatten().collect()
}

/// Checks the gradient of a case; `vague` hides its shapes while the graph is built.
pub fn check(case: &GradientCase, vague: bool, options: &SessionOptions) -> Result<(), String> {
    let mut check = GradientCheck::new(case.inputs.iter().cloned()).session(options.clone());
    if vague {
        check = check.unknown_shapes();
    }
    if case.single {
        check = check.single();
    }
    if case.name.starts_with("Cast") {
        // A power of two: sums and differences of a Cast's floats are exact.
        check = check.step(1.0 / 1024.0).tolerance(1e-6);
    }
    let found = check.run(|g, x| (case.build)(g, x));
    found.map(|_| ()).map_err(|e| e.to_string())
}
