//! LARS, for large batches: <https://arxiv.org/abs/1708.03888>.

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;

use super::optimizer::Optimizer;
use super::trust_ratio::{norm, ratio_or_one};
use super::updates::Updates;
use super::weight_decay::WeightDecay;
use crate::rate::Rate;

/// LARS: momentum with a rate for each layer, by the norms of its weights and of its gradient. `local =
/// trust_coefficient * |var| / (|gradient| + weight_decay * |var|)`, or 1 if one of the norms is 0; `accum = momentum *
/// accum + rate * local * (gradient + weight_decay * var)`; and `var -= accum`. The slot is `var/Lars` (`accum`), from
/// zeros.
///
/// Large rates need a warm-up: see [`linear_warmup`](crate::schedules::linear_warmup).
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
/// use thalweg_session::Session;
/// use thalweg_optim::{Lars, Optimizer};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("w", [3.0f32, 4.0]);
/// let loss = (w.value() * 1000.0).sum();
/// let lars = Lars::new(1.0).trust_coefficient(0.1).weight_decay(0.0);
/// let train = lars.minimize(loss);
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(train, [])?;
/// // However steep the loss is, the first step is as long as a tenth of the weights.
/// let now: Vec<f32> = session.run(w, [])?;
/// assert!((now[0] - (3.0 - 0.5 / 2.0f32.sqrt())).abs() < 1e-5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lars<'g> {
    learning_rate: Rate<'g>,
    momentum: Rate<'g>,
    trust_coefficient: f32,
    nesterov: bool,
    decay: WeightDecay,
}

impl<'g> Lars<'g> {
    /// LARS with this learning rate, momentum 0.9, trust coefficient 0.001 and weight decay 0.0001.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Lars<'g> {
        Lars {
            learning_rate: learning_rate.into(),
            momentum: Rate::Number(0.9),
            trust_coefficient: 0.001,
            nesterov: false,
            decay: WeightDecay::new(0.0001),
        }
    }

    /// Momentum: the share of the last step in the next, in 0..1.
    pub fn momentum(self, momentum: impl Into<Rate<'g>>) -> Lars<'g> {
        let momentum = momentum.into();
        Lars { momentum, ..self }
    }

    /// Trust coefficient: the length of a step, as a multiple of the rate and the layer's norm.
    pub fn trust_coefficient(self, trust_coefficient: f32) -> Lars<'g> {
        Lars {
            trust_coefficient,
            ..self
        }
    }

    /// Like [`Momentum::nesterov`](super::Momentum::nesterov). Off by default.
    pub fn nesterov(self, nesterov: bool) -> Lars<'g> {
        Lars { nesterov, ..self }
    }

    /// Share of a variable that is added to its gradient.
    pub fn weight_decay(self, weight_decay: f32) -> Lars<'g> {
        Lars {
            decay: self.decay.amount(weight_decay),
            ..self
        }
    }

    /// Excludes variables, by their names, from the decay and from the rate of the layer: biases and scales of
    /// normalisations, for example.
    pub fn exclude(self, excluded: fn(&str) -> bool) -> Lars<'g> {
        Lars {
            decay: self.decay.exclude(excluded),
            ..self
        }
    }

    /// The gradient, with the decay, times the rate of this variable.
    #[track_caller]
    fn scaled(
        &self,
        updates: &mut Updates<'g>,
        gradient: Output<'g>,
        variable: Variable<'g>,
    ) -> Output<'g> {
        let learning_rate = updates.rate("learning_rate", self.learning_rate, variable);
        if self.decay.excludes(variable) {
            return updates.colocate(variable, || gradient * learning_rate);
        }
        updates.colocate(variable, || {
            let value = variable.read();
            let norms @ [of_value, of_gradient] = [norm(value), norm(gradient)];
            let divisor = self.decay.added(of_gradient, of_value, variable);
            let trust = of_value * f64::from(self.trust_coefficient) / divisor;
            let rate = learning_rate * ratio_or_one(norms, trust, value);
            self.decay.added(gradient, value, variable) * rate
        })
    }
}

impl<'g> Optimizer<'g> for Lars<'g> {
    fn name(&self) -> &'static str {
        "Lars"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let mut nodes = Vec::with_capacity(gradients.len());
        for &(gradient, variable) in gradients {
            let accum = updates.slot(variable, "Lars", 0.0);
            let scaled = self.scaled(updates, gradient, variable);
            // The rate is part of the accumulator, as in the paper, and not applied when the variable is updated.
            let one = updates.rate("one", Rate::Number(1.0), variable);
            let momentum = updates.rate("momentum", self.momentum, variable);
            let node = updates
                .node("ResourceApplyMomentum", variable)
                .input(accum.handle())
                .input(one)
                .input(scaled)
                .input(momentum)
                .attr("use_nesterov", self.nesterov);
            nodes.push(node.build());
        }
        nodes
    }
}
