//! Gradient clipping by value, by norm and by global norm.
//!
//! Too large a step makes a model worse. So gradients are bounded between [`compute_gradients`](crate::Optimizer::compute_gradients) and
//! [`apply_gradients`](crate::Optimizer::apply_gradients), here to a norm of 1 over all variables.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_session::Session;
//! use thalweg_optim::{GradientDescent, Optimizer, clip_by_global_norm};
//!
//! # fn main() -> Result<(), thalweg_session::SessionError> {
//! let g = Graph::new();
//! let w = g.variable("w", 4.0f32);
//! let optimizer = GradientDescent::new(0.5);
//! let (gradients, variables): (Vec<_>, Vec<_>) =
//!     optimizer.compute_gradients(w.value().square(), &[w]).into_iter().unzip();
//! let (clipped, norm) = clip_by_global_norm(&g, &gradients, 1.0);
//! let pairs: Vec<_> = clipped.into_iter().zip(variables).collect();
//! let train = optimizer.apply_gradients(&g, &pairs, None);
//!
//! let session = Session::new(&g)?;
//! session.run(g.initializers(), [])?;
//! let (before, ()): (f32, ()) = session.run((norm, train), [])?;
//! assert_eq!(before, 8.0);
//! assert_eq!(session.run::<f32>(w, [])?, 3.5);
//! # Ok(())
//! # }
//! ```

use thalweg_graph::{Graph, Output};
use thalweg_ops::{MathOps, ReduceOps, SumOps};
use thalweg_tensor::DType;

use crate::rate::Rate;

/// Clips each element of `x` to at least `low` and at most `high`. The limits are of the dtype of `x`.
#[track_caller]
pub fn clip_by_value<'g>(
    x: Output<'g>,
    low: impl Into<Rate<'g>>,
    high: impl Into<Rate<'g>>,
) -> Output<'g> {
    let (graph, dtype) = (x.graph(), x.dtype());
    scoped(graph, "clip_by_value", || {
        let low = low.into().on(graph, "low", dtype);
        let high = high.into().on(graph, "high", dtype);
        x.minimum(high).maximum(low)
    })
}

/// Scales `x` down to an L2 norm of `clip_norm` (above 0) if its norm is larger.
#[track_caller]
pub fn clip_by_norm<'g>(x: Output<'g>, clip_norm: impl Into<Rate<'g>>) -> Output<'g> {
    let (graph, dtype) = (x.graph(), x.dtype());
    scoped(graph, "clip_by_norm", || {
        let clip_norm = clip_norm.into().on(graph, "clip_norm", dtype);
        let square = x.l2_loss() * 2.0;
        // The square root has no gradient at zero: a zero norm bypasses it.
        let zero = square.equal(square.constant_like(0));
        let root = zero.select(square.constant_like(1), square).sqrt();
        let norm = zero.select(square, root);
        x * clip_norm / norm.maximum(clip_norm)
    })
}

/// L2 norm of all elements of `tensors` together, a scalar; 0 for no tensors. They have one dtype.
#[track_caller]
pub fn global_norm<'g>(graph: &'g Graph, tensors: &[Output<'g>]) -> Output<'g> {
    scoped(graph, "global_norm", || {
        let Some(first) = tensors.first() else {
            return Rate::Number(0.0).on(graph, "zero", DType::F32);
        };
        let halves = tensors
            .iter()
            .map(|&t| graph.op("L2Loss").input(t).output());
        let half = graph.add_n(&halves.collect::<Vec<_>>());
        let two = Rate::Number(2.0).on(graph, "two", first.dtype());
        (half * two).sqrt()
    })
}

/// Scales all `tensors` (of one dtype) down by one factor to a [`global_norm`] of `clip_norm` (above 0) if it is
/// larger. Returns them and that norm. A norm that is not finite makes every element NaN, so that the step is seen to
/// have failed.
#[track_caller]
pub fn clip_by_global_norm<'g>(
    graph: &'g Graph,
    tensors: &[Output<'g>],
    clip_norm: impl Into<Rate<'g>>,
) -> (Vec<Output<'g>>, Output<'g>) {
    let norm = global_norm(graph, tensors);
    let clipped = scoped(graph, "clip_by_global_norm", || {
        let clip_norm = clip_norm.into().on(graph, "clip_norm", norm.dtype());
        let one = norm.constant_like(1);
        let scale = clip_norm * (one / norm).minimum(one / clip_norm);
        // Zero if the norm is finite, and NaN otherwise.
        let zero_or_nan = norm * 0.0;
        let scale = scale + zero_or_nan;
        tensors.iter().map(|&t| t * scale).collect()
    });
    (clipped, norm)
}

/// Runs `build` in a name scope, with the caller's source line.
#[track_caller]
fn scoped<R>(graph: &Graph, scope: &str, build: impl FnOnce() -> R) -> R {
    graph.at_caller(|| graph.name_scope(scope, build))
}
