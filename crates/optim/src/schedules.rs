//! Learning-rate schedules: `f32` scalars that follow the global step, computed in each step that reads them. The
//! functions and their arguments are those of `tf.compat.v1.train`.
//!
//! A schedule is an output, and an optimizer takes it in place of a number.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_session::Session;
//! use thalweg_optim::schedules::piecewise_constant;
//! use thalweg_optim::{GradientDescent, Optimizer, create_global_step};
//!
//! # fn main() -> Result<(), thalweg_session::SessionError> {
//! let g = Graph::new();
//! let w = g.variable("w", 1.0f32);
//! let step = create_global_step(&g);
//! // 0.1 in the first two steps, then 0.01.
//! let rate = piecewise_constant(step, &[1], &[0.1, 0.01]);
//! let train = GradientDescent::new(rate).minimize_counting(w.value().square(), step);
//!
//! let session = Session::new(&g)?;
//! session.run(g.initializers(), [])?;
//! for expected in [0.1, 0.1, 0.01] {
//!     let (rate, _): (f32, _) = session.run((rate, train), [])?;
//!     assert_eq!(rate, expected);
//! }
//! # Ok(())
//! # }
//! ```

use std::f64::consts::PI;

use thalweg_graph::{Graph, Output, Reason, Value};
use thalweg_ops::{ArrayOps, MathOps};
use thalweg_tensor::DType;

use crate::rate::Rate;

/// `rate * decay_rate ^ (step / decay_steps)`; `staircase` rounds the exponent down.
#[track_caller]
pub fn exponential_decay<'g>(
    rate: f32,
    global_step: impl Into<Output<'g>>,
    decay_steps: u32,
    decay_rate: f32,
    staircase: bool,
) -> Output<'g> {
    schedule("ExponentialDecay", global_step.into(), |step| {
        let passed = passed(step, decay_steps, staircase);
        step.number(decay_rate).pow(passed) * f64::from(rate)
    })
}

/// `rate * e ^ (-decay_rate * step / decay_steps)`; `staircase` rounds the quotient down.
#[track_caller]
pub fn natural_exp_decay<'g>(
    rate: f32,
    global_step: impl Into<Output<'g>>,
    decay_steps: u32,
    decay_rate: f32,
    staircase: bool,
) -> Output<'g> {
    schedule("NaturalExpDecay", global_step.into(), |step| {
        let exponent = passed(step, decay_steps, staircase) * f64::from(-decay_rate);
        exponent.exp() * f64::from(rate)
    })
}

/// `rate / (1 + decay_rate * step / decay_steps)`; `staircase` rounds the quotient down.
#[track_caller]
pub fn inverse_time_decay<'g>(
    rate: f32,
    global_step: impl Into<Output<'g>>,
    decay_steps: u32,
    decay_rate: f32,
    staircase: bool,
) -> Output<'g> {
    schedule("InverseTimeDecay", global_step.into(), |step| {
        let passed = passed(step, decay_steps, staircase);
        step.number(rate) / (passed * f64::from(decay_rate) + 1.0)
    })
}

/// From `rate` to `end_rate` in `decay_steps` steps, by a polynomial of degree `power`:
/// `(rate - end_rate) * (1 - step / decay_steps) ^ power + end_rate`, and `end_rate` afterwards.
///
/// With `cycle`, the rate then goes up again: `decay_steps` is replaced by its smallest multiple that is not below
/// `step`.
#[track_caller]
pub fn polynomial_decay<'g>(
    rate: f32,
    global_step: impl Into<Output<'g>>,
    decay_steps: u32,
    end_rate: f32,
    power: f32,
    cycle: bool,
) -> Output<'g> {
    schedule("PolynomialDecay", global_step.into(), |step| {
        let steps = step.count("decay_steps", decay_steps);
        let fraction = if cycle {
            // Rounded up: the negative of the negative, rounded down. At least one cycle.
            let cycles = -(-step.at).floor_div(steps);
            let cycles = cycles.maximum(1.0f32);
            step.at / (steps * cycles)
        } else {
            step.at.minimum(steps) / steps
        };
        let left = (1.0 - fraction).pow(power);
        left * (f64::from(rate) - f64::from(end_rate)) + f64::from(end_rate)
    })
}

/// From `rate` to `alpha * rate` in `decay_steps` steps along half a period of a cosine
/// (<https://arxiv.org/abs/1608.03983>): `rate * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) /
/// 2 + alpha)`, and the last value afterwards.
#[track_caller]
pub fn cosine_decay<'g>(
    rate: f32,
    global_step: impl Into<Output<'g>>,
    decay_steps: u32,
    alpha: f32,
) -> Output<'g> {
    schedule("CosineDecay", global_step.into(), |step| {
        let steps = step.count("decay_steps", decay_steps);
        let fraction = step.at.minimum(steps) / steps;
        let (rate, alpha) = (f64::from(rate), f64::from(alpha));
        (cos_pi(fraction) * 0.5 + 0.5) * (rate * (1.0 - alpha)) + rate * alpha
    })
}

