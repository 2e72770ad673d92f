//! Adam: <https://arxiv.org/abs/1412.6980>, in the form of its section 2 that puts both bias
//! corrections into the rate.

use thalweg_graph::{Operation, Output};
use thalweg_ops::{StateOps, Variable};

use super::updates::beside;
use super::{Optimizer, Updates};
use crate::rate::Rate;

/// Adam. The slots are `var/Adam`, the mean of the gradient, and `var/Adam_1`, that of its square;
/// `beta1_power` and `beta2_power` are untrained `f32` variables that all variables share.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_train::{Adam, Optimizer};
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
/// let now = session.run(w, [])?.scalar::<f32>(0)?;
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
    /// With this learning rate (TensorFlow's default is 0.001), betas 0.9 and 0.999 and epsilon
    /// 1e-8.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Adam<'g> {
        Adam {
            learning_rate: learning_rate.into(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        }
    }

    /// How much of the means is kept each step: of the gradient's and of its square's, in 0..1.
    pub fn betas(self, beta1: f32, beta2: f32) -> Adam<'g> {
        Adam {
            beta1,
            beta2,
            ..self
        }
    }

    /// What is added to the root of the mean square before it divides: the `epsilon hat` of the
    /// paper.
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
        let graph = updates.graph();
        let Some(&(_, first)) = gradients.first() else {
            return Vec::new();
        };
        // At the root, where TensorFlow's checkpoints have them, and beside the first variable.
        let power = |name: &str, beta: f32| {
            let scoped = || beside(first, || graph.untrained_variable(name, beta));
            graph.name_scope("/", scoped)
        };
        let powers = [
            power("beta1_power", self.beta1),
            power("beta2_power", self.beta2),
        ];
        let mut nodes = Vec::with_capacity(gradients.len() + 2);
        for &(gradient, variable) in gradients {
            let m = updates.slot(variable, "Adam", 0.0);
            let v = updates.slot(variable, "Adam", 0.0);
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
            nodes.push(node.build());
        }
        // The powers are read before this, with all else that the step reads.
        for (power, beta) in powers.into_iter().zip([self.beta1, self.beta2]) {
            nodes.push(beside(first, || power.assign(power * f64::from(beta))));
        }
        nodes
    }
}
