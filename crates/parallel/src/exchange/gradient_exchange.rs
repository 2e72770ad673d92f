//! GradientExchange: sums of the gradients of all towers, on each tower.

use thalweg_graph::{Graph, Output};
use thalweg_ops::ArrayOps;
use thalweg_tensor::DType;

use super::hierarchy::{self, Topology};
use super::packing;
use super::parts::{Gradients, elements};
use super::ring;
use super::spec::{Algorithm, AllReduce};
use super::sum;
use crate::placement::Placement;

/// Options of the reduction.
pub(crate) struct GradientExchange<'a> {
    pub(crate) placement: &'a Placement,
    pub(crate) all_reduce: Option<&'a AllReduce>,
    pub(crate) hierarchical: Option<Topology>,
    pub(crate) repacking: usize,
    pub(crate) compact: Option<DType>,
}

impl GradientExchange<'_> {
    /// Builds the sum of each gradient over all towers, on each tower.
    pub(crate) fn sums<'g>(&self, g: &'g Graph, towers: Vec<Gradients<'g>>) -> Vec<Gradients<'g>> {
        if towers.len() < 2 {
            return towers;
        }
        let dtypes: Vec<DType> = towers[0].iter().map(|x| x.dtype()).collect();
        let towers = self.each(towers, |x| match self.compact {
            Some(dtype) => x.cast(dtype),
            None => x,
        });
        let packed = packing::packed(g, self.placement, &towers, self.repacking);
        let sums = match &packed {
            Some(packed) => packed.unpacked(g, self.placement, self.reduced(g, &packed.towers)),
            None => self.reduced(g, &towers),
        };
        let back = |(tower, sums): (usize, Gradients<'g>)| {
            self.placement.on_tower(g, tower, || {
                let pairs = sums.into_iter().zip(&dtypes);
                pairs
                    .map(|(x, &dtype)| if x.dtype() == dtype { x } else { x.cast(dtype) })
                    .collect()
            })
        };
        sums.into_iter().enumerate().map(back).collect()
    }

    /// Applies `make` to every gradient, on its tower.
    fn each<'g>(
        &self,
        towers: Vec<Gradients<'g>>,
        make: impl Fn(Output<'g>) -> Output<'g>,
    ) -> Vec<Gradients<'g>> {
        let on = |(tower, gradients): (usize, Gradients<'g>)| {
            let make = |x: Output<'g>| self.placement.on_tower(x.graph(), tower, || make(x));
            gradients.into_iter().map(make).collect()
        };
        towers.into_iter().enumerate().map(on).collect()
    }

    fn reduced<'g>(&self, g: &'g Graph, towers: &[Gradients<'g>]) -> Vec<Gradients<'g>> {
        let mut sums = vec![Vec::new(); towers.len()];
        for number in 0..towers[0].len() {
            let all: Vec<Output<'g>> = towers.iter().map(|t| t[number]).collect();
            let reduced = match (self.all_reduce, self.hierarchical) {
                (Some(all_reduce), _) => self.by(g, all_reduce, number, &all),
                (None, Some(topology)) => hierarchy::sum(g, self.placement, topology, number, &all),
                (None, None) => sum::copied(g, self.placement, number, &all),
            };
            for (tower, sum) in sums.iter_mut().zip(reduced) {
                tower.push(sum);
            }
        }
        sums
    }

    /// Reduces a tensor by the algorithm for its size.
    fn by<'g>(
        &self,
        g: &'g Graph,
        all_reduce: &AllReduce,
        number: usize,
        all: &[Output<'g>],
    ) -> Vec<Output<'g>> {
        let range = all_reduce.of(elements(all[0]));
        match range.algorithm {
            Algorithm::Ring => ring::sum(g, self.placement, range.shards, all),
            Algorithm::Devices => sum::sharded(g, self.placement, range.shards, number, false, all),
            Algorithm::Cpu => sum::sharded(g, self.placement, range.shards, number, true, all),
        }
    }
}
