//! Each tower has variables of its own.

use thalweg_graph::Operation;
use thalweg_ops::Variable;
use thalweg_train::Optimizer;

use super::{Built, Pairs, Update};
use crate::exchange::Exchange;
use crate::staging::deferred;

impl<'g, O: Optimizer<'g>> Update<'_, 'g, O> {
    /// Each tower learns alone.
    pub(super) fn independent(&self) -> Built<'g> {
        let towers = 0..self.made.len();
        let mut step: Vec<Operation<'g>> = towers
            .clone()
            .map(|t| self.applied(1, &self.pairs(t), t == 0))
            .collect();
        step.extend(towers.flat_map(|t| self.updates(t)));
        let all: Pairs<'g> = (0..self.made.len()).flat_map(|t| self.pairs(t)).collect();
        step.extend(self.adapted(&all));
        Built {
            step,
            synchronized: None,
            gradients: self.pairs(0),
            own: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// A copy of the variables on each tower, all of which stay equal.
    pub(super) fn replicated(&self) -> Built<'g> {
        let (g, options) = (self.g, self.options);
        let exchange = Exchange {
            places: self.places,
            all_reduce: options.all_reduce.as_ref(),
            hierarchical: options.hierarchical,
            repacking: options.repacking,
            compact: options.compact,
        };
        let towers = self.made.len();
        let pairs: Vec<Pairs<'g>> = (0..towers).map(|t| self.pairs(t)).collect();
        let split = |p: &Pairs<'g>| p.iter().map(|p| p.0).collect();
        let mut sums = exchange.sums(g, pairs.iter().map(split).collect());
        let (mut step, mut own): (Vec<Operation<'g>>, Vec<Operation<'g>>) = Default::default();
        if options.relaxed {
            for (tower, sums) in sums.iter_mut().enumerate() {
                let later = deferred(g, &self.places.tower(tower), tower, sums);
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
            let made = &self.made[tower].variables;
            let slots = g.variables().split_off(before);
            let slots = slots.iter().map(|v| Variable::of(g, v));
            groups.push(made.iter().copied().chain(slots).collect());
            all.push(reduced);
        }
        // Moving averages of one tower are as good as those of any other.
        step.extend(self.updates(0));
        step.extend(self.adapted(&all[0]));
        let (first, others) = groups.split_first().expect("there is a tower");
        for copies in others {
            let copy =
                |(from, to): (&Variable<'g>, &Variable<'g>)| to.beside(|| to.assign(from.value()));
            own.extend(first.iter().zip(copies).map(copy));
        }
        Built {
            step,
            synchronized: None,
            gradients: all.swap_remove(0),
            own,
            copies: others.concat(),
        }
    }
}
