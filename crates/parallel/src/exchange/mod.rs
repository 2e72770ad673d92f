//! Reduction of gradients between towers of one process: nodes of the graph, whose values the sends and receives of a
//! step carry.

mod hierarchy;
mod packing;
mod ring;
mod spec;
mod sum;

use thalweg_graph::{Graph, Output};
use thalweg_ops::ArrayOps;
use thalweg_tensor::DType;

use crate::devices::Places;

pub use hierarchy::Topology;
pub use spec::{Algorithm, AllReduce};

/// The gradients of one tower, in the order of its variables.
pub(crate) type Gradients<'g> = Vec<Output<'g>>;

/// Options of the reduction.
pub(crate) struct Exchange<'a> {
    pub(crate) places: &'a Places,
    pub(crate) all_reduce: Option<&'a AllReduce>,
    pub(crate) hierarchical: Option<Topology>,
    pub(crate) repacking: usize,
    pub(crate) compact: Option<DType>,
}

impl Exchange<'_> {
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
        let packed = packing::packed(g, self.places, &towers, self.repacking);
        let sums = match &packed {
            Some(packed) => packed.unpacked(g, self.places, self.reduced(g, &packed.towers)),
            None => self.reduced(g, &towers),
        };
        let back = |(tower, sums): (usize, Gradients<'g>)| {
            self.places.on_tower(g, tower, || {
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
            let make = |x: Output<'g>| self.places.on_tower(x.graph(), tower, || make(x));
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
                (None, Some(topology)) => hierarchy::sum(g, self.places, topology, number, &all),
                (None, None) => sum::copied(g, self.places, number, &all),
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
            Algorithm::Ring => ring::sum(g, self.places, range.shards, all),
            Algorithm::Devices => sum::sharded(g, self.places, range.shards, number, false, all),
            Algorithm::Cpu => sum::sharded(g, self.places, range.shards, number, true, all),
        }
    }
}

/// Number of elements of a value; 0 if its shape is unknown.
pub(crate) fn elements(x: Output<'_>) -> usize {
    x.shape().to_dims().map_or(0, |dims| dims.iter().product())
}

/// Divides `total` elements into parts as even as possible: begin and length of each.
pub(crate) fn parts(total: usize, count: usize) -> Vec<(usize, usize)> {
    let bound = |i: usize| total * i / count;
    let of = |i: usize| (bound(i), bound(i + 1) - bound(i));
    (0..count).map(of).collect()
}
