//! The GPU functions that op cases launch.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_device::gpu::Function;

use super::emulated::{Checks, Emulated};
use super::golden::cases;
use super::large_cases::in_parts;

/// The functions that the table of op cases and the large cases launch: names by source, dtypes and width of an index.
pub fn functions() -> BTreeMap<String, (Function, BTreeSet<&'static str>)> {
    let emulated = Emulated::new(Checks::None);
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
