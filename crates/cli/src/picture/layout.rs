//! Layered layout of a directed graph: positions of boxes, and paths of edges around them.

use std::collections::BTreeMap;

use rust_sugiyama::configure::Config;

/// Space between boxes.
const GAP: f64 = 34.0;

/// Width that an edge takes where it passes boxes.
const LANE: f64 = 8.0;

/// Largest number of points at which edges pass boxes. With more of them the layout takes seconds.
const MAX_POINTS: usize = 600;

/// `true` for each edge that the layout has room for: the shortest ones, until they pass too many boxes.
pub(crate) fn fitting(boxes: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    let forward: Vec<(usize, usize)> = edges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
    let ranks = ranks(boxes, &forward);
    let passed = |&(from, to): &(usize, usize)| ranks[to] - ranks[from] - 1;
    let mut order: Vec<usize> = (0..edges.len()).collect();
    order.sort_by_key(|&e| passed(&forward[e]));
    let (mut fits, mut points) = (vec![false; edges.len()], 0);
    for e in order {
        points += passed(&forward[e]);
        fits[e] = points <= MAX_POINTS;
    }
    fits
}

/// Positions and paths.
pub(crate) struct Layout {
    /// The centre of each box.
    pub centres: Vec<(f64, f64)>,
    /// The points of each edge, from the lower side of its first box to the upper side of its second one; the other way
    /// for an edge that leads back.
    pub paths: Vec<Vec<(f64, f64)>>,
    pub width: f64,
    pub height: f64,
}

/// Lays out boxes of these sizes, for edges that are [`fitting`]. An edge that leads from a box to one before it in the list counts as one that leads
/// back, so edges make no circle.
pub(crate) fn layout(sizes: &[(f64, f64)], edges: &[(usize, usize)]) -> Layout {
    let forward: Vec<(usize, usize)> = edges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
    let ranks = ranks(sizes.len(), &forward);
    // An edge over several ranks passes a point in each of them, for which there is room.
    let mut all = sizes.to_vec();
    let mut links = Vec::new();
    let mut chains = Vec::new();
    for &(from, to) in &forward {
        let mut chain = vec![from];
        for _ in ranks[from] + 1..ranks[to] {
            chain.push(all.len());
            all.push((LANE, 0.0));
        }
        chain.push(to);
        links.extend(chain.windows(2).map(|w| (w[0] as u32, w[1] as u32)));
        chains.push(chain);
    }
    let vertices: Vec<(u32, (f64, f64))> = all
        .iter()
        .enumerate()
        .map(|(i, &size)| (i as u32, size))
        .collect();
    let config = Config {
        vertex_spacing: GAP,
        ..Config::default()
    };
    let parts = rust_sugiyama::from_vertices_and_edges(&vertices, &links, &config);
    // Parts without edges between them stand side by side, each from the top.
    let mut centres = BTreeMap::new();
    let (mut left, mut height) = (GAP, 0.0f64);
    for (part, _, _) in parts {
        let side = |f: fn(f64, f64) -> f64, sign: f64, start: f64| {
            part.iter()
                .map(|&(i, (x, _))| x + sign * all[i].0 / 2.0)
                .fold(start, f)
        };
        let (first, last) = (
            side(f64::min, -1.0, f64::MAX),
            side(f64::max, 1.0, f64::MIN),
        );
        let top = part
            .iter()
            .map(|&(i, (_, y))| y - all[i].1 / 2.0)
            .fold(f64::MAX, f64::min);
        for &(i, (x, y)) in &part {
            let (x, y) = (x - first + left, y - top + GAP);
            height = height.max(y + all[i].1 / 2.0);
            centres.insert(i, (x, y));
        }
        left += last - first + GAP;
    }
    let at = |i: usize| centres.get(&i).copied().unwrap_or_default();
    let path = |chain: &Vec<usize>| {
        let mut points: Vec<(f64, f64)> = chain.iter().map(|&i| at(i)).collect();
        let (first, last) = (chain[0], chain[chain.len() - 1]);
        points[0].1 += all[first].1 / 2.0;
        let end = points.len() - 1;
        points[end].1 -= all[last].1 / 2.0;
        points
    };
    Layout {
        centres: (0..sizes.len()).map(at).collect(),
        paths: chains.iter().map(path).collect(),
        width: left,
        height: height + GAP,
    }
}