/// From `start` to `rate` in `warmup_steps` steps, linearly, and `rate` afterwards. Large rates, as those of
/// [`Lars`](crate::Lars) and [`Lamb`](crate::Lamb), need a warm-up. `rate` may be another schedule: `rate * f + start *
/// (1 - f)` where `f = min(step / warmup_steps, 1)`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::{Feeding, Session};
/// use thalweg_tensor::DType;
/// use thalweg_optim::schedules::{linear_warmup, polynomial_decay};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let step = g.placeholder("step", DType::I64, []);
/// let decay = polynomial_decay(1.0, step, 100, 0.0, 1.0, false);
/// let rate = linear_warmup(decay, step, 10, 0.0);
///
/// let session = Session::new(&g)?;
/// let at = |n: i64| session.run::<f32>(rate, [step.feed(n)]);
/// assert_eq!(at(0)?, 0.0);
/// assert_eq!(at(5)?, 0.475);
/// assert_eq!(at(50)?, 0.5);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn linear_warmup<'g>(
    rate: impl Into<Rate<'g>>,
    global_step: impl Into<Output<'g>>,
    warmup_steps: u32,
    start: f32,
) -> Output<'g> {
    let rate = rate.into();
    schedule("LinearWarmup", global_step.into(), |step| {
        let rate = rate.on(step.graph, "rate", DType::F32);
        let steps = step.count("warmup_steps", warmup_steps);
        let passed = (step.at / steps).minimum(1.0f32);
        rate * passed + (1.0 - passed) * f64::from(start)
    })
}

/// `values[0]` up to and at step `boundaries[0]`, then `values[1]` up to `boundaries[1]`, and so on; the last value
/// after the last boundary. The boundaries ascend, and there is one value more than there are boundaries; otherwise the
/// graph keeps a mistake.
#[track_caller]
pub fn piecewise_constant<'g>(
    global_step: impl Into<Output<'g>>,
    boundaries: &[i64],
    values: &[f32],
) -> Output<'g> {
    let step = global_step.into();
    let graph = step.graph();
    let mistake = if !boundaries.is_sorted_by(|a, b| a < b) {
        "the boundaries do not ascend".to_owned()
    } else if values.len() != boundaries.len() + 1 {
        let (b, v) = (boundaries.len(), values.len());
        format!(
            "the number of values is {v}, and must be {}: one more than boundaries",
            b + 1
        )
    } else {
        let build = || {
            let at = step.cast(DType::I64);
            let constant = |value: f32| Value::from(value).on(graph);
            let mut values = values.iter().map(|&v| constant(v));
            let first = values.next().unwrap_or_else(|| graph.invalid());
            boundaries
                .iter()
                .zip(values)
                .fold(first, |rate, (&b, value)| at.greater(b).select(value, rate))
        };
        return graph.at_caller(|| graph.name_scope("PiecewiseConstant", build));
    };
    let name = "PiecewiseConstant";
    graph.fail(name, "piecewise_constant", Reason::Argument(mistake))
}

/// The global step that a schedule reads, as `f32`.
#[derive(Clone, Copy)]
struct ScheduleStep<'g> {
    graph: &'g Graph,
    at: Output<'g>,
}

impl<'g> ScheduleStep<'g> {
    #[track_caller]
    fn number(self, value: f32) -> Output<'g> {
        Value::from(value).on(self.graph)
    }

    /// A number of steps as a divisor.
    #[track_caller]
    fn count(self, name: &str, steps: u32) -> Output<'g> {
        if steps == 0 {
            let text = format!("{name} is 0: give the number of steps that it takes");
            return self.graph.fail(name, "Const", Reason::Argument(text));
        }
        self.number(steps as f32)
    }
}

#[track_caller]
fn schedule<'g>(
    scope: &str,
    global_step: Output<'g>,
    build: impl FnOnce(ScheduleStep<'g>) -> Output<'g>,
) -> Output<'g> {
    let graph = global_step.graph();
    let build = || {
        let at = global_step.cast(DType::F32);
        build(ScheduleStep { graph, at })
    };
    graph.at_caller(|| graph.name_scope(scope, build))
}

/// `step / decay_steps`.
#[track_caller]
fn passed<'g>(step: ScheduleStep<'g>, decay_steps: u32, staircase: bool) -> Output<'g> {
    let steps = step.count("decay_steps", decay_steps);
    if staircase {
        step.at.floor_div(steps)
    } else {
        step.at / steps
    }
}

/// `cos(pi * x)` for `x` in 0..=1.
///
/// It is `-sin(pi * (x - 1/2))`, by the series of the sine to its seventh term: the eighth is below 7e-10 there, a
/// hundredth of the value of the last bit of an `f32` near 1.
#[track_caller]
fn cos_pi(x: Output<'_>) -> Output<'_> {
    let s = (x - 0.5) * PI;
    let square = s * s;
    // From the innermost: 1 - s^2 / (2 * 3) * (1 - s^2 / (4 * 5) * (...)).
    let mut series = square * (-1.0 / (12.0 * 13.0)) + 1.0;
    for n in (2..12).step_by(2).rev() {
        series = series * square * (-1.0 / f64::from(n * (n + 1))) + 1.0;
    }
    -(s * series)
}
