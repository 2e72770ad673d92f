//! Loops of TensorFlow 1 programs: milliseconds of a training step on two threads, of the GraphDefs that
//! `benches/peers/loops.py` writes. `cargo bench -p thalweg-benches --bench loops -- FOLDER [NAME...]`

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use thalweg::prelude::*;
use thalweg_graphdef::{GraphDef, ImportOptions, file, import};

/// Steps that are not measured: the plans of all shapes are made in the first ones.
const WARM_UP: usize = 3;
const MOST_STEPS: usize = 400;
const TIME: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo's own arguments begin with a dash.
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let folder = arguments
        .next()
        .ok_or("the folder of the GraphDefs is missing")?;
    let names: Vec<String> = arguments.collect();
    let mut paths: Vec<_> = std::fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "pb"))
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if names.is_empty() || names.iter().any(|n| *n == name) {
            measure(&path, &name)?;
        }
    }
    Ok(())
}

fn measure(path: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let def: GraphDef = file::decode(&std::fs::read(path)?, name, "GraphDef")?;
    let graph = Graph::new();
    let imported = import(&graph, &def, &ImportOptions::default())?;
    let session = Session::with_options(&graph, SessionOptions::new().threads(2))?;
    if let Some(init) = imported.operation("init") {
        session.run(init, [])?;
    }
    let loss = imported
        .output("loss_after_step")
        .ok_or("no loss_after_step")?;
    let (mut losses, mut times) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while times.len() < MOST_STEPS && (times.len() < 2 * WARM_UP || start.elapsed() < TIME) {
        let step = Instant::now();
        losses.push(session.run::<f32>(loss, [])?);
        times.push(step.elapsed().as_secs_f64() * 1e3);
    }
    let mut measured = times.split_off(WARM_UP);
    measured.sort_by(f64::total_cmp);
    println!(
        "{name}: {:.3} ms median, {:.3} least, {:.1} first; losses {:?}",
        measured[measured.len() / 2],
        measured[0],
        times[0],
        &losses[..WARM_UP]
    );
    Ok(())
}
