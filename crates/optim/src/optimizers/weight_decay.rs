//! Decoupled weight decay, which does not go through the gradient: <https://arxiv.org/abs/1711.05101>.

use thalweg_graph::{NodeBuilder, Output};
use thalweg_ops::Variable;

use super::updates::Updates;
use crate::rate::Rate;

/// Weight decay of all variables but the excluded ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightDecay {
    amount: f32,
    excluded: fn(&str) -> bool,
}

impl WeightDecay {
    /// Decay of all variables by `amount`.
    pub(super) fn new(amount: f32) -> WeightDecay {
        WeightDecay {
            amount,
            excluded: |_| false,
        }
    }

    /// Sets the amount.
    pub(super) fn amount(self, amount: f32) -> WeightDecay {
        WeightDecay { amount, ..self }
    }

    /// Excludes variables by their names.
    pub(super) fn exclude(self, excluded: fn(&str) -> bool) -> WeightDecay {
        WeightDecay { excluded, ..self }
    }

    /// `true` if a variable is excluded.
    pub(super) fn excludes(&self, variable: Variable<'_>) -> bool {
        (self.excluded)(&variable.handle().operation().name())
    }

    /// The decay of a variable, if it is not excluded.
    fn of(&self, variable: Variable<'_>) -> Option<f32> {
        (self.amount != 0.0 && !self.excludes(variable)).then_some(self.amount)
    }

    /// `x + amount * value`, where `value` is that of `variable` or its norm; `x` if the variable does not decay.
    #[track_caller]
    pub(super) fn added<'g>(
        &self,
        x: Output<'g>,
        value: Output<'g>,
        variable: Variable<'g>,
    ) -> Output<'g> {
        self.of(variable)
            .map_or(x, |amount| x + value * f64::from(amount))
    }

    /// Makes `node`, which updates `variable`, run after `var -= rate * amount * var`.
    #[track_caller]
    pub(super) fn before<'g>(
        &self,
        node: NodeBuilder<'g>,
        updates: &mut Updates<'g>,
        learning_rate: Rate<'g>,
        variable: Variable<'g>,
    ) -> NodeBuilder<'g> {
        let Some(amount) = self.of(variable) else {
            return node;
        };
        let rate = updates.rate("learning_rate", learning_rate, variable);
        node.control(updates.colocate(variable, || {
            variable.assign_sub(variable.read() * (rate * f64::from(amount)))
        }))
    }
}
