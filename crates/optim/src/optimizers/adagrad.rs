//! Adagrad: <https://jmlr.org/papers/v12/duchi11a.html>.

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;

use super::optimizer::Optimizer;
use super::updates::Updates;
use crate::rate::Rate;

/// Adagrad: `accum += gradient^2`, and `var -= rate * gradient / sqrt(accum)`. The slot is
/// `var/Adagrad`.
#[derive(Clone, Copy, Debug)]
pub struct Adagrad<'g> {
    learning_rate: Rate<'g>,
    initial_accumulator: f64,
}

impl<'g> Adagrad<'g> {
    /// Adagrad with this learning rate.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Adagrad<'g> {
        Adagrad {
            learning_rate: learning_rate.into(),
            initial_accumulator: 0.1,
        }
    }

    /// Initial value of the accumulators; 0.1 by default. It must be above 0, as the first step divides by its root if
    /// a gradient is 0. It has the precision of the variable, unlike rates.
    pub fn initial_accumulator(self, initial_accumulator: f64) -> Adagrad<'g> {
        Adagrad {
            initial_accumulator,
            ..self
        }
    }
}

impl<'g> Optimizer<'g> for Adagrad<'g> {
    fn name(&self) -> &'static str {
        "Adagrad"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let mut nodes = Vec::with_capacity(gradients.len());
        for &(gradient, variable) in gradients {
            let accum = updates.slot(variable, "Adagrad", self.initial_accumulator);
            let rate = updates.rate("learning_rate", self.learning_rate, variable);
            let node = updates
                .node("ResourceApplyAdagrad", variable)
                .input(accum.handle())
                .input(rate)
                .input(gradient);
            nodes.push(node.build());
        }
        nodes
    }
}