/// The row of each box: below those that lead to it. Boxes that nothing leads to stand right above the first that they lead to.
fn ranks(boxes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut next = vec![Vec::new(); boxes];
    let mut has_input = vec![false; boxes];
    for &(from, to) in edges {
        next[from].push(to);
        has_input[to] = true;
    }
    let mut ranks = vec![0; boxes];
    // Edges lead from lower numbers to higher ones.
    for from in 0..boxes {
        for &to in &next[from] {
            ranks[to] = ranks[to].max(ranks[from] + 1);
        }
    }
    for from in (0..boxes).filter(|&b| !has_input[b]) {
        if let Some(first) = next[from].iter().map(|&to| ranks[to]).min() {
            ranks[from] = first - 1;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_lead_down_and_boxes_do_not_overlap() {
        let sizes = [
            (100.0, 30.0),
            (60.0, 50.0),
            (200.0, 30.0),
            (80.0, 30.0),
            (90.0, 30.0),
        ];
        // The last edge leads back, and the last box has no edge.
        let edges = [(0, 1), (1, 2), (0, 2), (0, 3), (2, 1)];
        let found = layout(&sizes, &edges);
        for (path, &(a, b)) in found.paths.iter().zip(&edges) {
            let (upper, lower) = (a.min(b), a.max(b));
            let (first, last) = (path[0], path[path.len() - 1]);
            assert_eq!(
                first,
                (
                    found.centres[upper].0,
                    found.centres[upper].1 + sizes[upper].1 / 2.0
                )
            );
            assert_eq!(
                last,
                (
                    found.centres[lower].0,
                    found.centres[lower].1 - sizes[lower].1 / 2.0
                )
            );
            assert!(path.windows(2).all(|w| w[0].1 < w[1].1), "{path:?}");
        }
        for a in 0..sizes.len() {
            for b in 0..a {
                let ((ax, ay), (bx, by)) = (found.centres[a], found.centres[b]);
                let apart = (ax - bx).abs() >= (sizes[a].0 + sizes[b].0) / 2.0
                    || (ay - by).abs() >= (sizes[a].1 + sizes[b].1) / 2.0;
                assert!(apart, "{a} and {b} overlap");
            }
            let (x, y) = found.centres[a];
            assert!(x > 0.0 && x < found.width && y > 0.0 && y < found.height);
        }
    }

    #[test]
    fn long_edges_of_a_large_graph_are_left_out() {
        let boxes = 200;
        let next = (1..boxes).map(|b| (b - 1, b));
        let far = (0..boxes).flat_map(|a| (a + 2..boxes).step_by(7).map(move |b| (a, b)));
        let edges: Vec<(usize, usize)> = next.chain(far).collect();
        let fits = fitting(boxes, &edges);
        assert!(fits[..boxes - 1].iter().all(|f| *f));
        let kept: Vec<(usize, usize)> = edges
            .iter()
            .zip(&fits)
            .filter(|(_, f)| **f)
            .map(|(e, _)| *e)
            .collect();
        let passed: usize = kept.iter().map(|(a, b)| b - a - 1).sum();
        assert!(
            passed <= MAX_POINTS && kept.len() > boxes,
            "{passed} {}",
            kept.len()
        );
    }

    #[test]
    fn nothing_has_a_layout() {
        assert!(layout(&[], &[]).centres.is_empty());
        assert_eq!(layout(&[(10.0, 10.0)], &[]).centres.len(), 1);
    }

    #[test]
    fn a_source_stands_above_the_first_that_uses_it() {
        assert_eq!(ranks(4, &[(0, 1), (1, 3), (2, 3)]), [0, 1, 1, 2]);
    }
}
