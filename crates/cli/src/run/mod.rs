//! `thalweg run`: runs steps of a graph.

mod benchmark;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use thalweg_checkpoint::disk;
use thalweg_checkpoint::npz::NpzWriter;
use thalweg_device::Files;
use thalweg_dist::limits::Machine;
use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::NewGraph;
use thalweg_session::{
    Feed, Feeding, FetchList, Fetches, Profile, RunOptions, Session, SessionOptions, Trace,
};
use thalweg_tensor::text::counted;
use thalweg_tensor::{Memory, Tensor};
use thalweg_train::saved_model::signatures;
use thalweg_train::{queue_runners, with_queue_runners};

use crate::arrays;
use crate::failure::Failure;
use crate::initializers::error_text;
use crate::model::ModelArgs;
use crate::names::{NameResolver, signature_of};
use crate::output;
use crate::output_file::check_output_file;
use crate::profile;
use crate::progress::Progress;
use crate::restore::Restore;

/// Run steps of a graph, with arrays from .npy files, and keep the results in a .npz file
///
/// NAME is an output's name: `node:1`, or `node` for the first output of a node; with --signature also its name
/// in the signature. A SavedModel's variables are restored, and so are those of a graph with
/// --checkpoint. The queue runners that a MetaGraph lists fill its queues meanwhile.
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    model: ModelArgs,

    #[command(flatten)]
    restore: Restore,

    /// Take the names of a signature of the model; all of its outputs are kept if no --fetch names some
    #[arg(long, value_name = "NAME")]
    signature: Option<String>,

    /// Feed an output the array of a .npy file, in every step
    #[arg(long = "feed", value_name = "NAME=FILE.npy", value_parser = feed)]
    feeds: Vec<(String, PathBuf)>,

    /// Keep an output's value of each step, as the array NAME/STEP
    #[arg(long = "fetch", value_name = "NAME")]
    fetches: Vec<String>,

    /// Run a node in each step, and keep nothing of it
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,

    /// Number of steps
    #[arg(long, default_value_t = 1, value_name = "N")]
    steps: u64,

    /// Run a node once, before the steps; they are run in the order in which they are given
    #[arg(long = "init", value_name = "NAME")]
    inits: Vec<String>,

    /// A folder whose files the graph may read and write; may be given several times. Without it, none
    #[arg(long, value_name = "DIR")]
    files: Vec<PathBuf>,

    /// Number of threads; as many as the machine runs at once without it
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    threads: usize,

    /// Measure N steps after a warm-up, and print their latency, the throughput and the memory. Inputs of the signature
    /// without a --feed get made-up values; nothing is kept
    #[arg(long, value_name = "N", conflicts_with_all = ["out", "steps", "profile", "trace"],
          value_parser = clap::value_parser!(u64).range(1..))]
    benchmark: Option<u64>,

    /// With --benchmark: the first dimension of made-up inputs, where the graph leaves it open
    #[arg(long, default_value_t = 1, value_name = "N", requires = "benchmark",
          value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,

    /// Trace the steps after the first, or a single one, and print their time and memory by layer and by op
    #[arg(long)]
    profile: bool,

    /// Write a trace of the last step, for Perfetto, `thalweg profile` and `thalweg graph --trace`
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,

    /// Print the summary as JSON
    #[arg(long)]
    json: bool,

    /// File for the fetched arrays
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

/// Fetches of a step: values, and nodes that only run.
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

