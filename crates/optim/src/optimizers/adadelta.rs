//! Adadelta: <https://arxiv.org/abs/1212.5701>.

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;

use super::optimizer::Optimizer;
use super::updates::Updates;
use crate::rate::Rate;

/// Adadelta: `accum = rho * accum + (1 - rho) * gradient^2`,
/// `update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * gradient`, `var -= rate * update`,
/// and `accum_update = rho * accum_update + (1 - rho) * update^2`.
///
/// The slots are `var/Adadelta` (`accum`) and `var/Adadelta_1` (`accum_update`), from zeros.
#[derive(Clone, Copy, Debug)]
pub struct Adadelta<'g> {
    learning_rate: Rate<'g>,
    rho: f32,
    epsilon: f32,
}

impl<'g> Adadelta<'g> {
    /// Adadelta with this learning rate (1 in the paper; TensorFlow's default is 0.001), rho 0.95 and epsilon 1e-8.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Adadelta<'g> {
        Adadelta {
            learning_rate: learning_rate.into(),
            rho: 0.95,
            epsilon: 1e-8,
        }
    }

    /// Decay of the mean squares per step, in 0..1.
    pub fn rho(self, rho: f32) -> Adadelta<'g> {
        Adadelta { rho, ..self }
    }

    /// Constant added to the mean squares under the roots.
    pub fn epsilon(self, epsilon: f32) -> Adadelta<'g> {
        Adadelta { epsilon, ..self }
    }
}

impl<'g> Optimizer<'g> for Adadelta<'g> {
    fn name(&self) -> &'static str {
        "Adadelta"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let mut nodes = Vec::with_capacity(gradients.len());
        for &(gradient, variable) in gradients {
            let accum = updates.slot(variable, "Adadelta", 0.0);
            let accum_update = updates.slot(variable, "Adadelta", 0.0);
            let mut rate = |name, rate: Rate<'g>| updates.rate(name, rate, variable);
            let scalars = [
                rate("learning_rate", self.learning_rate),
                rate("rho", self.rho.into()),
                rate("epsilon", self.epsilon.into()),
            ];
            let node = updates
                .node("ResourceApplyAdadelta", variable)
                .inputs([accum.handle(), accum_update.handle()])
                .inputs(scalars)
                .input(gradient);
            nodes.push(node.build());
        }
        nodes
    }
}
