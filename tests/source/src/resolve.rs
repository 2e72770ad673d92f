//! Paths followed to the file that defines what they name, through re-exports and imports.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::{Module, Source};

/// Re-exports that a path is followed through at most.
const MAX_HOPS: usize = 16;

/// The files that each file uses: those that define what its paths name, and those that it re-exports.
pub fn uses(sources: &BTreeMap<Module, Source>) -> BTreeMap<Module, BTreeSet<Module>> {
    let of = |(module, source): (&Module, &Source)| {
        let targets = source
            .paths
            .iter()
            .filter_map(|p| definition(sources, p, MAX_HOPS));
        (module.clone(), targets.filter(|t| t != module).collect())
    };
    sources.iter().map(of).collect()
}

/// The file that defines what `path` names; `None` for a name of another crate.
fn definition(sources: &BTreeMap<Module, Source>, path: &[String], hops: usize) -> Option<Module> {
    let mut at = Module::new();
    for (i, name) in path.iter().enumerate() {
        let source = sources.get(&at)?;
        let child: Module = [at.clone(), vec![name.clone()]].concat();
        if sources.contains_key(&child) {
            at = child;
            continue;
        }
        if source.items.contains(name) {
            return Some(at);
        }
        if source.external.contains(name) || hops == 0 {
            return None;
        }
        let rest = &path[i + 1..];
        let import = source
            .imports
            .iter()
            .find(|i| i.name.as_ref() == Some(name));
        if let Some(import) = import {
            return definition(sources, &[&import.path, rest].concat(), hops - 1);
        }
        let globs = source.imports.iter().filter(|i| i.name.is_none());
        for glob in globs {
            let inside = [&glob.path, &path[i..]].concat();
            let found = definition(sources, &inside, hops - 1);
            if let Some(found) = found.filter(|f| sources[f].items.contains(name)) {
                return Some(found);
            }
        }
        return Some(at);
    }
    Some(at)
}
