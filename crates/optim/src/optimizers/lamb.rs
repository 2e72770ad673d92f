//! LAMB, for large batches: <https://arxiv.org/abs/1904.00962>.

use thalweg_graph::{Operation, Output};
use thalweg_ops::{MathOps, Variable};

use super::moments::Moments;
use super::optimizer::Optimizer;
use super::trust_ratio::{norm, ratio_or_one};
use super::updates::{Updates, power, raise};
use super::weight_decay::WeightDecay;
use crate::rate::Rate;

/// LAMB: Adam's step and a weight decay, scaled to the variable's norm times the rate. At step `t`, from 1:
/// `m = beta1 * m + (1 - beta1) * gradient`, `v = beta2 * v + (1 - beta2) * gradient^2`,
/// `r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * var`, and `var -= rate * |var| / |r| * r`; the quotient of the norms is 1 if
/// one of them is 0.
///
/// The slots are `var/Lamb` (`m`) and `var/Lamb_1` (`v`), from zeros; `beta1_power` and `beta2_power`
/// are untrained `f32` variables that all variables share. Defaults are those of Keras's `Lamb`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
/// use thalweg_session::Session;
/// use thalweg_optim::{Lamb, Optimizer};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("dense/kernel", [3.0f32, 4.0]);
/// let b = g.variable("dense/bias", [3.0f32, 4.0]);
/// let loss = (w.value() + b).sum();
/// let train = Lamb::new(0.1).exclude(|name| name.ends_with("bias")).minimize(loss);
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(train, [])?;
/// let (w, b): (Vec<f32>, Vec<f32>) = session.run((w, b), [])?;
/// // The norm of the weights is 5, so the step's is a tenth of that; Adam's step is a tenth for each.
/// let step = 0.5 / 2.0f32.sqrt();
/// assert!((w[0] - (3.0 - step)).abs() < 1e-5);
/// assert!((b[0] - 2.9).abs() < 1e-5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lamb<'g> {
    learning_rate: Rate<'g>,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    decay: WeightDecay,
}

impl<'g> Lamb<'g> {
    /// LAMB with this learning rate (Keras's default is 0.001), betas 0.9 and 0.999, epsilon 1e-7 and no weight decay;
    /// the paper has 0.01.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Lamb<'g> {
        Lamb {
            learning_rate: learning_rate.into(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-7,
            decay: WeightDecay::new(0.0),
        }
    }

    /// Decays of the means per step: of the gradient and of its square, in 0..1.
    pub fn betas(self, beta1: f32, beta2: f32) -> Lamb<'g> {
        Lamb {
            beta1,
            beta2,
            ..self
        }
    }

    /// Constant added to the root of the mean square before the division.
    pub fn epsilon(self, epsilon: f32) -> Lamb<'g> {
        Lamb { epsilon, ..self }
    }

    /// Share of a variable that is added to its step.
    pub fn weight_decay(self, weight_decay: f32) -> Lamb<'g> {
        Lamb {
            decay: self.decay.amount(weight_decay),
            ..self
        }
    }

    /// Excludes variables, by their names, from the decay and from the scaling by their norm: biases and scales of
    /// normalisations, for example.
    pub fn exclude(self, excluded: fn(&str) -> bool) -> Lamb<'g> {
        Lamb {
            decay: self.decay.exclude(excluded),
            ..self
        }
    }
}

impl<'g> Optimizer<'g> for Lamb<'g> {
    fn name(&self) -> &'static str {
        "Lamb"
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
        let betas = [self.beta1, self.beta2];
        let powers = [
            power(first, "beta1_power", self.beta1),
            power(first, "beta2_power", self.beta2),
        ];
        let mut nodes = Vec::with_capacity(3 * gradients.len() + 2);
        for &(gradient, variable) in gradients {
            let Moments { m, v, keep } = Moments::new(updates, "Lamb", betas, (gradient, variable));
            let mut rate = |name, rate: Rate<'g>| updates.rate(name, rate, variable);
            let learning_rate = rate("learning_rate", self.learning_rate);
            let beta1_power = rate("beta1_power", powers[0].into());
            let beta2_power = rate("beta2_power", powers[1].into());
            nodes.extend(keep);
            nodes.push(updates.colocate(variable, || {
                let value = variable.read();
                let root = (v / (1.0 - beta2_power)).sqrt() + f64::from(self.epsilon);
                let step = m / (1.0 - beta1_power) / root;
                let step = self.decay.added(step, value, variable);
                let rate = match self.decay.excludes(variable) {
                    true => learning_rate,
                    false => {
                        let norms = [norm(value), norm(step)];
                        learning_rate * ratio_or_one(norms, norms[0] / norms[1], value)
                    }
                };
                variable.assign_sub(step * rate)
            }));
        }
        nodes.push(raise(powers[0], self.beta1));
        nodes.push(raise(powers[1], self.beta2));
        nodes
    }
}
