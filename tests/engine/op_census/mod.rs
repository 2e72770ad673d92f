//! `docs/ops.md`, the table of TensorFlow 1.15's ops, compared with the ops that run here.
//!
//! `UPDATE_DOCS=1 cargo test -p thalweg-tests --test engine op_census::` writes it.
//! `registry.tsv` has a line for each op: its area, its name, and the dtypes of its attributes. They are those of
//! TensorFlow 1.15's registry, of which a CPU kernel of TensorFlow takes some; quantised ones are left out.

mod refused;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use thalweg_device::{DeviceType, Op};
use thalweg_graph::Registry;
use thalweg_graph::op::Allowed;
use thalweg_graphdef::dtype;
use thalweg_graphdef::messages::{GraphDef, NodeDef};
use thalweg_graphdef::survey::survey;
use thalweg_ops::OpSet;
use thalweg_tensor::DType;

use refused::REFUSED;

const REGISTRY: &str = include_str!("registry.tsv");

const HEAD: &str = "# TensorFlow's ops

Every op of TensorFlow 1.15's registry, and whether it runs here. Written by \
`UPDATE_DOCS=1 cargo test -p thalweg-tests --test engine op_census::`; a test holds it. [Kernels](kernels.md) has the \
dtypes and devices of each op that runs.

An op runs if a GraphDef with it is imported. A limit names the dtypes that a CPU kernel of TensorFlow takes and \
none here does. Dtypes of quantised integers are left out.

";

/// Titles of the areas whose names need one; the others have their name.
const TITLES: &[(&str, &str)] = &[
    ("ctc", "CTC"),
    ("cudnn_rnn", "RNNs of cuDNN"),
    ("io", "files and readers"),
    ("linalg", "linear algebra"),
    ("list", "tensor lists"),
    ("manip", "rolls"),
    ("math", "mathematics"),
    ("nccl", "NCCL"),
    ("nn", "neural networks"),
    ("no", "no ops"),
    ("rnn", "RNN blocks"),
    ("rpc", "RPC"),
    ("script", "Python functions"),
    ("sdca", "SDCA"),
    ("tpu", "TPU"),
];

/// An op of TensorFlow.
struct Listed {
    area: &'static str,
    name: &'static str,
    /// The dtypes of each attribute, as its files name them: `float`; `any` is all.
    dtypes: Vec<(&'static str, Vec<&'static str>)>,
}

fn listed() -> Vec<Listed> {
    let op = |line: &'static str| {
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or_default();
        let (area, name, dtypes) = (field(), field(), field());
        let dtypes = dtypes.split_whitespace().map(|attr| {
            let (attr, dtypes) = attr.split_once('=').expect(line);
            (attr, dtypes.split(',').collect())
        });
        Listed {
            area,
            name,
            dtypes: dtypes.collect(),
        }
    };
    REGISTRY.lines().map(op).collect()
}

/// Support for an op of TensorFlow.
#[derive(PartialEq, Eq)]
enum Support {
    Runs,
    /// Runs, but for these dtypes.
    Limited(String),
    Refused(&'static str),
    Missing,
}

impl Support {
    fn cell(&self) -> String {
        match self {
            Support::Runs => "runs".to_owned(),
            Support::Limited(limit) => format!("runs with a limit: no {limit}"),
            Support::Refused(reason) => format!("refused: {reason}"),
            Support::Missing => "missing".to_owned(),
        }
    }
}

/// The name of a dtype in TensorFlow's registry: `float`.
fn tensorflow_name(dtype: DType) -> String {
    let name = dtype::name(dtype::to_number(dtype));
    name.trim_start_matches("DT_").to_lowercase()
}

/// The dtypes of an op's attribute that a kernel on the CPU takes.
fn taken(op: &Op, kernels: &[&thalweg_device::Kernel], attr: &str) -> Option<BTreeSet<DType>> {
    let allowed = match op.def.attr(attr)?.allowed {
        Allowed::Types(types) => types,
        _ => &DType::ALL,
    };
    let takes = |dtype: &DType| {
        let mut only = kernels.iter().map(|k| {
            let attr = k.dtypes.iter().find(|(name, _)| *name == attr);
            attr.is_none_or(|(_, dtypes)| dtypes.contains(dtype))
        });
        kernels.is_empty() || only.any(|takes| takes)
    };
    Some(allowed.iter().copied().filter(takes).collect())
}

/// The dtypes that TensorFlow takes and this op does not, of each attribute.
fn limit(listed: &Listed, op: &Op, ops: &BTreeMap<&str, &'static Op>) -> String {
    let on_handles = op.def.on_handles.and_then(|name| ops.get(name).copied());
    let kernels = on_handles.unwrap_or(op).kernels.iter();
    let kernels: Vec<_> = kernels
        .filter(|k| k.device != Some(DeviceType::Gpu))
        .collect();
    let mut limits = Vec::new();
    for (attr, dtypes) in &listed.dtypes {
        let Some(taken) = taken(op, &kernels, attr) else {
            continue;
        };
        let taken: BTreeSet<String> = taken.into_iter().map(tensorflow_name).collect();
        let lacking: Vec<&str> = match dtypes[..] {
            ["any"] => all_dtypes(),
            _ => dtypes.clone(),
        };
        let lacking: Vec<&str> = lacking
            .into_iter()
            .filter(|name| !taken.contains(*name))
            .collect();
        if !lacking.is_empty() {
            limits.push(format!("{} for {attr}", lacking.join(", ")));
        }
    }
    limits.join("; ")
}

/// All dtypes that an attribute of the registry names.
fn all_dtypes() -> Vec<&'static str> {
    let ops = listed();
    let dtypes = ops.iter().flat_map(|op| &op.dtypes).flat_map(|(_, d)| d);
    let all: BTreeSet<&str> = dtypes.copied().filter(|name| *name != "any").collect();
    all.into_iter().collect()
}

