//! Weight decay that does not go through the gradient: <https://arxiv.org/abs/1711.05101>.

use thalweg_graph::{NodeBuilder, Output};
use thalweg_ops::Variable;

use super::updates::Updates;
use crate::rate::Rate;

/// How much weights decay, and which ones do.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightDecay {
    amount: f32,
    excluded: fn(&str) -> bool,
}

impl WeightDecay {
    /// All variables decay by `amount`.
    pub(super) fn new(amount: f32) -> WeightDecay {
        WeightDecay {
            amount,
            excluded: |_| false,
        }
    }

    /// With another amount.
    pub(super) fn amount(self, amount: f32) -> WeightDecay {
        WeightDecay { amount, ..self }
    }

    /// With these variables left out, by their names.
    pub(super) fn exclude(self, excluded: fn(&str) -> bool) -> WeightDecay {
        WeightDecay { excluded, ..self }
    }

    /// Whether a variable is left out.
    pub(super) fn excludes(&self, variable: Variable<'_>) -> bool {
        (self.excluded)(&variable.handle().operation().name())
    }

    /// How much a variable decays, if it does.
    fn of(&self, variable: Variable<'_>) -> Option<f32> {
        (self.amount != 0.0 && !self.excludes(variable)).then_some(self.amount)
    }

    /// `x + amount * value`, where `value` is that of `variable` or its norm; `x` where the variable
    /// does not decay.
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

    /// `node`, which updates `variable`, so that it comes after `var -= rate * amount * var`.
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
        node.control(updates.beside(variable, || {
            variable.assign_sub(variable.read() * (rate * f64::from(amount)))
        }))
    }
}
