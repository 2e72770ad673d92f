//! Training step that is simulated: of a network, or of a graph in a file.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thalweg_graph::device::PsStrategy;
use thalweg_graph::op::Effect;
use thalweg_graph::{Graph, GraphData, NodeId};
use thalweg_graphdef::{GraphDef, ImportOptions, import};
use thalweg_models::Data;
use thalweg_ops::NewGraph;
use thalweg_parallel::{ServerPlacement, VariableUpdate};
use thalweg_plan::Fetch;
use thalweg_simulate::{
    Cluster, ModelStep, SimulateError, StepGraph, StepTemplate, placement_by_cost,
};
use thalweg_tensor::Dims;

use super::modes::ModeChoice;
use crate::failure::Failure;
use crate::model::ModelArgs;

/// Training step of the command line.
#[derive(Args)]
pub(super) struct StepArgs {
    /// Network, as of `cnn_benchmarks --model`
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "graph",
        conflicts_with = "graph"
    )]
    model: Option<String>,
    /// Data set of the network
    #[arg(long, value_name = "NAME", default_value = "imagenet")]
    data_name: DataName,
    /// Images of a step of each device; the network's own without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch_size: Option<u32>,
    /// Graph of one process that trains, in place of a network: a GraphDef or MetaGraphDef
    #[arg(long, value_name = "FILE", requires = "fetch", requires = "batch_size")]
    graph: Option<PathBuf>,
    /// Operation of the graph that trains
    #[arg(long, value_name = "NODE")]
    fetch: Option<String>,
    /// Dimensions of a placeholder of the graph
    #[arg(long = "feed", value_name = "NAME:N,...", value_parser = feed)]
    feeds: Vec<(String, Dims)>,
    /// Placement of variables on servers
    #[arg(long, value_name = "KIND", default_value = "greedy")]
    placement: PlacementKind,
}

#[derive(Clone, Copy, ValueEnum)]
enum DataName {
    Imagenet,
    Cifar10,
    Mnist,
}

/// Placement of variables on servers.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlacementKind {
    /// The server with the fewest bytes, one variable after the other
    Greedy,
    /// One server after the other
    RoundRobin,
    /// The variable that takes longest first, on the server with the least time
    Cost,
}

fn feed(text: &str) -> Result<(String, Dims), String> {
    let advice = || format!("'{text}': give a name and dimensions, such as x:64,28,28,1");
    let (name, dims) = text.rsplit_once(':').ok_or_else(advice)?;
    let dims = dims.split(',').map(|d| d.trim().parse().ok());
    let dims: Option<Dims> = dims.collect();
    Ok((name.to_owned(), dims.ok_or_else(advice)?))
}

/// Training step that was loaded.
#[derive(Clone)]
pub(super) enum TrainingStep {
    Model {
        step: ModelStep,
        kind: PlacementChoice,
        cluster: Cluster,
    },
    File(GraphFile),
}

/// Placement of a network's variables.
#[derive(Clone, Copy)]
pub(super) struct PlacementChoice(PlacementKind);

/// Graph of a file.
#[derive(Clone)]
pub(super) struct GraphFile {
    def: GraphDef,
    origin: String,
    fetch: String,
    feeds: Vec<(String, Dims)>,
    batch: u32,
    gpu: bool,
    placement: ServerPlacement,
}

impl StepArgs {
    pub(super) fn load(&self, cluster: &Cluster) -> Result<TrainingStep, Failure> {
        let simple = match self.placement {
            PlacementKind::RoundRobin => ServerPlacement::RoundRobin,
            PlacementKind::Greedy | PlacementKind::Cost => ServerPlacement::Greedy,
        };
        let Some(name) = &self.model else {
            if self.placement == PlacementKind::Cost {
                return Err("--placement cost is for networks: take greedy or round-robin".into());
            }
            return self.load_file(cluster, simple);
        };
        let data = match self.data_name {
            DataName::Imagenet => Data::ImageNet,
            DataName::Cifar10 => Data::Cifar10,
            DataName::Mnist => Data::Mnist,
        };
        let step = ModelStep::new(name, data)?.on(cluster);
        Ok(TrainingStep::Model {
            step: ModelStep {
                batch: self.batch_size.unwrap_or(step.batch),
                placement: simple,
                ..step
            },
            kind: PlacementChoice(self.placement),
            cluster: cluster.clone(),
        })
    }

