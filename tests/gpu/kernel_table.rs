//! `docs/kernels.md`, the table of ops with their kernels by device, compared with the registry.
//!
//! `UPDATE_DOCS=1 cargo test -p thalweg-tests --test gpu kernel_table::` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use thalweg_device::{Body, DeviceType, Kernel, Op};
use thalweg_graph::op::Allowed;
use thalweg_tensor::DType;
use thalweg_tests::emulated::{Checks, Emulated};
use thalweg_tests::golden::cases;

const HEAD: &str = "# Kernels

Every op, the file in `crates/ops/src` that defines it, the dtypes of its attribute `T` (or of the one that stands for \
it), and where it has a kernel. Written from the registry by `UPDATE_DOCS=1 cargo test -p thalweg-tests --test gpu kernel_table::`; a test holds \
it.

Where it runs nothing (a reshape, a constant), any device can. An op on references runs as the one \
on handles that is named. What is about shapes and indices \
alone runs on a GPU's host. A GPU's kernel is compiled by NVRTC for every architecture \
(`tests/gpu/nvrtc.rs`) and emulated on the CPU over the cases of the op table (`tests/gpu/emulated.rs`), as \
many as are said. Where cuBLASLt and cuDNN are there, they compute products and convolutions of \
floats in place of the kernels. Nothing has run on hardware yet.

| op | file | dtypes | CPU | GPU | the GPU's kernel was |
| --- | --- | --- | --- | --- | --- |
";

/// The dtypes that the op's elements may be.
fn dtypes(op: &Op, kernel: Option<&Kernel>) -> String {
    let wanted = ["T", "dtype", "SrcT"];
    let attrs = op.def.attrs.iter();
    let attr = attrs
        .filter(|a| wanted.contains(&a.name))
        .find_map(|a| match a.allowed {
            Allowed::Types(list) => Some((a.name, list)),
            _ => None,
        });
    let Some((name, list)) = attr else {
        return "-".to_owned();
    };
    let only = kernel.and_then(|k| k.dtypes.iter().find(|(attr, _)| *attr == name));
    let names = |list: &[DType]| list.iter().map(|d| d.name()).collect::<Vec<_>>().join(" ");
    only.map_or_else(|| names(list), |(_, only)| names(only))
}

/// File of each op in the order of [`thalweg_ops::ops`], relative to `crates/ops/src`. The order is that of the list of
/// families and of the lists of their ops, whose entries are `&FILE::NAME`.
fn files() -> Vec<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ops/src");
    let entries = |file: String, list: &str| -> Vec<String> {
        let text = std::fs::read_to_string(src.join(file)).unwrap();
        let (_, after) = text.split_once(&format!("static {list}: ")).unwrap();
        let (_, entries) = after.split_once("= &[").unwrap();
        let (entries, _) = entries.split_once("];").unwrap();
        // The condition of an entry stands before it.
        let modules = entries
            .split(',')
            .filter_map(|e| e.split_whitespace().last()?.rsplit_once("::"));
        let path = |(module, _): (&str, &str)| module.trim_start_matches('&').replace("::", "/");
        modules.map(path).collect()
    };
    let families = entries("families.rs".to_owned(), "FAMILIES");
    let in_family = |family: String| {
        let file = |module: String| match src.join(format!("{family}/{module}.rs")).exists() {
            true => format!("{family}/{module}.rs"),
            false => format!("{family}/{module}/mod.rs"),
        };
        let modules = entries(format!("{family}/mod.rs"), "OPS").into_iter();
        modules.map(file).collect::<Vec<_>>()
    };
    families.into_iter().flat_map(in_family).collect()
}

fn table() -> String {
    let emulated = Emulated::new(Checks::None);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases("") {
        let launches = !emulated.functions(&case).unwrap().is_empty();
        *counts.entry(case.op.clone()).or_default() += usize::from(launches);
    }
    let mut rows: BTreeSet<String> = BTreeSet::new();
    let files = files();
    assert_eq!(files.len(), thalweg_ops::ops().count());
    for (op, file) in thalweg_ops::ops().zip(files) {
        let anywhere = op.kernels.iter().any(|k| k.device.is_none());
        let runs = |device| {
            let on = || op.kernels.iter().filter(|k| k.device == Some(device));
            let computing = |k: &&Kernel| {
                matches!(
                    k.body,
                    Body::Compute(_) | Body::Tensors(_) | Body::Launch(_) | Body::Functions
                )
            };
            let all = dtypes(op, None);
            let each: BTreeSet<String> = on()
                .filter(computing)
                .map(|k| dtypes(op, Some(k)))
                .collect();
            let covered: BTreeSet<&str> = each.iter().flat_map(|d| d.split(' ')).collect();
            if !each.is_empty() {
                let in_order: Vec<&str> = all.split(' ').filter(|d| covered.contains(d)).collect();
                return match in_order.join(" ") {
                    some if some == all => "yes".to_owned(),
                    some => some,
                };
            }
            match (on().any(|k| matches!(k.body, Body::Host)), anywhere) {
                (true, _) => "on its host".to_owned(),
                (_, true) => "runs nothing".to_owned(),
                _ => match op.def.on_handles {
                    Some(name) => format!("as {name}"),
                    None => "no".to_owned(),
                },
            }
        };
        let count = counts.get(op.def.name).copied().unwrap_or(0);
        rows.insert(format!(
            "| {} | {file} | {} | {} | {} | {} |\n",
            op.def.name,
            dtypes(op, None),
            runs(DeviceType::Cpu),
            runs(DeviceType::Gpu),
            match count {
                0 => String::new(),
                n => format!("compiled, emulated ({n} cases), not run on hardware"),
            },
        ));
    }
    HEAD.to_owned() + &rows.into_iter().collect::<String>()
}

#[test]
fn the_table_of_kernels_matches_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kernels.md");
    let table = table();
    if std::env::var("UPDATE_DOCS").is_ok_and(|v| v == "1") {
        std::fs::write(&path, &table).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == table,
        "docs/kernels.md is not what the registry says: UPDATE_DOCS=1 cargo test -p thalweg-tests --test gpu kernel_table::"
    );
}
