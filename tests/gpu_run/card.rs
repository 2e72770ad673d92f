//! Part `card`: the card, its driver, and the installed libraries. PyTorch begins to compile its training steps.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use thalweg::device::cuda::{Compiler, Cubins, Cuda, Library, cards};
use thalweg::ops::gpu::HEADER;
use thalweg_tests::root;

use crate::bench::{Bench, skipped};
use crate::training;
use crate::units::UnitResult;

pub fn names() -> Vec<String> {
    ["compilation", "versions", "clocks", "properties"]
        .map(str::to_owned)
        .into()
}

pub fn run(bench: &mut Bench, name: &str) -> UnitResult {
    match name {
        "compilation" => {
            let started = bench.start_compilation(&training::compiled_cases(bench.scale));
            Ok(json!({"started": started}))
        }
        "versions" => versions(bench),
        "clocks" => clocks(),
        "properties" => properties(),
        _ => Err("there is no such unit".into()),
    }
}

fn versions(bench: &mut Bench) -> UnitResult {
    let card = cards()?.into_iter().next().ok_or("there is no card")?;
    bench.driver()?;
    let version = |l: Library| (l.name().trim_end_matches(','), l.open(), l.version());
    let libraries: BTreeMap<&str, Value> = Library::ALL
        .map(version)
        .into_iter()
        .map(|(name, opened, version)| match opened {
            Err(why) => (name, json!({"missing": why.to_string()})),
            Ok(library) => (name, json!({"version": version, "path": library.path()})),
        })
        .collect();
    Ok(json!({
        "card": card.name, "architecture": card.architecture(), "bytes": card.memory,
        "libraries": libraries,
    }))
}

/// Clocks, power and temperature of the first card as `nvidia-smi` reports them; it changes nothing.
fn clocks() -> UnitResult {
    let mut command = Command::new("nvidia-smi");
    let query = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.draw,power.limit,temperature.gpu,\
                 pcie.link.gen.current,pcie.link.width.current,mig.mode.current";
    command.args(["--id=0", "--format=csv"]);
    let Ok(output) = command.arg(format!("--query-gpu={query}")).output() else {
        return skipped("there is no nvidia-smi");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().map(|line| line.split(','));
    let (Some(names), Some(values), true) = (lines.next(), lines.next(), output.status.success())
    else {
        return Err(format!(
            "nvidia-smi: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    };
    let found: BTreeMap<&str, &str> = names.map(str::trim).zip(values.map(str::trim)).collect();
    Ok(json!(found))
}

/// The card properties that cuDNN uses, and their differences from those of the absent card that the tests plan for.
fn properties() -> UnitResult {
    let card = cards()?.into_iter().next().ok_or("there is no card")?;
    if Library::Cudnn.open().is_err() {
        return skipped("there is no cuDNN");
    }
    let cubins = Cubins::new(HEADER, Compiler::open(HEADER), None);
    let text = Cuda::open(card, Arc::new(cubins))?.cudnn_properties()?;
    let found: Value = serde_json::from_str(&text)?;
    let ours = std::fs::read_to_string(root().join("tests/cards/h200.json"))?;
    let ours: Value = serde_json::from_str(&ours)?;
    let members = ours.as_object().into_iter().flatten();
    let differ: BTreeMap<&String, Value> = members
        .filter(|(name, value)| found.get(name) != Some(value))
        .map(|(name, value)| (name, json!([value, found.get(name)])))
        .collect();
    Ok(json!({"properties": found, "differ_from_ours": differ}))
}
