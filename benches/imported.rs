//! Deep MNIST imported from TensorFlow's GraphDef, against the graph built here: training steps at batch 50 on two
//! threads, in alternation. `cargo bench -p thalweg-benches --bench imported [-- ROUNDS]`

use std::error::Error;
use std::io::Read;
use std::time::Instant;

use thalweg::prelude::*;
use thalweg_examples::model;
use thalweg_graphdef::{ImportOptions, file, import};

const BATCH: usize = 50;
/// Steps of each in a round.
const STEPS: usize = 20;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo's own arguments begin with a dash.
    let rounds = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let rounds: usize = rounds.map_or(Ok(15), |r| r.parse())?;
    let feeds = model::synthetic_feeds(BATCH)?;
    let built = Graph::new();
    built.set_seed(1);
    let net = model::deep_mnist(&built, DataFormat::Nhwc, 1e-4);
    let session = Session::with_options(&built, SessionOptions::new().threads(2))?;
    session.run(built.initializers(), [])?;
    let mut own = session.callable((net.train, net.loss), net.inputs())?;
    for kind in ["resource", "ref"] {
        let path = format!("tests/golden/graphs/deep_mnist_{kind}.pb.gz");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(std::fs::File::open(&path)?).read_to_end(&mut bytes)?;
        let graph = Graph::new();
        let imported = import(
            &graph,
            &file::decode(&bytes, &path, "GraphDef")?,
            &ImportOptions::default(),
        )?;
        let output = |name| imported.output(name).ok_or(format!("{path} has no {name}"));
        let operation = |name| {
            imported
                .operation(name)
                .ok_or(format!("{path} has no {name}"))
        };
        let session = Session::with_options(&graph, SessionOptions::new().threads(2))?;
        session.run(operation("init")?, [])?;
        let inputs = [output("x:0")?, output("labels:0")?, output("keep_prob:0")?];
        let mut read = session.callable((operation("Adam")?, output("loss:0")?), inputs)?;
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let time = |step: &mut Callable<'_>| -> Result<f64, Box<dyn Error>> {
                let start = Instant::now();
                for _ in 0..STEPS {
                    let loss = step.call(&feeds)?.scalar::<f32>(1)?;
                    assert!(loss.is_finite(), "the loss is {loss}");
                }
                Ok(start.elapsed().as_secs_f64() * 1e3 / STEPS as f64)
            };
            let pair = match round % 2 {
                0 => (time(&mut own)?, time(&mut read)?),
                _ => {
                    let read = time(&mut read)?;
                    (time(&mut own)?, read)
                }
            };
            // The first round is the warm-up.
            if round > 0 {
                ours.push(pair.0);
                theirs.push(pair.1);
                ratios.push(pair.1 / pair.0);
            }
        }
        println!(
            "{kind}: built {:.2} ms, imported {:.2} ms a step; imported / built {:.3} (medians of {rounds} rounds)",
            median(ours),
            median(theirs),
            median(ratios),
        );
    }
    Ok(())
}
