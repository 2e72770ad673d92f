//! Adam (<https://arxiv.org/abs/1412.6980>, in the form of its section 2 that puts both bias corrections into the rate)
//! and AdamW.

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;

use super::optimizer::Optimizer;
use super::updates::{Updates, power, raise};
use super::weight_decay::WeightDecay;
use crate::rate::Rate;

/// Adam. The slots are `var/Adam`, the mean of the gradient, and `var/Adam_1`, that of its square;
/// `beta1_power` and `beta2_power` are untrained `f32` variables that all variables share.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_optim::{Adam, Optimizer};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("w", 1.0f32);
/// let train = Adam::new(0.1).betas(0.9, 0.99).minimize(w.value().square());
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(train, [])?;
/// // The first step is as long as the rate, however steep the loss is.
/// let now = session.run::<f32>(w, [])?;
/// assert!((now - 0.9).abs() < 1e-5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Adam<'g> {
    learning_rate: Rate<'g>,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
}

impl<'g> Adam<'g> {
    /// Adam with this learning rate (TensorFlow's default is 0.001), betas 0.9 and 0.999 and epsilon 1e-8.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Adam<'g> {
        Adam {
            learning_rate: learning_rate.into(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        }
    }

    /// Decays of the means per step: of the gradient and of its square, in 0..1.
    pub fn betas(self, beta1: f32, beta2: f32) -> Adam<'g> {
        Adam {
            beta1,
            beta2,
            ..self
        }
    }

    /// Constant added to the root of the mean square before the division: the `epsilon hat` of the paper.
    pub fn epsilon(self, epsilon: f32) -> Adam<'g> {
        Adam { epsilon, ..self }
    }
}

impl<'g> Optimizer<'g> for Adam<'g> {
    fn name(&self) -> &'static str {
        "Adam"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        self.decaying("Adam", WeightDecay::new(0.0), updates, gradients)
    }
}

impl<'g> Adam<'g> {
    /// Builds the update with slots of this name and a weight decay.
    #[track_caller]
    fn decaying(
        &self,
        slot: &str,
        decay: WeightDecay,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let Some(&(_, first)) = gradients.first() else {
            return Vec::new();
        };
        let powers = [
            power(first, "beta1_power", self.beta1),
            power(first, "beta2_power", self.beta2),
        ];
        let mut nodes = Vec::with_capacity(gradients.len() + 2);
        for &(gradient, variable) in gradients {
            let m = updates.slot(variable, slot, 0.0);
            let v = updates.slot(variable, slot, 0.0);
            let mut rate = |name, rate: Rate<'g>| updates.rate(name, rate, variable);
            let scalars = [
                rate("beta1_power", powers[0].into()),
                rate("beta2_power", powers[1].into()),
                rate("learning_rate", self.learning_rate),
                rate("beta1", self.beta1.into()),
                rate("beta2", self.beta2.into()),
                rate("epsilon", self.epsilon.into()),
            ];
            let node = updates
                .node("ResourceApplyAdam", variable)
                .input(m.handle())
                .input(v.handle())
                .inputs(scalars)
                .input(gradient);
            let node = decay.before(node, updates, self.learning_rate, variable);
            nodes.push(node.build());
        }
        // The powers are read before this, like all other variables of the step.
        nodes.push(raise(powers[0], self.beta1));
        nodes.push(raise(powers[1], self.beta2));
        nodes
    }
}

/// AdamW, Adam with decoupled weight decay (<https://arxiv.org/abs/1711.05101>): as [`Adam`], and `var -= rate *
/// weight_decay * var`, with `var` from before the step. The slots are `var/AdamW` and `var/AdamW_1`. Defaults and
/// formula are those of Keras's `AdamW`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
/// use thalweg_session::Session;
/// use thalweg_optim::{AdamW, Optimizer};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("dense/kernel", [1.0f32, -1.0]);
/// let b = g.variable("dense/bias", [0.5f32, 0.5]);
/// // What AdamW does without a gradient is to let weights decay, but not biases.
/// let loss = ((w.value() + b) * 0.0).sum();
/// let decaying = AdamW::new(0.1).weight_decay(0.5).exclude(|name| name.ends_with("bias"));
/// let train = decaying.minimize(loss);
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(train, [])?;
/// let (w, b): ([f32; 2], [f32; 2]) = session.run((w, b), [])?;
/// assert_eq!((w, b), ([0.95, -0.95], [0.5, 0.5]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AdamW<'g> {
    adam: Adam<'g>,
    decay: WeightDecay,
}

impl<'g> AdamW<'g> {
    /// AdamW with this learning rate, weight decay 0.004, betas 0.9 and 0.999 and epsilon 1e-7.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> AdamW<'g> {
        AdamW {
            adam: Adam::new(learning_rate).epsilon(1e-7),
            decay: WeightDecay::new(0.004),
        }
    }

    /// Weight decay per step, as a multiple of the rate.
    pub fn weight_decay(self, weight_decay: f32) -> AdamW<'g> {
        AdamW {
            decay: self.decay.amount(weight_decay),
            ..self
        }
    }

    /// Excludes variables from the decay by their names: biases, for example.
    pub fn exclude(self, excluded: fn(&str) -> bool) -> AdamW<'g> {
        AdamW {
            decay: self.decay.exclude(excluded),
            ..self
        }
    }

    /// Like [`Adam::betas`].
    pub fn betas(self, beta1: f32, beta2: f32) -> AdamW<'g> {
        AdamW {
            adam: self.adam.betas(beta1, beta2),
            ..self
        }
    }

    /// Like [`Adam::epsilon`].
    pub fn epsilon(self, epsilon: f32) -> AdamW<'g> {
        AdamW {
            adam: self.adam.epsilon(epsilon),
            ..self
        }
    }
}

impl<'g> Optimizer<'g> for AdamW<'g> {
    fn name(&self) -> &'static str {
        "AdamW"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        self.adam.decaying("AdamW", self.decay, updates, gradients)
    }
}
