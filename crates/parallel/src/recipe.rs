//! Recipe: processing of a reduced gradient before it is applied.

use std::fmt;
use std::sync::Arc;

use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps, SumOps, Variable};
use thalweg_optim::Optimizer;
use thalweg_optim::optimizers::Updates;
use thalweg_tensor::DType;

/// Weight decay: `rate / 2` times the sum of squares of each variable is part of the loss.
#[derive(Clone)]
pub struct Decay {
    pub(crate) rate: f64,
    applies: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Decay {
    /// Decay of all trained variables.
    pub fn new(rate: f64) -> Decay {
        Decay {
            rate,
            applies: Arc::new(|_| true),
        }
    }

    /// Decay of the variables whose names pass this filter.
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

/// Processing of every gradient, on the device of its variable: a factor, the decay, and clipping.
pub(crate) struct Recipe<'g> {
    /// Factor of the sum.
    pub(crate) factor: Option<f64>,
    /// Divisor of gradients of a scaled loss.
    pub(crate) scale: Option<Output<'g>>,
    pub(crate) decay: Option<Decay>,
    /// Factor of the decay: the number of gradients in a sum.
    pub(crate) decays: f64,
    pub(crate) clip: Option<f32>,
}

impl<'g> Recipe<'g> {
    fn on(&self, gradient: Output<'g>, variable: Variable<'g>) -> Output<'g> {
        variable.colocate(|| {
            let mut x = gradient;
            if let Some(factor) = self.factor {
                x = x * factor;
            }
            if let Some(scale) = self.scale {
                // The gradient of an f16 variable is f16 too.
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

/// An optimizer whose gradients pass a [`Recipe`] first.
pub(crate) struct PreparedOptimizer<'o, 'g, O> {
    pub(crate) optimizer: &'o O,
    pub(crate) recipe: Recipe<'g>,
}

impl<'g, O> PreparedOptimizer<'_, 'g, O> {
    fn all(&self, pairs: &[(Output<'g>, Variable<'g>)]) -> Vec<(Output<'g>, Variable<'g>)> {
        let on = |&(gradient, variable): &_| (self.recipe.on(gradient, variable), variable);
        pairs.iter().map(on).collect()
    }
}

impl<'g, O: Optimizer<'g>> Optimizer<'g> for PreparedOptimizer<'_, 'g, O> {
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

/// Term of the decay in the loss; `None` without decay.
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
            v.colocate(|| match v.dtype() {
                // The sum of squares of f16 weights would overflow.
                DType::F16 | DType::BF16 => v.value().cast(DType::F32).l2_loss(),
                _ => v.value().l2_loss(),
            })
        })
        .collect();
    (!terms.is_empty()).then(|| g.add_n(&terms) * decay.rate)
}