    fn load_file(
        &self,
        cluster: &Cluster,
        placement: ServerPlacement,
    ) -> Result<TrainingStep, Failure> {
        let model = ModelArgs {
            file: self.graph.clone().unwrap_or_default(),
            tags: Vec::new(),
            inline_calls: false,
        };
        let loaded = model.load()?;
        Ok(TrainingStep::File(GraphFile {
            def: loaded.graph,
            origin: loaded.origin,
            fetch: self.fetch.clone().unwrap_or_default(),
            feeds: self.feeds.clone(),
            batch: self.batch_size.unwrap_or(1),
            gpu: cluster.device.gpu,
            placement,
        }))
    }
}

impl TrainingStep {
    /// Images of a step of a device.
    pub(super) fn batch(&self) -> u32 {
        match self {
            TrainingStep::Model { step, .. } => step.batch,
            TrainingStep::File(file) => file.batch,
        }
    }

    /// `true` for modes that can be predicted: a graph in a file has no copies of its variables.
    pub(super) fn has_mode(&self, mode: ModeChoice) -> bool {
        match self {
            TrainingStep::Model { .. } => true,
            TrainingStep::File(_) => mode != ModeChoice::DistributedReplicated,
        }
    }

    /// The same step on so many images of each device. The batch of a graph in a file is in its shapes.
    pub(super) fn with_batch(&self, batch: u32) -> TrainingStep {
        let mut changed = self.clone();
        if let TrainingStep::Model { step, .. } = &mut changed {
            step.batch = batch;
        }
        changed
    }

    /// Template of a worker's step.
    pub(super) fn template(
        &self,
        mode: ModeChoice,
        servers: u32,
        workers: u32,
    ) -> thalweg_simulate::Result<StepTemplate> {
        match self {
            TrainingStep::File(file) if self.has_mode(mode) => file.template(servers),
            TrainingStep::File(file) => {
                let name = mode.name();
                Err(file.error(format!(
                    "{name} is for networks of --model: take another mode"
                )))
            }
            TrainingStep::Model {
                step,
                kind: PlacementChoice(kind),
                cluster,
            } => {
                let update = match mode {
                    ModeChoice::DistributedReplicated => VariableUpdate::DistributedReplicated,
                    _ => VariableUpdate::ParameterServer,
                };
                let mut step = ModelStep {
                    update,
                    ..step.clone()
                };
                if *kind == PlacementKind::Cost {
                    step.placement = placement_by_cost(&step, cluster, servers, workers)?;
                }
                step.template(servers, workers)
            }
        }
    }
}

impl GraphFile {
    fn template(&self, servers: u32) -> thalweg_simulate::Result<StepTemplate> {
        let unplaced = Graph::new();
        self.import(&unplaced, &self.def)?;
        let mut strategy = self.placement.strategy(servers);
        let mut def = self.def.clone();
        place(&unplaced.snapshot(), strategy.as_mut(), &mut def);
        let graph = Graph::new();
        self.import(&graph, &def)?;
        let find = |name: &str| -> thalweg_simulate::Result<NodeId> {
            let node = graph.find(name).map(|node| node.id());
            node.ok_or_else(|| self.error(format!("there is no node '{name}'")))
        };
        let feeds = self.feeds.iter().map(|(name, dims)| {
            let output = graph.operation(find(name)?).output(0);
            Ok((output.id(), output.dtype(), dims.clone()))
        });
        let feeds = feeds.collect::<thalweg_simulate::Result<Vec<_>>>()?;
        StepGraph {
            graph: &graph,
            fetches: vec![Fetch::Run(find(&self.fetch)?)],
            feeds,
            devices: 1,
            gpu: self.gpu,
        }
        .template(servers)
    }

    fn import(&self, graph: &Graph, def: &GraphDef) -> thalweg_simulate::Result<()> {
        let options = ImportOptions::new().origin(self.origin.clone());
        match import(graph, def, &options) {
            Ok(_) => Ok(()),
            Err(e) => Err(self.error(e.to_string())),
        }
    }

    fn error(&self, reason: String) -> SimulateError {
        SimulateError::Graph {
            origin: self.origin.clone(),
            reason,
        }
    }
}

/// Sets the devices of variables to servers.
fn place(data: &GraphData, strategy: &mut dyn PsStrategy, def: &mut GraphDef) {
    for (_, node) in data.nodes().filter(|(_, n)| n.op.effect == Effect::Handle) {
        let Ok(server) = strategy.choose(node) else {
            continue;
        };
        if let Some(own) = def.node.iter_mut().find(|n| n.name == node.name) {
            own.device = format!("/job:ps/task:{server}/device:CPU:0");
        }
    }
}
