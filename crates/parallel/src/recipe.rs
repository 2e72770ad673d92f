//! What becomes of a reduced gradient before it is applied.

use std::fmt;
use std::sync::Arc;

use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps, SumOps, Variable};
use thalweg_optim::Optimizer;
use thalweg_optim::optimizers::Updates;
use thalweg_tensor::DType;

/// Weights decay: `rate / 2` times the sum of squares of each variable is part of the loss.
#[derive(Clone)]
pub struct Decay {
    pub(crate) rate: f64,
    applies: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Decay {
    /// Of all variables that are trained.
    pub fn new(rate: f64) -> Decay {
        Decay {
            rate,
            applies: Arc::new(|_| true),
        }
    }

    /// Of those whose name is taken by this.
    pub fn only(self, applies: impl Fn(&str) -> bool + Send + Sync + 'static) -> Decay {
        Decay {
            applies: Arc::new(applies),
            ..self
        }
    }

    pub(crate) fn applies(&self, variable: Variable<'_>) -> bool {
        (self.applies)(&variable.name())
    }
}

impl fmt::Debug for Decay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decay").field("rate", &self.rate).finish()
    }
}

/// What every gradient goes through, beside its variable: a factor, the decay, and clipping.
pub(crate) struct Recipe<'g> {
    /// What a sum is multiplied by.
    pub(crate) factor: Option<f64>,
    /// What divides gradients of a scaled loss.
    pub(crate) scale: Option<Output<'g>>,
    pub(crate) decay: Option<Decay>,
    /// How often the decay counts: as often as there are gradients in a sum.
    pub(crate) decays: f64,
    pub(crate) clip: Option<f32>,
}

impl<'g> Recipe<'g> {
    fn on(&self, gradient: Output<'g>, variable: Variable<'g>) -> Output<'g> {
        variable.beside(|| {
            let mut x = gradient;
            if let Some(factor) = self.factor {
                x = x * factor;
            }
            if let Some(scale) = self.scale {
                // Of an f16 variable the gradient is f16 too.
                x = x / if scale.dtype() == x.dtype() {
                    scale
                } else {
                    scale.cast(x.dtype())
                };
            }
            if let Some(decay) = self.decay.as_ref().filter(|d| d.applies(variable)) {
                x = x + variable.value() * (decay.rate * self.decays);
            }
            match self.clip {
                Some(most) => x.minimum(f64::from(most)).maximum(-f64::from(most)),
                None => x,
            }
        })
    }
}

/// An optimizer that gets gradients which have gone through a [`Recipe`].
pub(crate) struct Prepared<'o, 'g, O> {
    pub(crate) optimizer: &'o O,
    pub(crate) recipe: Recipe<'g>,
}

impl<'g, O> Prepared<'_, 'g, O> {
    fn all(&self, pairs: &[(Output<'g>, Variable<'g>)]) -> Vec<(Output<'g>, Variable<'g>)> {
        let on = |&(gradient, variable): &_| (self.recipe.on(gradient, variable), variable);
        pairs.iter().map(on).collect()
    }
}

impl<'g, O: Optimizer<'g>> Optimizer<'g> for Prepared<'_, 'g, O> {
    fn name(&self) -> &'static str {
        self.optimizer.name()
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        self.optimizer.update(updates, &self.all(gradients))
    }

    #[track_caller]
    fn apply_gradients(
        &self,
        graph: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        global_step: Option<Variable<'g>>,
    ) -> Operation<'g> {
        let gradients = graph.name_scope("gradients", || self.all(gradients));
        self.optimizer
            .apply_gradients(graph, &gradients, global_step)
    }
}

/// What the decay adds to the loss; none where nothing decays.
pub(crate) fn decayed<'g>(
    g: &'g Graph,
    decay: Option<&Decay>,
    variables: &[Variable<'g>],
) -> Option<Output<'g>> {
    let decay = decay?;
    let terms: Vec<Output<'g>> = variables
        .iter()
        .filter(|v| decay.applies(**v))
        .map(|&v| {
            v.beside(|| match v.dtype() {
                // Squares of f16 weights soon add up to more than it holds.
                DType::F16 | DType::BF16 => v.value().cast(DType::F32).l2_loss(),
                _ => v.value().l2_loss(),
            })
        })
        .collect();
    (!terms.is_empty()).then(|| g.add_n(&terms) * decay.rate)
}
