//! Updates of the modes in which each tower has variables of its own: Independent, Replicated, Horovod.

use thalweg_graph::Operation;
use thalweg_hvd::Hvd;
use thalweg_ops::{ReduceOp, Variable};
use thalweg_optim::{Compression, GradientReducer, Optimizer};
use thalweg_tensor::DType;

use super::{ModeNodes, Pairs, Update};
use crate::exchange::{GradientExchange, Gradients};
use crate::mode::Reduction;
use crate::staging::delayed;

impl<'g, O: Optimizer<'g>> Update<'_, 'g, O> {
    /// Independent: each tower learns separately.
    pub(super) fn independent(&self) -> ModeNodes<'g> {
        let towers = 0..self.towers.len();
        let mut step: Vec<Operation<'g>> = towers
            .clone()
            .map(|t| self.applied(1, &self.pairs(t), t == 0))
            .collect();
        step.extend(towers.flat_map(|t| self.updates(t)));
        let all: Pairs<'g> = (0..self.towers.len()).flat_map(|t| self.pairs(t)).collect();
        step.extend(self.adapted(&all));
        ModeNodes {
            step,
            synchronized: None,
            gradients: self.pairs(0),
            own: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// Replicated, Horovod: a copy of the variables on each tower; all copies stay equal, on all ranks too.
    pub(super) fn replicated(&self) -> ModeNodes<'g> {
        let (g, options) = (self.g, self.options);
        let exchange = GradientExchange {
            placement: self.placement,
            all_reduce: options.all_reduce.as_ref(),
            hierarchical: options.hierarchical,
            repacking: options.repacking,
            compact: options.compact,
        };
        let towers = self.towers.len();
        let pairs: Vec<Pairs<'g>> = (0..towers).map(|t| self.pairs(t)).collect();
        let split = |p: &Pairs<'g>| p.iter().map(|p| p.0).collect();
        let mut sums = exchange.sums(g, pairs.iter().map(split).collect());
        if let Some(hvd) = options.ranks.as_ref().filter(|hvd| hvd.size() > 1) {
            self.over_ranks(hvd, &pairs[0], &mut sums);
        }
        let (mut step, mut own): (Vec<Operation<'g>>, Vec<Operation<'g>>) = Default::default();
        if options.relaxed {
            for (tower, sums) in sums.iter_mut().enumerate() {
                let later = delayed(g, &self.placement.tower(tower), tower, sums);
                *sums = later.gradients;
                step.extend(later.puts);
                own.extend(later.zeros);
            }
        }
        let mut all: Vec<Pairs<'g>> = Vec::new();
        let mut groups: Vec<Vec<Variable<'g>>> = Vec::new();
        for tower in 0..towers {
            let variables = pairs[tower].iter().map(|p| p.1);
            let reduced: Pairs<'g> = sums[tower].iter().copied().zip(variables).collect();
            let before = g.variables().len();
            step.push(self.applied(towers, &reduced, tower == 0));
            let variables = &self.towers[tower].variables;
            let slots = g.variables().split_off(before);
            let slots = slots.iter().map(|v| Variable::of(g, v));
            groups.push(variables.iter().copied().chain(slots).collect());
            all.push(reduced);
        }
        // Moving averages of one tower are enough.
        step.extend(self.updates(0));
        step.extend(self.adapted(&all[0]));
        let (first, others) = groups.split_first().expect("there is a tower");
        // All ranks begin with the initialized or restored values of rank 0.
        let begun = options.ranks.as_ref().map(|hvd| {
            let all: Vec<Variable<'g>> = first.iter().copied().chain([self.global_step]).collect();
            hvd.broadcast_variables(g, &all, 0)
        });
        own.extend(begun);
        for copies in others {
            let copy = |(from, to): (&Variable<'g>, &Variable<'g>)| {
                let value = g.control_dependencies(begun, || from.colocate(|| from.read()));
                to.colocate(|| to.assign(value))
            };
            own.extend(first.iter().zip(copies).map(copy));
        }
        ModeNodes {
            step,
            synchronized: None,
            gradients: all.swap_remove(0),
            own,
            copies: others.concat(),
        }
    }

    /// Replaces the sums of this process by those of all ranks, on each tower.
    fn over_ranks(&self, hvd: &Hvd, pairs: &Pairs<'g>, sums: &mut [Gradients<'g>]) {
        let op = match self.options.reduction {
            Reduction::Mean => ReduceOp::Average,
            Reduction::Sum => ReduceOp::Sum,
        };
        let variables = pairs.iter().map(|p| p.1);
        let own: Pairs<'g> = sums[0].iter().copied().zip(variables).collect();
        let compression = match self.options.compact {
            Some(DType::F16) => Compression::Fp16,
            Some(DType::BF16) => Compression::Bf16,
            _ => Compression::None,
        };
        let reducer = GradientReducer::new(hvd.size())
            .op(op)
            .compression(compression);
        let reduce = || reducer.reduce(self.g, &own);
        let reduced = self.placement.on_tower(self.g, 0, reduce);
        for sums in sums {
            *sums = reduced.iter().map(|p| p.0).collect();
        }
    }
}
