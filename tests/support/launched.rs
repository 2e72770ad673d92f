//! The functions of the GPU's kernels.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_device::gpu::Function;

use super::emulated::Emulated;
use super::golden::cases;
use super::large_cases::in_parts;

/// What the table of op cases and larger ones launch: by source, dtypes and width of an index, the
/// names.
pub fn functions() -> BTreeMap<String, (Function, BTreeSet<&'static str>)> {
    let emulated = Emulated::new(false);
    let mut all: BTreeMap<String, (Function, BTreeSet<&'static str>)> = BTreeMap::new();
    for case in cases("").into_iter().chain(in_parts()) {
        for function in emulated.functions(&case).unwrap() {
            let key = format!("{} {:?}", function.source.name, function.macros());
            let entry = all
                .entry(key)
                .or_insert_with(|| (function.clone(), BTreeSet::new()));
            entry.1.insert(function.name);
        }
    }
    all
}
