//! Sums on one device, copied to all towers.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, SourceOps, SumOps};

use super::parts::{elements, parts};
use crate::placement::Placement;

/// Builds the sum on one of the towers' devices, in turn, and copies it to each tower.
pub(super) fn copied<'g>(
    g: &'g Graph,
    placement: &Placement,
    number: usize,
    all: &[Output<'g>],
) -> Vec<Output<'g>> {
    let sum = placement.on_tower(g, number % all.len(), || g.add_n(all));
    vec![sum; all.len()]
}

/// Builds sums of parts of the tensor on several devices: the towers' in turn, or all on the CPU.
pub(super) fn sharded<'g>(
    g: &'g Graph,
    placement: &Placement,
    shards: usize,
    number: usize,
    cpu: bool,
    all: &[Output<'g>],
) -> Vec<Output<'g>> {
    let total = elements(all[0]);
    let shards = shards.clamp(1, total.max(1));
    let on = |shard: usize, make: &dyn Fn() -> Output<'g>| match cpu {
        true => placement.on_cpu(g, make),
        false => placement.on_tower(g, (number + shard) % all.len(), make),
    };
    if shards == 1 {
        return vec![on(0, &|| g.add_n(all)); all.len()];
    }
    let cut = |x: Output<'g>, tower: usize| {
        placement.on_tower(g, tower, || {
            let flat = x.reshape([-1]);
            let parts = parts(total, shards);
            let part =
                |&(begin, length): &(usize, usize)| flat.slice([begin as i64], [length as i64]);
            parts.iter().map(part).collect::<Vec<_>>()
        })
    };
    let cuts: Vec<Vec<Output<'g>>> = all.iter().enumerate().map(|(t, &x)| cut(x, t)).collect();
    let sums: Vec<Output<'g>> = (0..shards)
        .map(|shard| {
            let column: Vec<Output<'g>> = cuts.iter().map(|parts| parts[shard]).collect();
            on(shard, &|| g.add_n(&column))
        })
        .collect();
    let whole =
        |tower: usize| placement.on_tower(g, tower, || like(g.concat(&sums, 0), all[tower]));
    (0..all.len()).map(whole).collect()
}

/// Reshapes to the known shape of another tensor.
pub(super) fn like<'g>(x: Output<'g>, other: Output<'g>) -> Output<'g> {
    let dims = other.shape().to_dims().unwrap_or_default();
    x.reshape(dims.iter().map(|&d| d as i64).collect::<Vec<_>>())
}
