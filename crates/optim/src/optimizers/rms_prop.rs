//! RMSProp with momentum, plain and centered: <https://arxiv.org/abs/1308.0850>, equations 38 to 45.

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;

use super::optimizer::Optimizer;
use super::updates::Updates;
use crate::rate::Rate;

/// RMSProp: `ms = decay * ms + (1 - decay) * gradient^2`,
/// `mom = momentum * mom + rate * gradient / sqrt(ms + epsilon)`, and `var -= mom`.
///
/// The slots are `var/RMSProp` (`ms`, from ones), the mean gradient if centered, and `mom`.
#[derive(Clone, Copy, Debug)]
pub struct RmsProp<'g> {
    learning_rate: Rate<'g>,
    decay: f32,
    momentum: Rate<'g>,
    epsilon: f32,
    centered: bool,
}

impl<'g> RmsProp<'g> {
    /// RMSProp with this learning rate, decay 0.9, no momentum, and epsilon 1e-10.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> RmsProp<'g> {
        RmsProp {
            learning_rate: learning_rate.into(),
            decay: 0.9,
            momentum: Rate::Number(0.0),
            epsilon: 1e-10,
            centered: false,
        }
    }

    /// Decay of the mean square per step, in 0..1.
    pub fn decay(self, decay: f32) -> RmsProp<'g> {
        RmsProp { decay, ..self }
    }

    /// Momentum: the share of the last step in the next, in 0..1.
    pub fn momentum(self, momentum: impl Into<Rate<'g>>) -> RmsProp<'g> {
        let momentum = momentum.into();
        RmsProp { momentum, ..self }
    }

    /// Constant added to the mean square under the root.
    pub fn epsilon(self, epsilon: f32) -> RmsProp<'g> {
        RmsProp { epsilon, ..self }
    }

    /// Divides by the gradient's deviation rather than its mean square: one more slot.
    pub fn centered(self, centered: bool) -> RmsProp<'g> {
        RmsProp { centered, ..self }
    }
}

impl<'g> Optimizer<'g> for RmsProp<'g> {
    fn name(&self) -> &'static str {
        "RMSProp"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let mut nodes = Vec::with_capacity(gradients.len());
        for &(gradient, variable) in gradients {
            let ms = updates.slot(variable, "RMSProp", 1.0);
            let mg = self
                .centered
                .then(|| updates.slot(variable, "RMSProp", 0.0));
            let mom = updates.slot(variable, "RMSProp", 0.0);
            let mut rate = |name, rate: Rate<'g>| updates.rate(name, rate, variable);
            let scalars = [
                rate("learning_rate", self.learning_rate),
                rate("decay", self.decay.into()),
                rate("momentum", self.momentum),
                rate("epsilon", self.epsilon.into()),
            ];
            let op = match mg {
                Some(_) => "ResourceApplyCenteredRMSProp",
                None => "ResourceApplyRMSProp",
            };
            let node = updates
                .node(op, variable)
                .inputs(mg.map(Variable::handle))
                .inputs([ms.handle(), mom.handle()])
                .inputs(scalars)
                .input(gradient);
            nodes.push(node.build());
        }
        nodes
    }
}
