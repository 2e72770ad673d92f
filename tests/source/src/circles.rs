//! Circles between the children of each folder of a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::Module;

/// Children of one folder that use each other, directly or through others.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The folder's module.
    pub folder: Module,
    /// Files and folders in it; `mod` is the folder's own file.
    pub members: BTreeSet<String>,
    /// One use for each pair of members, as "file -> file".
    pub because: BTreeSet<String>,
}

/// The circles of two and more children, in every folder.
///
/// A folder counts as one child with all that is in it; the folder's own file (`mod.rs`, `lib.rs`) is a child too.
pub fn circles(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Circle> {
    // By folder: which child uses which, with the files that show it.
    let mut levels: BTreeMap<Module, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (from, targets) in uses {
        for to in targets {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            let child = |m: &Module| m.get(common).map_or("mod", String::as_str).to_owned();
            let shown = format!("{} -> {}", from.join("::"), to.join("::"));
            let level = levels.entry(from[..common].to_vec()).or_default();
            level.entry((child(from), child(to))).or_insert(shown);
        }
    }
    let of = |(folder, edges): (Module, BTreeMap<(String, String), String>)| {
        components(edges.keys())
            .into_iter()
            .map(|members| Circle {
                folder: folder.clone(),
                because: edges
                    .iter()
                    .filter(|((a, b), _)| members.contains(a) && members.contains(b))
                    .map(|(_, shown)| shown.clone())
                    .collect(),
                members,
            })
            .collect::<Vec<_>>()
    };
    levels.into_iter().flat_map(of).collect()
}

/// Sets of two and more nodes, each of which is reached from each other one.
fn components<'a>(edges: impl Iterator<Item = &'a (String, String)>) -> BTreeSet<BTreeSet<String>> {
    let mut next: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
    }
    let reached = |from: &'a String| {
        let mut seen = BTreeSet::new();
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            for to in next.get(node).into_iter().flatten() {
                if seen.insert(*to) {
                    stack.push(to);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<&String>> = next.keys().map(|n| (*n, reached(n))).collect();
    let circle = |(node, reaches): (&&String, &BTreeSet<&String>)| {
        reaches.contains(*node).then(|| {
            let back = reaches
                .iter()
                .filter(|o| all.get(*o).is_some_and(|r| r.contains(*node)));
            back.map(|o| (*o).clone()).collect::<BTreeSet<String>>()
        })
    };
    all.iter().filter_map(circle).collect()
}
