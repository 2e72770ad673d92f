//! Logistic regression on a table: which leaves are of an oak? The numbers are made up.
//!
//! ```text
//! cargo run --release --example csv [FILE]
//! ```
//! The file has a header, and numbers separated by commas; the last column is 0 or 1.

use std::error::Error;

use thalweg::layers::metrics::{self, Curve};
use thalweg::layers::{dense, losses};
use thalweg::prelude::*;
use thalweg_examples::output;

const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/csv/leaves.csv");

/// The columns but the last, `[rows, columns - 1]`, and the last, `[rows, 1]`.
fn table(path: &str) -> Result<[Tensor; 2], Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let (mut inputs, mut labels) = (Vec::<f32>::new(), Vec::<f32>::new());
    for (i, line) in text.lines().enumerate().skip(1) {
        if line.trim().is_empty() {
            continue;
        }
        let numbers: Result<Vec<f32>, _> = line.split(',').map(|n| n.trim().parse()).collect();
        let numbers = numbers.map_err(|e| format!("{path}:{}: {e}", i + 1))?;
        let (label, rest) = numbers.split_last().ok_or("no numbers")?;
        labels.push(*label);
        inputs.extend(rest);
    }
    if inputs.is_empty() {
        return Err(format!("{path}: there are no rows, or no columns but the last").into());
    }
    let rows = labels.len();
    let columns = inputs.len() / rows;
    Ok([
        Tensor::new(&[rows, columns], &inputs)?,
        Tensor::new(&[rows, 1], &labels)?,
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| BUNDLED.to_owned());
    let [inputs, labels] = table(&path)?;
    let g = Graph::new();
    g.set_seed(1);
    let x = g.placeholder("x", DType::F32, [None, Some(inputs.dims()[1])]);
    let y = g.placeholder("y", DType::F32, [None, Some(1)]);
    // Standardizes the columns by the table's own mean and deviation.
    let mean = x.reduce_mean(&[0], true);
    let deviation = x.squared_difference(mean).reduce_mean(&[0], true).sqrt();
    let logits = dense(1).named("model").on((x - mean) / deviation);
    let loss = losses::sigmoid_cross_entropy(y, logits).value();
    let auc = metrics::auc(y, logits.sigmoid(), Curve::Roc).build();
    let right = logits
        .greater(0)
        .equal(y.greater(0.5))
        .cast(DType::F32)
        .mean();
    let train = GradientDescent::new(0.5).minimize(loss);

    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    let feeds = [x.feed(&inputs), y.feed(&labels)];
    for step in 0..=200 {
        let (_, loss, right): (_, f32, f32) = session.run((train, loss, right), &feeds)?;
        if step % 50 == 0 {
            output::line(format_args!(
                "step {step:3}: loss {loss:.4}, {:.1}% right",
                100.0 * right
            ));
        }
    }
    let area: f32 = session.run(auc.updated(), &feeds)?;
    let weights: Vec<f32> = session.run("model/kernel/Read/ReadVariableOp", [])?;
    output::line(format_args!(
        "area under the ROC curve {area:.4}, weights {weights:.2?}"
    ));
    Ok(())
}
