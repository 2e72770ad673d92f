//! Gradient descent, plain and with momentum.

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;

use super::{Optimizer, Updates};
use crate::rate::Rate;

/// Gradient descent: `var -= rate * gradient`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_train::{GradientDescent, Optimizer};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("w", 4.0f32);
/// let train = GradientDescent::new(0.25).minimize(w.value().square());
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(train, [])?;
/// // 4 - 0.25 * (2 * 4)
/// assert_eq!(session.run(w, [])?.scalar::<f32>(0)?, 2.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GradientDescent<'g> {
    learning_rate: Rate<'g>,
}

impl<'g> GradientDescent<'g> {
    /// With this learning rate.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> GradientDescent<'g> {
        GradientDescent {
            learning_rate: learning_rate.into(),
        }
    }
}

impl<'g> Optimizer<'g> for GradientDescent<'g> {
    fn name(&self) -> &'static str {
        "GradientDescent"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let mut nodes = Vec::with_capacity(gradients.len());
        for &(gradient, variable) in gradients {
            let rate = updates.rate("learning_rate", self.learning_rate, variable);
            let node = updates.node("ResourceApplyGradientDescent", variable);
            nodes.push(node.input(rate).input(gradient).build());
        }
        nodes
    }
}

/// Gradient descent along a decaying sum of gradients: `accum = accum * momentum + gradient`, and
/// `var -= rate * accum`. The slot is `var/Momentum`.
#[derive(Clone, Copy, Debug)]
pub struct Momentum<'g> {
    learning_rate: Rate<'g>,
    momentum: Rate<'g>,
    nesterov: bool,
}

impl<'g> Momentum<'g> {
    /// With this learning rate and momentum.
    pub fn new(learning_rate: impl Into<Rate<'g>>, momentum: impl Into<Rate<'g>>) -> Momentum<'g> {
        Momentum {
            learning_rate: learning_rate.into(),
            momentum: momentum.into(),
            nesterov: false,
        }
    }

    /// Whether to look ahead: `var -= rate * (gradient + accum * momentum)`, after Nesterov. Off by
    /// default.
    pub fn nesterov(self, nesterov: bool) -> Momentum<'g> {
        Momentum { nesterov, ..self }
    }
}

impl<'g> Optimizer<'g> for Momentum<'g> {
    fn name(&self) -> &'static str {
        "Momentum"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let mut nodes = Vec::with_capacity(gradients.len());
        for &(gradient, variable) in gradients {
            let accum = updates.slot(variable, "Momentum", 0.0);
            let rate = updates.rate("learning_rate", self.learning_rate, variable);
            let momentum = updates.rate("momentum", self.momentum, variable);
            let node = updates
                .node("ResourceApplyMomentum", variable)
                .input(accum.handle())
                .input(rate)
                .input(gradient)
                .input(momentum)
                .attr("use_nesterov", self.nesterov);
            nodes.push(node.build());
        }
        nodes
    }
}
