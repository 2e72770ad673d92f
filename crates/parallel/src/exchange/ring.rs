//! Ring all-reduce: each device adds the part from its predecessor to its own, until each has the sum of one part; then
//! the sums go around.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, SourceOps};

use super::parts::{elements, parts};
use super::sum::like;
use crate::placement::Placement;

/// Builds the sum on each tower. With several `rings` the tensor is split, and each piece starts at another device. The
/// order of additions is that of the ring, from the own device of a part on, so all towers have the same bits.
pub(super) fn sum<'g>(
    g: &'g Graph,
    placement: &Placement,
    rings: usize,
    all: &[Output<'g>],
) -> Vec<Output<'g>> {
    let (n, total) = (all.len(), elements(all[0]));
    let rings = rings.clamp(1, n);
    let pieces = parts(total, n * rings);
    let mut held: Vec<Vec<Output<'g>>> = (0..n)
        .map(|tower| placement.on_tower(g, tower, || cut(all[tower], &pieces)))
        .collect();
    for ring in 0..rings {
        // Device `at` of the ring is this tower.
        let tower = |at: usize| (at + ring * n / rings) % n;
        let part = |p: usize| ring * n + p;
        // In round r, device d takes part d - 1 - r from its predecessor.
        for round in 0..n - 1 {
            for at in 0..n {
                let p = part((at + 2 * n - 1 - round) % n);
                let (from, to) = (tower((at + n - 1) % n), tower(at));
                let (came, own) = (held[from][p], held[to][p]);
                held[to][p] = placement.on_tower(g, to, || came + own);
            }
        }
        // Device d has the sum of part d + 1; it goes to all others.
        for p in 0..n {
            let whole = held[tower((p + n - 1) % n)][part(p)];
            for tower in &mut held {
                tower[part(p)] = whole;
            }
        }
    }
    let whole =
        |tower: usize| placement.on_tower(g, tower, || like(g.concat(&held[tower], 0), all[tower]));
    (0..n).map(whole).collect()
}

fn cut<'g>(x: Output<'g>, pieces: &[(usize, usize)]) -> Vec<Output<'g>> {
    let flat = x.reshape([-1]);
    let piece = |&(begin, length): &(usize, usize)| flat.slice([begin as i64], [length as i64]);
    pieces.iter().map(piece).collect()
}
