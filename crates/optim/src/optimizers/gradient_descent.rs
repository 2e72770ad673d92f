//! GradientDescent, Momentum.

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;

use super::optimizer::Optimizer;
use super::updates::Updates;
use super::weight_decay::WeightDecay;
use crate::rate::Rate;

/// Gradient descent: `var -= rate * gradient`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_optim::{GradientDescent, Optimizer};
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
/// assert_eq!(session.run::<f32>(w, [])?, 2.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GradientDescent<'g> {
    learning_rate: Rate<'g>,
}

impl<'g> GradientDescent<'g> {
    /// Gradient descent with this learning rate.
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
///
/// With a weight decay it is SGDW (<https://arxiv.org/abs/1711.05101>): `var -= rate * weight_decay * var` too, with
/// `var` from before the step.
#[derive(Clone, Copy, Debug)]
pub struct Momentum<'g> {
    learning_rate: Rate<'g>,
    momentum: Rate<'g>,
    nesterov: bool,
    decay: WeightDecay,
}

impl<'g> Momentum<'g> {
    /// Gradient descent with this learning rate and momentum.
    pub fn new(learning_rate: impl Into<Rate<'g>>, momentum: impl Into<Rate<'g>>) -> Momentum<'g> {
        Momentum {
            learning_rate: learning_rate.into(),
            momentum: momentum.into(),
            nesterov: false,
            decay: WeightDecay::new(0.0),
        }
    }

    /// Enables Nesterov's momentum: `var -= rate * (gradient + accum * momentum)`. Off by default.
    pub fn nesterov(self, nesterov: bool) -> Momentum<'g> {
        Momentum { nesterov, ..self }
    }

    /// Weight decay per step, as a multiple of the rate; 0 by default.
    pub fn weight_decay(self, weight_decay: f32) -> Momentum<'g> {
        Momentum {
            decay: self.decay.amount(weight_decay),
            ..self
        }
    }

    /// Excludes variables from the decay by their names: biases, for example.
    pub fn exclude(self, excluded: fn(&str) -> bool) -> Momentum<'g> {
        Momentum {
            decay: self.decay.exclude(excluded),
            ..self
        }
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
            let node = self
                .decay
                .before(node, updates, self.learning_rate, variable);
            nodes.push(node.build());
        }
        nodes
    }
}
