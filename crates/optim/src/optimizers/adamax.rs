//! Adamax: section 7 of <https://arxiv.org/abs/1412.6980>.

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;

use super::optimizer::Optimizer;
use super::updates::{Updates, power, raise};
use crate::rate::Rate;

/// Adamax: `m = beta1 * m + (1 - beta1) * gradient`, `u = max(beta2 * u, |gradient|)`, and
/// `var -= rate / (1 - beta1^t) * m / (u + epsilon)` at step `t`, from 1. Formula and defaults are
/// those of Keras's `Adamax`.
///
/// The slots are `var/Adamax` (`m`) and `var/Adamax_1` (`u`), from zeros; `beta1_power` is an
/// untrained `f32` variable that all variables share.
#[derive(Clone, Copy, Debug)]
pub struct Adamax<'g> {
    learning_rate: Rate<'g>,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
}

impl<'g> Adamax<'g> {
    /// Adamax with this learning rate (Keras's default is 0.001), betas 0.9 and 0.999 and epsilon 1e-7.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Adamax<'g> {
        Adamax {
            learning_rate: learning_rate.into(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-7,
        }
    }

    /// Decays per step, in 0..1: of the mean gradient, and of the largest one.
    pub fn betas(self, beta1: f32, beta2: f32) -> Adamax<'g> {
        Adamax {
            beta1,
            beta2,
            ..self
        }
    }

    /// Constant added to the largest gradient before the division.
    pub fn epsilon(self, epsilon: f32) -> Adamax<'g> {
        Adamax { epsilon, ..self }
    }
}

impl<'g> Optimizer<'g> for Adamax<'g> {
    fn name(&self) -> &'static str {
        "Adamax"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let Some(&(_, first)) = gradients.first() else {
            return Vec::new();
        };
        let beta1_power = power(first, "beta1_power", self.beta1);
        let mut nodes = Vec::with_capacity(gradients.len() + 1);
        for &(gradient, variable) in gradients {
            let m = updates.slot(variable, "Adamax", 0.0);
            let u = updates.slot(variable, "Adamax", 0.0);
            let mut rate = |name, rate: Rate<'g>| updates.rate(name, rate, variable);
            let scalars = [
                rate("beta1_power", beta1_power.into()),
                rate("learning_rate", self.learning_rate),
                rate("beta1", self.beta1.into()),
                rate("beta2", self.beta2.into()),
                rate("epsilon", self.epsilon.into()),
            ];
            let node = updates
                .node("ResourceApplyAdaMax", variable)
                .inputs([m.handle(), u.handle()])
                .inputs(scalars)
                .input(gradient);
            nodes.push(node.build());
        }
        nodes.push(raise(beta1_power, self.beta1));
        nodes
    }
}
