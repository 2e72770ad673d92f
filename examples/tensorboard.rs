//! Deep MNIST's graph for TensorBoard: `graph.pb`, a GraphDef that other programs read too, and an
//! event file that TensorBoard's graph view shows.
//!
//! ```text
//! cargo run --release --example tensorboard -- --out logs
//! tensorboard --logdir logs
//! ```

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::Parser;
use thalweg::graphdef::{ExportOptions, export, file};
use thalweg::prelude::*;
use thalweg::summary::SummaryWriter;
use thalweg_examples::model;

/// Write deep MNIST's graph for TensorBoard.
#[derive(Parser)]
struct Flags {
    /// The folder that the files go to
    #[arg(long, default_value = "logs")]
    out: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::parse();
    let g = Graph::new();
    // The weights stand on one device, as a parameter server's would, and the tower on another.
    let inputs = model::placeholders(&g);
    let weights = model::Weights::new(|make| g.device("/device:CPU:0", make));
    let (loss, accuracy) = g.device("/device:CPU:1", || {
        let build = || model::tower(&g, inputs, DataFormat::Nhwc, &weights);
        g.name_scope("tower", build)
    });
    g.name_scope("train", || Adam::new(1e-4).minimize(loss));
    g.name_scope("measures", || accuracy.named("accuracy"));
    if let Some(mistake) = g.errors().into_iter().next() {
        return Err(mistake.into());
    }

    // Shapes are what TensorBoard writes on the edges.
    let options = ExportOptions::new().output_shapes(true);
    let def = export(&g, &options)?;
    fs::create_dir_all(&flags.out)?;
    fs::write(flags.out.join("graph.pb"), file::encode(&def))?;
    let writer = SummaryWriter::create(&flags.out)?;
    writer.graph_def(&def)?;
    writer.close()?;
    println!("{} nodes: {}", def.node.len(), writer.path().display());
    Ok(())
}
