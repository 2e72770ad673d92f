//! Compares gradients with central finite differences in `f64`.

use thalweg::prelude::*;
use thalweg::session::Feed;

use super::array::lookups;
use super::case::{GradientCase, mixed};
use super::collect::collected;
use super::elementwise::elementwise;
use super::images::images;
use super::lists::listed;
use super::math::functions;
use super::moves::moves;
use super::nn::layers;
use super::rearrange::rearranged;
use super::reductions::reductions;

/// Half the distance between the two points of a difference.
const STEP: f64 = 1e-5;

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
        listed(),
    ];
    all.into_iter().flatten().collect()
}

/// Checks the gradient of a case; `vague` hides its shapes while the graph is built.
pub fn check(case: &GradientCase, vague: bool, options: &SessionOptions) -> Result<(), String> {
    let g = Graph::new();
    let xs: Vec<Output<'_>> = case
        .inputs
        .iter()
        .map(|t| {
            let shape = if vague {
                Shape::of_rank(t.dims().len())
            } else {
                t.shape()
            };
            g.placeholder("x", DType::F64, shape)
        })
        .collect();
    let ys = (case.build)(&g, &xs);
    let weights: Vec<Output<'_>> = ys
        .iter()
        .map(|_| g.placeholder("weight", DType::F64, Shape::unknown()))
        .collect();
    let given: Vec<Option<Output<'_>>> = weights.iter().copied().map(Some).collect();
    let grads = gradients_with(&ys, &xs, &given, &[]);
    let session = Session::with_options(&g, options.clone()).map_err(|e| e.to_string())?;
    session
        .step(g.initializers(), [])
        .map_err(|e| e.to_string())?;

    let feeds = |inputs: &[Tensor]| -> Vec<Feed<'_>> {
        xs.iter().zip(inputs).map(|(x, t)| x.feed(t)).collect()
    };
    let at = session
        .step(&ys, feeds(&case.inputs))
        .map_err(|e| e.to_string())?;
    let projection: Vec<Tensor> = (0..ys.len())
        .map(|i| mixed(at.tensor(i).unwrap().dims(), 40 + i as u64))
        .collect();
    // The weighted sum of all outputs.
    let value = |inputs: &[Tensor]| -> Result<f64, String> {
        let got = session
            .step(&ys, feeds(inputs))
            .map_err(|e| e.to_string())?;
        let dot = |(i, w): (usize, &Tensor)| -> f64 {
            let y = got.slice::<f64>(i).unwrap();
            y.iter()
                .zip(w.as_slice::<f64>().unwrap())
                .map(|(y, w)| y * w)
                .sum()
        };
        Ok(projection.iter().enumerate().map(dot).sum())
    };
    let mut all = feeds(&case.inputs);
    all.extend(weights.iter().zip(&projection).map(|(w, t)| w.feed(t)));
    for (i, grad) in grads.iter().enumerate() {
        // A missing gradient counts as zeros.
        let zeros = Tensor::zeros(DType::F64, case.inputs[i].dims()).map_err(|e| e.to_string())?;
        let got = match grad {
            Some(grad) => session
                .step(*grad, &all)
                .map_err(|e| format!("input {i}: {e}"))?
                .tensor(0)
                .cloned(),
            None => Ok(zeros),
        };
        let got = got.map_err(|e| e.to_string())?;
        if got.dims() != case.inputs[i].dims() {
            return Err(format!("input {i}: a gradient of shape {}", got.shape()));
        }
        for (element, &found) in got.as_slice::<f64>().unwrap().iter().enumerate() {
            let moved = |by: f64| {
                let mut inputs = case.inputs.clone();
                inputs[i].as_mut_slice::<f64>().unwrap()[element] += by;
                value(&inputs)
            };
            // A power of two: sums and differences of a Cast's floats are exact.
            let (step, off) = match case.name.starts_with("Cast") {
                true => (1.0 / 1024.0, 1e-6),
                false if case.single => (1.0 / 64.0, 1e-2),
                false => (STEP, 1e-6),
            };
            let expected = (moved(step)? - moved(-step)?) / (2.0 * step);
            if (found - expected).abs() > 0.1 * off + off * expected.abs() {
                return Err(format!(
                    "input {i}, element {element}: {found}, not {expected}"
                ));
            }
        }
    }
    Ok(())
}
