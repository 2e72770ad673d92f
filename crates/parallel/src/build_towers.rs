//! Building of the towers of this process, and of their gradients.

use thalweg_graph::{Graph, Operation, Output, gradients};
use thalweg_layers::{Reuse, VariableScope, VariableScopes, update_ops};
use thalweg_ops::Variable;

use crate::error::ParallelError;
use crate::loss_scale::Scale;
use crate::options::DataParallel;
use crate::placement::Placement;
use crate::staging::StagedValues;
use crate::tower::Tower;

/// A tower that is built.
pub(crate) struct BuiltTower<'g> {
    pub(crate) loss: Output<'g>,
    /// One for each trained variable; `None` if the loss does not depend on it.
    pub(crate) gradients: Vec<Option<Output<'g>>>,
    /// Its trained variables.
    pub(crate) trained: Vec<Variable<'g>>,
    /// All its variables.
    pub(crate) variables: Vec<Variable<'g>>,
    /// Updates of its layers, such as those of moving averages.
    pub(crate) updates: Vec<Operation<'g>>,
    pub(crate) staged: Option<StagedValues>,
}

/// Builds the model once for each tower.
///
/// # Errors
/// Towers have different variables.
pub(crate) fn build_towers<'g>(
    options: &DataParallel,
    g: &'g Graph,
    placement: &Placement,
    scale: Option<&Scale<'g>>,
    mut tower: impl FnMut(&Tower<'g>) -> Output<'g>,
) -> Result<Vec<BuiltTower<'g>>, ParallelError> {
    let chosen = placement.variable_placement();
    let mut all: Vec<BuiltTower<'g>> = Vec::new();
    for index in 0..options.towers {
        let (variables, updates) = (g.variables().len(), update_ops(g).len());
        let scope = match options.update.has_copies() {
            true => VariableScope::new(&format!("v{index}")),
            false => VariableScope::new("v").reuse(Reuse::Auto),
        };
        let staged = options.staged.then(StagedValues::new);
        let scope = match &staged {
            Some(staged) => staged.scope(scope, placement.tower(index)),
            None => scope,
        };
        let on = Tower {
            graph: g,
            index,
            towers: options.towers,
        };
        let build = || {
            g.variable_scope(scope, || {
                g.name_scope(&format!("tower_{index}"), || tower(&on))
            })
        };
        let loss = g.device(placement.scope(index, &chosen), build);
        let own: Vec<_> = g.variables().split_off(variables);
        let of = |v: &thalweg_graph::VariableInfo| Variable::of(g, v);
        let trained: Vec<Variable<'g>> = own.iter().filter(|v| v.trainable).map(of).collect();
        let trained = match (all.first(), options.update.has_copies()) {
            (None, _) => trained,
            (Some(first), true) if trained.len() == first.trained.len() => trained,
            (Some(first), true) => {
                return Err(ParallelError::Towers {
                    tower: index,
                    found: trained.len(),
                    first: first.trained.len(),
                });
            }
            (Some(first), false) => match trained.first() {
                None => first.trained.clone(),
                Some(variable) => {
                    return Err(ParallelError::Unshared {
                        tower: index,
                        variable: variable.name(),
                    });
                }
            },
        };
        let gradients = placement.on_tower(g, index, || {
            tower_gradients(loss, &trained, staged.as_ref(), scale)
        });
        all.push(BuiltTower {
            loss,
            gradients,
            trained,
            variables: own.iter().map(of).collect(),
            updates: update_ops(g).split_off(updates),
            staged,
        });
    }
    Ok(all)
}

/// Builds the gradient of the loss with respect to each variable.
fn tower_gradients<'g>(
    loss: Output<'g>,
    trained: &[Variable<'g>],
    staged: Option<&StagedValues>,
    scale: Option<&Scale<'g>>,
) -> Vec<Option<Output<'g>>> {
    let of = |&v: &Variable<'g>| staged.and_then(|s| s.value(v)).unwrap_or(v.handle());
    let all: Vec<Output<'g>> = trained.iter().map(of).collect();
    let loss = match scale {
        Some(scale) => loss * scale.value,
        None => loss,
    };
    gradients(&[loss], &all)
}
