//! `thalweg run`: runs steps of a graph.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use thalweg_graph::{Graph, Operation, Output};
use thalweg_graphdef::Imported;
use thalweg_ops::NewGraph;
use thalweg_session::{Feeding, FetchList, Fetches, Session, SessionOptions};
use thalweg_tensor::Tensor;
use thalweg_tensor::text::counted;

use crate::Failure;
use crate::arrays::{self, Results};
use crate::initializers::explained;
use crate::model::Model;

/// How long steps may take before a bar shows how far they are.
const PATIENCE: Duration = Duration::from_secs(1);

/// Run steps of a graph, with arrays from .npy files, and keep what they give in a .npz file
///
/// NAME is an output's name: `node:1`, or `node` for the first output of a node.
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    model: Model,

    /// Feed an output the array of a .npy file, in every step
    #[arg(long = "feed", value_name = "NAME=FILE.npy", value_parser = feed)]
    feeds: Vec<(String, PathBuf)>,

    /// Keep an output's value of each step, as the array NAME/STEP
    #[arg(long = "fetch", value_name = "NAME", requires = "out")]
    fetches: Vec<String>,

    /// Run a node in each step, and keep nothing of it
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,

    /// How many steps
    #[arg(long, default_value_t = 1, value_name = "N")]
    steps: u64,

    /// Run a node once, before the steps; they are run in the order in which they are given
    #[arg(long = "init", value_name = "NAME")]
    inits: Vec<String>,

    /// How many threads; as many as the machine runs at once without it
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    threads: usize,

    /// Tell what was done as JSON
    #[arg(long)]
    json: bool,

    /// Where the fetched arrays go
    #[arg(long, value_name = "FILE.npz")]
    out: Option<PathBuf>,
}

fn feed(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("write it as NAME=FILE.npy".to_owned()),
    }
}

/// What a step fetches: values, and nodes that only run.
struct StepFetches<'g> {
    values: Vec<Output<'g>>,
    targets: Vec<Operation<'g>>,
}

impl Fetches for StepFetches<'_> {
    fn add_to(&self, list: &mut FetchList<'_>) {
        self.values.add_to(list);
        self.targets.add_to(list);
    }
}

impl Run {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.fetches.is_empty() && self.targets.is_empty() && self.inits.is_empty() {
            return Err(
                "nothing is asked for: name outputs with --fetch or nodes with --target".into(),
            );
        }
        let names: BTreeSet<&String> = self.fetches.iter().collect();
        if names.len() != self.fetches.len() {
            return Err("an output is fetched twice under one name".into());
        }
        let graph = Graph::new();
        let mut loaded = self.model.load()?;
        let imported = loaded.import(&graph)?;
        let find = Find {
            graph: &graph,
            imported: &imported,
            file: &loaded.origin,
        };
        let feeds: Vec<(Output<'_>, Tensor)> = self
            .feeds
            .iter()
            .map(|(name, file)| Ok((find.output("--feed", name)?, arrays::read(file)?)))
            .collect::<Result<_, Failure>>()?;
        let feeds: Vec<_> = feeds.into_iter().map(|(o, value)| o.feed(value)).collect();
        let outputs = self.fetches.iter().map(|n| find.output("--fetch", n));
        let targets = self.targets.iter().map(|n| find.node("--target", n));
        let step = StepFetches {
            values: outputs.collect::<Result<_, _>>()?,
            targets: targets.collect::<Result<_, _>>()?,
        };
        let inits = self.inits.iter().map(|n| find.node("--init", n));
        let inits: Vec<Operation<'_>> = inits.collect::<Result<_, _>>()?;

        let session = Session::with_options(&graph, SessionOptions::new().threads(self.threads))?;
        let mut results = self.out.as_deref().map(Results::create).transpose()?;
        for init in inits {
            let ran = session.run(init, &[]);
            ran.map_err(|e| explained(&graph, &e))?;
        }
        let start = Instant::now();
        let bar = self.bar();
        let mut kept = Vec::new();
        for number in 0..self.steps {
            let fetched = session
                .step(&step, &feeds)
                .map_err(|e| format!("step {number}: {}", explained(&graph, &e)))?;
            kept.clear();
            for (index, name) in self.fetches.iter().enumerate() {
                let tensor = fetched.tensor(index)?;
                if let Some(results) = &mut results {
                    results.add(&format!("{name}/{number}"), tensor)?;
                }
                kept.push((name, tensor.dtype(), tensor.dims().to_vec()));
            }
            if start.elapsed() >= PATIENCE {
                bar.set_position(number + 1);
            }
        }
        bar.finish_and_clear();
        let seconds = start.elapsed().as_secs_f64();
        if let Some(results) = results {
            results.finish()?;
        }
        if self.json {
            let fetches: Vec<_> = kept
                .iter()
                .map(|(name, dtype, dims)| json!({"name": name, "dtype": dtype.name(), "shape": dims}))
                .collect();
            let told = json!({
                "file": loaded.origin,
                "nodes": imported.nodes,
                "steps": self.steps,
                "seconds": seconds,
                "fetches": fetches,
                "out": self.out.as_ref().map(|p| p.display().to_string()),
            });
            println!("{told}");
            return Ok(());
        }
        println!("{} in {seconds:.3} s", counted(self.steps, "step"));
        for (name, dtype, dims) in kept {
            println!("{name}: {dtype}{dims:?}");
        }
        if let Some(out) = &self.out {
            println!("written: {}", out.display());
        }
        Ok(())
    }

    fn bar(&self) -> ProgressBar {
        if !std::io::stderr().is_terminal() || self.json {
            return ProgressBar::hidden();
        }
        let style =
            ProgressStyle::with_template("step {pos}/{len}  {eta} left  {wide_bar:.cyan/dim}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(self.steps).with_style(style.progress_chars("━━─"))
    }
}

/// Finds what the flags name.
struct Find<'a, 'g> {
    graph: &'g Graph,
    imported: &'a Imported<'g>,
    file: &'a str,
}

impl<'g> Find<'_, 'g> {
    fn output(&self, flag: &str, name: &str) -> Result<Output<'g>, Failure> {
        if let Some(found) = self.imported.output(name) {
            return Ok(found);
        }
        Err(match self.imported.operation(node(name)) {
            Some(there) => format!(
                "{flag} {name}: the node has {}; --target runs a node",
                counted(there.outputs().len(), "output")
            ),
            None => self.missing(flag, name),
        }
        .into())
    }

    fn node(&self, flag: &str, name: &str) -> Result<Operation<'g>, Failure> {
        let found = self.imported.operation(node(name));
        found.ok_or_else(|| self.missing(flag, name).into())
    }

    fn missing(&self, flag: &str, name: &str) -> String {
        let data = self.graph.snapshot();
        let names = data.nodes().map(|(_, n)| &*n.name);
        let near = thalweg_graph::graph::nearest(node(name), names);
        let near = near.map_or(String::new(), |n| format!(": did you mean {n}?"));
        format!(
            "{flag} {name}: {} has no node of this name{near}",
            self.file
        )
    }
}

fn node(name: &str) -> &str {
    name.split_once(':').map_or(name, |(node, _)| node)
}