fn state(listed: &Listed, registry: &Registry, ops: &BTreeMap<&str, &'static Op>) -> Support {
    let node = NodeDef {
        name: "node".to_owned(),
        op: listed.name.to_owned(),
        ..NodeDef::default()
    };
    let def = GraphDef {
        node: vec![node],
        ..GraphDef::default()
    };
    let runs = survey(&def, registry).ops.is_empty();
    let reason = REFUSED
        .iter()
        .find(|(ops, _)| ops.has(listed.area, listed.name));
    match (runs, reason, ops.get(listed.name)) {
        (true, Some(_), _) => panic!("{} is refused, and runs", listed.name),
        (true, None, Some(op)) => match limit(listed, op, ops) {
            none if none.is_empty() => Support::Runs,
            some => Support::Limited(some),
        },
        (true, None, None) => Support::Runs,
        (false, Some((_, reason)), _) => Support::Refused(reason),
        (false, None, _) => Support::Missing,
    }
}

/// The heading of an area.
fn title(area: &str) -> String {
    let titled = TITLES.iter().find(|(name, _)| *name == area);
    let mut title = titled.map_or_else(|| area.replace('_', " "), |(_, title)| (*title).to_owned());
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// A row of the table of counts.
fn counts(title: &str, states: &[&Support]) -> String {
    let count = |is: fn(&Support) -> bool| states.iter().filter(|s| is(s)).count();
    format!(
        "| {title} | {} | {} | {} | {} | {} |\n",
        count(|s| *s == Support::Runs),
        count(|s| matches!(s, Support::Limited(_))),
        count(|s| matches!(s, Support::Refused(_))),
        count(|s| *s == Support::Missing),
        states.len(),
    )
}

fn page() -> String {
    let set = OpSet::default();
    let registry = set.registry();
    let ops: BTreeMap<&str, &'static Op> = set.iter().map(|op| (op.def.name, op)).collect();
    let mut areas: BTreeMap<String, BTreeMap<&str, Support>> = BTreeMap::new();
    for listed in listed() {
        let area = areas.entry(title(listed.area)).or_default();
        area.insert(listed.name, state(&listed, &registry, &ops));
    }
    let mut page = HEAD.to_owned();
    page.push_str("| area | runs | with a limit | refused | missing | all |\n");
    page.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for (title, area) in &areas {
        page.push_str(&counts(title, &area.values().collect::<Vec<_>>()));
    }
    let all: Vec<&Support> = areas.values().flat_map(BTreeMap::values).collect();
    page.push_str(&counts("all", &all));
    for (title, area) in &areas {
        let _ = write!(page, "\n## {title}\n\n| op | |\n| --- | --- |\n");
        for (name, state) in area {
            let _ = writeln!(page, "| {name} | {} |", state.cell());
        }
    }
    page
}

#[test]
fn the_table_of_tensorflows_ops_matches_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ops.md");
    let page = page();
    if std::env::var("UPDATE_DOCS").is_ok_and(|v| v == "1") {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/ops.md is not what the registry says: UPDATE_DOCS=1 cargo test -p thalweg-tests --test engine op_census::"
    );
}

#[test]
fn each_reason_is_about_an_op_of_tensorflow() {
    let all = listed();
    for (ops, reason) in REFUSED {
        let about = all.iter().any(|op| ops.has(op.area, op.name));
        assert!(about, "no op is refused because {reason}");
    }
    let areas: BTreeSet<&str> = all.iter().map(|op| op.area).collect();
    for (area, _) in TITLES {
        assert!(areas.contains(area), "no op is of the area {area}");
    }
}
