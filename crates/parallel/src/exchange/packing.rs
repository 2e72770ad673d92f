//! Packing of all gradients into a few large tensors of one size.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, SourceOps};

use super::parts::{Gradients, elements, parts};
use super::sum::like;
use crate::placement::Placement;

/// Packed gradients.
pub(super) struct Packed<'g> {
    /// Packed parts of each tower.
    pub(super) towers: Vec<Gradients<'g>>,
    /// Original gradients, for their shapes.
    like: Gradients<'g>,
}

/// Concatenates the gradients of each tower, and splits them into so many equal parts; `None` if `parts` is 0 or they
/// have several dtypes.
pub(super) fn packed<'g>(
    g: &'g Graph,
    placement: &Placement,
    towers: &[Gradients<'g>],
    count: usize,
) -> Option<Packed<'g>> {
    let first = &towers[0];
    let same = first.iter().all(|x| x.dtype() == first[0].dtype());
    if count == 0 || first.is_empty() || !same {
        return None;
    }
    let total: usize = first.iter().map(|&x| elements(x)).sum();
    let cuts = parts(total, count.clamp(1, total.max(1)));
    let pack = |(tower, gradients): (usize, &Gradients<'g>)| {
        placement.on_tower(g, tower, || {
            let flat: Vec<Output<'g>> = gradients.iter().map(|x| x.reshape([-1])).collect();
            let all = g.concat(&flat, 0);
            let cut =
                |&(begin, length): &(usize, usize)| all.slice([begin as i64], [length as i64]);
            cuts.iter().map(cut).collect()
        })
    };
    Some(Packed {
        towers: towers.iter().enumerate().map(pack).collect(),
        like: first.clone(),
    })
}

impl<'g> Packed<'g> {
    /// Unpacks the gradients.
    pub(super) fn unpacked(
        &self,
        g: &'g Graph,
        placement: &Placement,
        sums: Vec<Gradients<'g>>,
    ) -> Vec<Gradients<'g>> {
        let unpack = |(tower, parts): (usize, Gradients<'g>)| {
            placement.on_tower(g, tower, || {
                let all = g.concat(&parts, 0);
                let mut begin = 0;
                let mut next = |&gradient: &Output<'g>| {
                    let length = elements(gradient);
                    let part = all.slice([begin as i64], [length as i64]);
                    begin += length;
                    like(part, gradient)
                };
                self.like.iter().map(&mut next).collect()
            })
        };
        sums.into_iter().enumerate().map(unpack).collect()
    }
}
