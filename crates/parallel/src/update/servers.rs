//! Updates of the modes with one set of updated variables: ParameterServer, DistributedReplicated.

use thalweg_graph::Operation;
use thalweg_ops::{StateOps, SumOps, Variable};
use thalweg_optim::{Optimizer, SyncReplicas, Synchronized};

use super::{ModeNodes, Pairs, Update};
use crate::exchange::Gradients;
use crate::shadows::Shadows;
use crate::staging::delayed;

impl<'g, O: Optimizer<'g>> Update<'_, 'g, O> {
    /// ParameterServer: one set of variables for all towers.
    pub(super) fn shared(&self) -> ModeNodes<'g> {
        let g = self.g;
        let towers = self.towers.len();
        let mut own = Vec::new();
        let mut step: Vec<Operation<'g>> = self.updates(0).collect();
        let mut all: Vec<Pairs<'g>> = (0..towers)
            .map(|t| self.compact(t, self.pairs(t)))
            .collect();
        if self.options.staged {
            for (tower, pairs) in all.iter_mut().enumerate() {
                let fresh: Gradients<'g> = pairs.iter().map(|p| p.0).collect();
                let later = delayed(g, &self.placement.tower(tower), tower, &fresh);
                for (pair, gradient) in pairs.iter_mut().zip(later.gradients) {
                    pair.0 = gradient;
                }
                let puts = self.towers[tower].staged.iter().flat_map(|s| s.puts(g));
                let puts: Vec<Operation<'g>> = puts.collect();
                own.extend(later.zeros.iter().chain(&puts));
                step.extend(later.puts.iter().chain(&puts));
            }
        }
        let gradients = match self.options.task {
            // In a cluster a worker sums its own gradients, so that each is sent once.
            Some(_) => self.sums(&all, |_, all| self.placement.on_cpu(g, || g.add_n(all))),
            None => self.sums(&all, |v, all| v.colocate(|| g.add_n(all))),
        };
        let synchronized = self.applied_in_step(&gradients);
        match &synchronized {
            Some(synchronized) => step.push(synchronized.give),
            None => {
                step.push(self.applied(towers, &gradients, true));
                step.extend(self.adapted(&gradients));
            }
        }
        let synchronized = synchronized.map(|s| self.giving(s, &step));
        ModeNodes {
            step,
            synchronized,
            gradients,
            own,
            copies: Vec::new(),
        }
    }

    /// Nodes of synchronous training; `None` if it is off.
    pub(super) fn applied_in_step(&self, pairs: &Pairs<'g>) -> Option<Synchronized<'g>> {
        let task = self.options.task.filter(|_| self.options.in_step)?;
        let towers = self.towers.len();
        let replicas = SyncReplicas::new(self.prepared(towers), task.workers.max(1));
        let apply = || replicas.apply_gradients(self.g, pairs, self.global_step);
        Some(self.placement.on_step(self.g, apply))
    }

    /// Adds all operations of a worker's step to the node that gives gradients.
    pub(super) fn giving(
        &self,
        synchronized: Synchronized<'g>,
        step: &[Operation<'g>],
    ) -> Synchronized<'g> {
        Synchronized {
            give: self.g.group("give_all", step.iter().copied()),
            ..synchronized
        }
    }

    /// DistributedReplicated: a copy of the variables on each tower; servers have the updated variables.
    pub(super) fn distributed(&self) -> ModeNodes<'g> {
        let (g, towers) = (self.g, self.towers.len());
        let servers = self.options.task.map_or(1, |t| t.servers);
        let first = &self.towers[0];
        let is = |v: Variable<'g>, all: &[Variable<'g>]| {
            all.iter().any(|o| o.handle().id() == v.handle().id())
        };
        let trained = |v: Variable<'g>| is(v, &first.trained);
        let shadows = Shadows::new(g, self.placement, servers, &first.variables, trained);
        let shadow = |v: Variable<'g>| {
            let mut pairs = first.variables.iter().zip(&shadows.all);
            pairs
                .find(|(own, _)| own.handle().id() == v.handle().id())
                .map(|(_, s)| *s)
        };
        let all: Vec<Pairs<'g>> = (0..towers)
            .map(|t| self.compact(t, self.pairs(t)))
            .collect();
        let sums = self.sums(&all, |_, all| self.placement.on_cpu(g, || g.add_n(all)));
        let gradients: Pairs<'g> = sums
            .into_iter()
            .filter_map(|(x, v)| Some((x, shadow(v)?)))
            .collect();
        let copies = |after: &[Operation<'g>], all: bool| -> Vec<Operation<'g>> {
            let chosen: Vec<usize> = (0..shadows.all.len())
                .filter(|&at| all || is(first.variables[at], &first.trained))
                .collect();
            let pick = |from: &[Variable<'g>]| chosen.iter().map(|&at| from[at]).collect();
            let towers: Vec<Vec<Variable<'g>>> =
                self.towers.iter().map(|t| pick(&t.variables)).collect();
            Shadows {
                all: pick(&shadows.all),
            }
            .copied(&towers, after)
        };
        // The first tower's moving averages are copied to the servers, whose variables are saved.
        let mut step: Vec<Operation<'g>> = self.updates(0).collect();
        let averages = first.variables.iter().filter(|v| !trained(**v));
        let averages: Vec<Operation<'g>> = averages
            .filter_map(|&own| {
                let updated =
                    g.control_dependencies(step.iter().copied(), || own.colocate(|| own.read()));
                let shadow = shadow(own)?;
                Some(shadow.colocate(|| shadow.assign(updated)))
            })
            .collect();
        step.extend(averages);
        let mut synchronized = self.applied_in_step(&gradients);
        match &mut synchronized {
            Some(synchronized) => {
                synchronized.refresh = Some(g.group("refresh", copies(&[], false)));
                step.push(synchronized.give);
            }
            None => {
                let applied = self.applied(towers, &gradients, true);
                step.push(applied);
                step.extend(copies(&[applied], false));
            }
        }
        let synchronized = synchronized.map(|s| self.giving(s, &step));
        ModeNodes {
            step,
            synchronized,
            gradients,
            own: copies(&[], true),
            copies: self
                .towers
                .iter()
                .flat_map(|t| t.variables.clone())
                .collect(),
        }
    }
}
