//! Updates of the variables of towers, in all modes.

mod local;
mod servers;

use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::{ArrayOps, StateOps, SumOps, Variable};
use thalweg_optim::{Optimizer, Synchronized};

use crate::build_towers::BuiltTower;
use crate::loss_scale::Scale;
use crate::mode::{Reduction, VariableUpdate};
use crate::options::DataParallel;
use crate::placement::Placement;
use crate::recipe::{PreparedOptimizer, Recipe, decayed};
use crate::shadows::saved_name;
use crate::training::{Training, WorkerBarrier};

/// Builder of the updates.
pub(crate) struct Update<'a, 'g, O> {
    pub(crate) options: &'a DataParallel,
    pub(crate) g: &'g Graph,
    pub(crate) placement: &'a Placement,
    pub(crate) optimizer: &'a O,
    pub(crate) global_step: Variable<'g>,
    pub(crate) scale: Option<Scale<'g>>,
    pub(crate) towers: Vec<BuiltTower<'g>>,
}

/// Gradients, each with the variable that it updates.
type Pairs<'g> = Vec<(Output<'g>, Variable<'g>)>;

/// Nodes of a mode.
struct ModeNodes<'g> {
    /// Operations of a step.
    step: Vec<Operation<'g>>,
    synchronized: Option<Synchronized<'g>>,
    gradients: Pairs<'g>,
    /// Run in each session, after saved variables have values.
    own: Vec<Operation<'g>>,
    /// Copies of other variables, which are not saved.
    copies: Vec<Variable<'g>>,
}

impl<'g, O: Optimizer<'g>> Update<'_, 'g, O> {
    /// Builds the training.
    pub(crate) fn build(self) -> Training<'g> {
        let g = self.g;
        let losses: Vec<Output<'g>> = self.towers.iter().map(|t| t.loss).collect();
        let loss = self.placement.on_cpu(g, || match losses.len() {
            1 => losses[0],
            towers => g.add_n(&losses) * (1.0 / towers as f64),
        });
        let built = match self.options.update {
            VariableUpdate::Independent => self.independent(),
            VariableUpdate::ParameterServer => self.shared(),
            VariableUpdate::Replicated | VariableUpdate::Horovod => self.replicated(),
            VariableUpdate::DistributedReplicated => self.distributed(),
        };
        let total_loss = match decayed(g, self.options.decay.as_ref(), &self.towers[0].trained) {
            Some(decay) => self.placement.on_cpu(g, || loss + decay),
            None => loss,
        };
        let is_copy = |v: &Variable<'g>| {
            let same = |c: &Variable<'g>| c.handle().id() == v.handle().id();
            built.copies.iter().any(same)
        };
        let all = g.variables();
        let all = all.iter().map(|v| Variable::of(g, v));
        let saved: Vec<Variable<'g>> = all.filter(|v| !is_copy(v)).collect();
        let arrivals = self.options.task.map(|_| {
            let make = || g.untrained_variable("parallel/arrivals", 0i64);
            let arrivals = self.placement.on_step(g, make);
            WorkerBarrier {
                arrive: arrivals.colocate(|| arrivals.assign_add(1i64)),
                arrived: arrivals,
            }
        });
        let counted = arrivals.iter().map(|a| a.arrived);
        let needed: Vec<Variable<'g>> = saved.iter().copied().chain(counted).collect();
        let ready = self.placement.on_step(g, || g.initialized(&needed));
        let synchronized = built.synchronized.map(|s| Synchronized { ready, ..s });
        Training {
            global_step: self.global_step,
            loss,
            total_loss,
            step: g.group("train_step", built.step),
            synchronized,
            gradients: built.gradients,
            towers: self.towers.into_iter().map(|t| t.trained).collect(),
            first: saved.iter().map(|v| v.initializer()).collect(),
            arrivals,
            saved: saved
                .into_iter()
                .map(|v| (saved_name(&v.name()).to_owned(), v))
                .collect(),
            own: built.own,
            ready,
        }
    }

    /// Prepares the optimizer for sums of so many gradients.
    fn prepared(&self, gradients: usize) -> PreparedOptimizer<'_, 'g, O> {
        let workers = match self.options.task {
            Some(task) if self.options.in_step => task.workers,
            _ => 1,
        };
        let ranks = self.options.ranks.as_ref().map_or(1, |hvd| hvd.size());
        let summed = self.options.reduction == Reduction::Sum;
        // A turn of synchronous workers gives the mean.
        let factor = match summed && workers > 1 {
            true => Some(f64::from(workers)),
            false => self.options.reduction.factor(gradients),
        };
        let decays = if summed {
            gradients * workers as usize * ranks
        } else {
            1
        };
        PreparedOptimizer {
            optimizer: self.optimizer,
            recipe: Recipe {
                factor,
                scale: self.scale.as_ref().map(|s| s.value),
                decay: self.options.decay.clone(),
                decays: decays as f64,
                clip: self.options.clip,
            },
        }
    }

    /// Applies the gradients of one set of variables, each a sum of so many; `counts` increments the global step.
    fn applied(&self, gradients: usize, pairs: &Pairs<'g>, counts: bool) -> Operation<'g> {
        let step = counts.then_some(self.global_step);
        let apply = || {
            let prepared = self.prepared(gradients);
            let apply = || prepared.apply_gradients(self.g, pairs, step);
            self.placement.on_step(self.g, apply)
        };
        match &self.scale {
            Some(scale) => scale.guarded(self.g, pairs, apply),
            None => apply(),
        }
    }

    /// Gradients of a tower with their variables.
    fn pairs(&self, tower: usize) -> Pairs<'g> {
        let built = &self.towers[tower];
        let pairs = built.gradients.iter().zip(&built.trained);
        pairs.filter_map(|(&x, &v)| Some((x?, v))).collect()
    }

    fn adapted(&self, pairs: &Pairs<'g>) -> Option<Operation<'g>> {
        self.scale.as_ref()?.adapted(self.g, pairs)
    }

    fn updates(&self, tower: usize) -> impl Iterator<Item = Operation<'g>> + '_ {
        self.towers[tower].updates.iter().copied()
    }

    /// Sums the towers' gradients, each built by `at`; of one tower, its own.
    fn sums(
        &self,
        towers: &[Pairs<'g>],
        at: impl Fn(Variable<'g>, &[Output<'g>]) -> Output<'g>,
    ) -> Pairs<'g> {
        let sum = |(number, &(own, variable)): (usize, &(Output<'g>, Variable<'g>))| {
            let all: Vec<Output<'g>> = towers.iter().map(|t| t[number].0).collect();
            let sum = if all.len() == 1 {
                own
            } else {
                at(variable, &all)
            };
            (sum, variable)
        };
        towers[0].iter().enumerate().map(sum).collect()
    }

    fn compact(&self, tower: usize, pairs: Pairs<'g>) -> Pairs<'g> {
        match self.options.compact {
            Some(dtype) if self.options.towers > 1 => {
                let cast = |(x, v): (Output<'g>, Variable<'g>)| (x.cast(dtype).cast(x.dtype()), v);
                let cast = || pairs.into_iter().map(cast).collect();
                self.placement.on_tower(self.g, tower, cast)
            }
            _ => pairs,
        }
    }
}