/// Maximum memory of values and plans, in bytes: half of the address space that `ulimit -v` leaves, or seven eighths of
/// the memory without that limit. Small allocations that the account does not see end the process when they fail: the
/// rest is for them.
fn max_tensor_bytes() -> usize {
    let bytes = Machine::free_address_space()
        .map_or_else(|| Machine::here().memory / 8 * 7, |free| free / 2);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Run {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.check_flags()?;
        let graph = Graph::new();
        let mut loaded = self.model.load()?;
        self.restore.prepare(&mut loaded);
        let imported = loaded.import(&graph)?;
        let all = match &loaded.meta {
            Some(meta) if self.signature.is_some() => signatures(&graph, &loaded.origin, meta)?,
            _ => BTreeMap::new(),
        };
        let signature = self.signature.as_ref();
        let signature = signature.map(|name| signature_of(&all, name, &loaded.origin));
        let resolver = NameResolver {
            graph: &graph,
            imported: &imported,
            file: &loaded.origin,
            signature: signature.transpose()?,
        };
        let fetches = self.fetched(&resolver);
        let names: BTreeSet<&String> = fetches.iter().collect();
        if names.len() != fetches.len() {
            return Err("an output is fetched twice under one name".into());
        }
        let inputs = self.inputs(&resolver)?;
        let feeds: Vec<Feed<'_>> = inputs.iter().map(|(o, value)| o.feed(value)).collect();
        let outputs = fetches.iter().map(|n| resolver.output("--fetch", n));
        let targets = self.targets.iter().map(|n| resolver.node("--target", n));
        let step = StepFetches {
            values: outputs.collect::<Result<_, _>>()?,
            targets: targets.collect::<Result<_, _>>()?,
        };
        let inits = self.inits.iter().map(|n| resolver.node("--init", n));
        let inits: Vec<Operation<'_>> = inits.collect::<Result<_, _>>()?;

        let files = Files::within(&self.files).map_err(|e| format!("--files {e}"))?;
        let options = SessionOptions::new().threads(self.threads).files(files);
        let options = options.memory_account(Arc::new(Memory::new(Some(max_tensor_bytes()))));
        let options = self.restore.session_options(options, &loaded)?;
        let session = Session::with_options(&graph, options)?;
        let restored = self.restore.restore(&session, &loaded)?;
        let disk = disk::system();
        let out = self.out.as_deref();
        let mut results = out.map(|p| NpzWriter::create(&disk, p)).transpose()?;
        for init in inits {
            let ran = session.run(init, &[]);
            ran.map_err(|e| error_text(&graph, &e))?;
        }
        let runners = match &loaded.meta {
            Some(meta) => queue_runners(&graph, meta)?,
            None => Vec::new(),
        };
        if let Some(steps) = self.benchmark {
            let feeds = (
                &feeds[..],
                benchmark::batch(inputs.iter().map(|(_, value)| value)),
            );
            let measure = || benchmark::measure(&graph, &session, &step, feeds, (steps, self.json));
            let measured = with_queue_runners(&session, &runners, measure)?;
            return match self.json {
                true => output::line(measured.json()),
                false => output::line(measured.text()),
            };
        }
        let progress = Progress::new("step", self.steps, self.json);
        let mut kept = Vec::new();
        let (mut traces, mut last) = (Vec::new(), Trace::default());
        with_queue_runners(&session, &runners, || -> Result<(), Failure> {
            for number in 0..self.steps {
                let (fetched, trace) = session
                    .step_with(&step, &feeds, &self.step_options(number))
                    .map_err(|e| format!("step {number}: {}", error_text(&graph, &e)))?;
                traces.extend(
                    self.profile
                        .then(|| trace.clone())
                        .filter(|t| !t.events.is_empty()),
                );
                last = trace;
                kept.clear();
                for (index, name) in fetches.iter().enumerate() {
                    let tensor = fetched.tensor(index)?;
                    if let Some(results) = &mut results {
                        results.add(&format!("{name}/{number}"), tensor)?;
                    }
                    kept.push((name, tensor.dtype(), tensor.dims().to_vec()));
                }
                progress.at(number + 1);
            }
            Ok(())
        })?;
        let seconds = progress.seconds();
        drop(progress);
        if let Some(results) = results {
            results.finish()?;
        }
        if let Some(path) = &self.trace {
            last.save(path)
                .map_err(|e| format!("{}: {e}", path.display()))?;
        }
        let profile = self.profile.then(|| Profile::of(&traces));
        if self.json {
            let fetches: Vec<_> = kept
                .iter()
                .map(|(name, dtype, dims)| json!({"name": name, "dtype": dtype.name(), "shape": dims}))
                .collect();
            let report = json!({
                "file": loaded.origin,
                "nodes": imported.nodes,
                "restored": restored,
                "steps": self.steps,
                "seconds": seconds,
                "fetches": fetches,
                "out": self.out.as_ref().map(|p| p.display().to_string()),
                "profile": profile.as_ref().map(profile::json),
            });
            return output::line(report);
        }
        output::line(format_args!(
            "{} in {seconds:.3} s",
            counted(self.steps, "step")
        ))?;
        for (name, dtype, dims) in kept {
            output::line(format_args!("{name}: {dtype}{dims:?}"))?;
        }
        if let Some(out) = &self.out {
            output::line(format_args!("written: {}", out.display()))?;
        }
        match profile {
            Some(profile) => output::text(&format!("\n{profile}")),
            None => Ok(()),
        }
    }

    /// Refuses flags that ask for nothing, or whose results could not be kept.
    fn check_flags(&self) -> Result<(), Failure> {
        let nothing = self.fetches.is_empty() && self.targets.is_empty() && self.inits.is_empty();
        if nothing && self.signature.is_none() {
            return Err(
                "nothing is asked for: name outputs with --fetch, nodes with --target or a --signature"
                    .into(),
            );
        }
        let keeps = self.signature.is_some() || !self.fetches.is_empty();
        if keeps && self.out.is_none() && self.benchmark.is_none() {
            return Err(
                "fetched values need a file: give --out FILE.npz, or --benchmark N to drop them"
                    .into(),
            );
        }
        for file in [&self.out, &self.trace].into_iter().flatten() {
            check_output_file(file)?;
        }
        Ok(())
    }

    /// The values of inputs: arrays of files; for a benchmark, made-up ones for the signature's others.
    fn inputs<'g>(
        &self,
        resolver: &NameResolver<'_, 'g>,
    ) -> Result<Vec<(Output<'g>, Tensor)>, Failure> {
        let mut inputs = Vec::new();
        for (name, file) in &self.feeds {
            inputs.push((resolver.input("--feed", name)?, arrays::read(file)?));
        }
        let signature = resolver.signature.filter(|_| self.benchmark.is_some());
        for (name, &id) in signature.iter().flat_map(|s| &s.inputs) {
            let output = resolver.graph.output(id);
            if inputs.iter().all(|(fed, _)| fed.id() != id) {
                inputs.push((
                    output,
                    benchmark::generated(output, name, self.batch as usize)?,
                ));
            }
        }
        Ok(inputs)
    }

    /// Options of a step. The first step includes planning, and is not typical.
    fn step_options(&self, number: u64) -> RunOptions {
        let is_last = number + 1 == self.steps;
        let profiled = self.profile && (number > 0 || is_last);
        match profiled || (self.trace.is_some() && is_last) {
            true => RunOptions::new().traced(),
            false => RunOptions::new(),
        }
    }

    /// Names of the outputs that are kept of each step.
    fn fetched(&self, resolver: &NameResolver<'_, '_>) -> Vec<String> {
        match resolver.signature {
            Some(signature) if self.fetches.is_empty() => {
                signature.outputs.keys().cloned().collect()
            }
            _ => self.fetches.clone(),
        }
    }
}
