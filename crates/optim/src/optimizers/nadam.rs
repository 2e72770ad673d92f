//! Nadam, Adam with Nesterov's momentum: <https://cs229.stanford.edu/proj2015/054_report.pdf>.

use thalweg_graph::{Operation, Output};
use thalweg_ops::{MathOps, Variable};

use super::moments::Moments;
use super::optimizer::Optimizer;
use super::updates::{Updates, power, raise};
use crate::rate::Rate;

/// Factor per step of the difference between the momentum and its limit, as in Keras; the report has it for 250 steps.
/// The difference is half of the limit at step 0.
const MOMENTUM_DECAY: f32 = 0.96;

/// Nadam, with the momentum schedule of Keras's `Nadam`. At step `t`, from 1, with `u(t) = beta1 * (1 - 0.96^t / 2)`
/// and `p(t) = u(1) * ... * u(t)`: `m = beta1 * m + (1 - beta1) * gradient`, `v = beta2 * v + (1 - beta2) *
/// gradient^2`, and `var -= rate * ahead / (sqrt(v / (1 - beta2^t)) + epsilon)` where
/// `ahead = u(t + 1) * m / (1 - p(t + 1)) + (1 - u(t)) * gradient / (1 - p(t))`.
///
/// The slots are `var/Nadam` (`m`) and `var/Nadam_1` (`v`), from zeros; `beta2_power`,
/// `momentum_decay_power` and `momentum_product` are untrained `f32` variables that all variables
/// share.
#[derive(Clone, Copy, Debug)]
pub struct Nadam<'g> {
    learning_rate: Rate<'g>,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
}

impl<'g> Nadam<'g> {
    /// Nadam with this learning rate (Keras's default is 0.001), betas 0.9 and 0.999 and epsilon 1e-7.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Nadam<'g> {
        Nadam {
            learning_rate: learning_rate.into(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-7,
        }
    }

    /// Decays of the means per step: of the gradient and of its square, in 0..1.
    pub fn betas(self, beta1: f32, beta2: f32) -> Nadam<'g> {
        Nadam {
            beta1,
            beta2,
            ..self
        }
    }

    /// Constant added to the root of the mean square before the division.
    pub fn epsilon(self, epsilon: f32) -> Nadam<'g> {
        Nadam { epsilon, ..self }
    }
}

/// Values that all variables share in a step.
struct StepValues<'g> {
    /// Factors of the mean gradient and of the gradient in `ahead`.
    mean: Rate<'g>,
    gradient: Rate<'g>,
    beta2_power: Rate<'g>,
    /// Advances the powers to the next step.
    next: [Operation<'g>; 3],
}

impl<'g> StepValues<'g> {
    #[track_caller]
    fn new(first: Variable<'g>, beta1: f32, beta2: f32) -> StepValues<'g> {
        let beta2_power = power(first, "beta2_power", beta2);
        let decay = power(first, "momentum_decay_power", MOMENTUM_DECAY);
        let product = power(first, "momentum_product", 1.0);
        first.colocate(|| {
            let beta1 = f64::from(beta1);
            let momentum = |decay: Output<'g>| beta1 * (1.0 - decay * 0.5);
            let now = momentum(decay.value());
            let ahead = momentum(decay * f64::from(MOMENTUM_DECAY));
            let product_now = product * now;
            StepValues {
                mean: (ahead / (1.0 - product_now * ahead)).into(),
                gradient: ((1.0 - now) / (1.0 - product_now)).into(),
                beta2_power: beta2_power.into(),
                next: [
                    raise(beta2_power, beta2),
                    raise(decay, MOMENTUM_DECAY),
                    product.assign(product_now),
                ],
            }
        })
    }
}

impl<'g> Optimizer<'g> for Nadam<'g> {
    fn name(&self) -> &'static str {
        "Nadam"
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
        let shared = StepValues::new(first, self.beta1, self.beta2);
        let mut nodes = Vec::with_capacity(3 * gradients.len() + 3);
        for &(gradient, variable) in gradients {
            let Moments { m, v, keep } =
                Moments::new(updates, "Nadam", betas, (gradient, variable));
            let mut rate = |name, rate: Rate<'g>| updates.rate(name, rate, variable);
            let learning_rate = rate("learning_rate", self.learning_rate);
            let beta2_power = rate("beta2_power", shared.beta2_power);
            let of_mean = rate("of_mean", shared.mean);
            let of_gradient = rate("of_gradient", shared.gradient);
            nodes.extend(keep);
            nodes.push(updates.colocate(variable, || {
                let ahead = m * of_mean + gradient * of_gradient;
                let root = (v / (1.0 - beta2_power)).sqrt() + f64::from(self.epsilon);
                variable.assign_sub(ahead * learning_rate / root)
            }));
        }
        nodes.extend(shared.next);
        nodes
    }
}
