//! Linear regression by gradient descent: the smallest graph that learns.

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use thalweg::prelude::*;
use thalweg_examples::output;
use thalweg_examples::plot::{Line, check_name, scatter_with_lines};
use thalweg_examples::report::{Outcome, Spread, table};

/// Fits a line to ten points that lie around y = 3 x.
#[derive(Parser)]
struct Flags {
    /// Number of passes over all points.
    #[arg(long, default_value_t = 5)]
    epochs: usize,
    /// Draws the points, the true line and the fitted one into this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Measures the time of a step through `run` and through a `Callable`, on one thread.
    #[arg(long)]
    benchmark: bool,
    /// The device that the model is on: /cpu:0, /gpu:0.
    #[arg(long, default_value = "")]
    device: DeviceSpec,
    /// Prints results as lines of JSON.
    #[arg(long)]
    json: bool,
}

/// The points' distances from the line: drawn once from a standard normal distribution.
const NOISE: [f32; 10] = [
    0.27, -1.21, 0.64, 1.08, -0.35, -0.92, 0.11, 1.46, -0.58, 0.39,
];
const TRUE_LINE: Line = Line {
    weight: 3.0,
    bias: 0.0,
};

/// Number of measurements of a benchmark, steps of a measurement, and warm-up steps.
const REPEATS: usize = 25;
const STEPS: usize = 4000;
const WARM_UP: usize = 2000;

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &flags.plot {
        check_name(path)?;
    }
    let data: Vec<(f32, f32)> = (0u8..10)
        .map(f32::from)
        .zip(NOISE)
        .map(|(x, noise)| (x, 3.0 * x + noise))
        .collect();

    let g = Graph::new();
    let [x, y, w, b, loss] = g.device(&flags.device, || {
        let x = g.placeholder("x", DType::F32, []);
        let y = g.placeholder("y", DType::F32, []);
        let w = g.variable("weight", 0.0f32);
        let b = g.variable("bias", 0.0f32);
        let y_predicted = x * w + b;
        let loss = (y - y_predicted).square().named("loss");
        [x, y, w.value(), b.value(), loss]
    });
    let train = GradientDescent::new(0.001).minimize(loss);

    // The steps are far too small for several threads.
    let session = Session::with_options(
        &g,
        SessionOptions::new().threads(1).for_device(&flags.device),
    )?;
    session.run(g.initializers(), [])?;
    if flags.benchmark {
        return benchmark(&session, [x, y], (train, loss), flags.json);
    }

    for epoch in 0..flags.epochs {
        let mut total = 0.0;
        for &(xi, yi) in &data {
            let (_, loss): (_, f32) = session.run((train, loss), [x.feed(xi), y.feed(yi)])?;
            total += loss;
        }
        output::line(format_args!(
            "Epoch {epoch}: {:.4}",
            total / data.len() as f32
        ));
    }

    let (weight, bias): (f32, f32) = session.run((w, b), [])?;
    let fitted = Line {
        weight: weight.into(),
        bias: bias.into(),
    };
    output::line(format_args!(
        "y = {:.4} x + {:.4}",
        fitted.weight, fitted.bias
    ));
    if let Some(path) = &flags.plot {
        let points: Vec<(f64, f64)> = data.iter().map(|&(x, y)| (x.into(), y.into())).collect();
        scatter_with_lines(path, &points, TRUE_LINE, fitted)?;
        output::line(format_args!("drawn: {}", path.display()));
    }
    Ok(())
}

/// Prints the time of a training step in microseconds.
fn benchmark<'g>(
    session: &Session<'g>,
    [x, y]: [Output<'g>; 2],
    step: (Operation<'g>, Output<'g>),
    json: bool,
) -> Result<(), Box<dyn Error>> {
    let run = measure(|| {
        let feeds = [x.feed(1.0f32), y.feed(3.0f32)];
        let ((), loss) = session.run(step, feeds)?;
        Ok(loss)
    })?;
    let mut callable = session.callable(step, [x, y])?;
    let feeds: [Tensor; 2] = [1.0f32.into(), 3.0f32.into()];
    let call = measure(|| Ok(callable.call(&feeds)?.scalar(1)?))?;

    let results = [
        ("linear_regression_step_run", run),
        ("linear_regression_step_callable", call),
    ];
    if json {
        for (workload, spread) in results {
            let outcome = Outcome {
                workload,
                batch: 1,
                value: spread.median,
                unit: "us/step",
            };
            output::line(outcome.json());
        }
    } else {
        let rows = results.map(|(workload, spread)| {
            let number = |value: f64| format!("{value:.3}");
            [
                workload.into(),
                number(spread.median),
                number(spread.jitter),
            ]
        });
        output::line(table(["workload", "us/step", "+-"], rows));
    }
    Ok(())
}

/// Time of a call of `step` in microseconds: the spread of several measurements.
fn measure(
    mut step: impl FnMut() -> Result<f32, Box<dyn Error>>,
) -> Result<Spread, Box<dyn Error>> {
    let mut times = Vec::with_capacity(REPEATS);
    for _ in 0..WARM_UP {
        black_box(step()?);
    }
    for _ in 0..REPEATS {
        let start = Instant::now();
        for _ in 0..STEPS {
            black_box(step()?);
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / STEPS as f64);
    }
    Ok(Spread::of(&times).ok_or("nothing was measured")?)
}
