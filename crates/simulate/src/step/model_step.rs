//! Training step of a network of the models crate, on a worker of a cluster.

use thalweg_device::{Cpu, Device, Files};
use thalweg_graph::{DeviceSpec, Graph, Output, OutputId};
use thalweg_layers::losses;
use thalweg_models::{Data, Model, Options};
use thalweg_ops::{DataFormat, NewGraph, OpSet, SourceOps};
use thalweg_optim::GradientDescent;
use thalweg_parallel::{
    DataParallel, ServerPlacement, Task, Tower, VariableUpdate, server_variables,
};
use thalweg_plan::{Fetch, Machine, Parallel, PlanOptions, TaskPartitioner};
use thalweg_tensor::{DType, Dims};

use super::template::{StepTemplate, Stream, TemplateTask};
use super::template_builder::{DevicePlace, template_of};
use crate::cluster::Cluster;
use crate::error::{Result, SimulateError};

/// Training step of a network: the graph that a worker builds.
#[derive(Clone, Debug)]
pub struct ModelStep {
    /// Network.
    pub model: &'static Model,
    /// Images of each device of a worker.
    pub batch: u32,
    /// Update of the variables: [`VariableUpdate::ParameterServer`] or [`VariableUpdate::DistributedReplicated`].
    pub update: VariableUpdate,
    /// Devices of a worker that compute the model; it adds up their gradients before it sends them.
    pub devices: u32,
    /// `true` if those are GPUs.
    pub gpu: bool,
    /// Placement of variables on servers.
    pub placement: ServerPlacement,
    /// Format of images inside of the network.
    pub format: DataFormat,
}

impl ModelStep {
    /// Step of the network of this name, on one CPU device with the network's own batch and servers that update variables.
    ///
    /// # Errors
    /// [`SimulateError::Model`].
    pub fn new(name: &str, data: Data) -> Result<ModelStep> {
        let model = thalweg_models::find(name, data).ok_or_else(|| SimulateError::Model {
            name: name.to_owned(),
            data: data.name().to_owned(),
        })?;
        Ok(ModelStep {
            model,
            batch: model.batch as u32,
            update: VariableUpdate::ParameterServer,
            devices: 1,
            gpu: false,
            placement: ServerPlacement::Greedy,
            format: DataFormat::Nhwc,
        })
    }

    /// The same step on the devices of a cluster's workers.
    pub fn on(self, cluster: &Cluster) -> ModelStep {
        let format = match cluster.device.gpu {
            true => DataFormat::Nchw,
            false => DataFormat::Nhwc,
        };
        ModelStep {
            devices: cluster.device.per_worker,
            gpu: cluster.device.gpu,
            format,
            ..self
        }
    }

    /// Template of the step of one of so many workers, with the variables on so many servers.
    ///
    /// # Errors
    /// [`SimulateError::Parallel`], [`SimulateError::Plan`].
    pub fn template(&self, servers: u32, workers: u32) -> Result<StepTemplate> {
        let graph = Graph::new();
        self.build(&graph, servers, workers)?.template(servers)
    }

    /// Variables on servers: the names of their nodes, and their bytes.
    ///
    /// # Errors
    /// [`SimulateError::Parallel`].
    pub fn variables(&self, servers: u32, workers: u32) -> Result<Vec<(String, f64)>> {
        let graph = Graph::new();
        self.build(&graph, servers, workers)?;
        Ok(server_variables(&graph))
    }

    /// Builds the graph of the first worker.
    fn build<'g>(&self, g: &'g Graph, servers: u32, workers: u32) -> Result<StepGraph<'g>> {
        let device = if self.gpu { "gpu" } else { "cpu" };
        let parallel = DataParallel::new(self.update)
            .towers(self.devices as usize)
            .device_type(device)
            // Barriers are those of the cluster, which the simulation adds.
            .in_step(false)
            .server_placement(self.placement.clone())
            .task(Task {
                servers,
                workers,
                worker: Some(0),
            });
        let optimizer = |_step| GradientDescent::new(0.01f32);
        let mut inputs = Vec::new();
        let training = parallel.build(g, optimizer, |tower| self.tower(tower, &mut inputs))?;
        let feed = |input: Output<'g>| {
            let dims = input.shape().to_dims().unwrap_or_default();
            (input.id(), input.dtype(), dims)
        };
        Ok(StepGraph {
            graph: g,
            fetches: vec![Fetch::Run(training.step.id())],
            feeds: inputs.into_iter().map(feed).collect(),
            devices: self.devices,
            gpu: self.gpu,
        })
    }

    /// Loss of a tower, whose images and labels are added to `inputs`.
    fn tower<'g>(&self, tower: &Tower<'g>, inputs: &mut Vec<Output<'g>>) -> Output<'g> {
        let g = tower.graph();
        let (n, size) = (i64::from(self.batch), self.model.size as i64);
        let images = g.placeholder("images", DType::F32, [n, size, size, 3]);
        let labels = g.placeholder("labels", DType::I32, [n]);
        inputs.extend([images, labels]);
        let options = Options::new().data_format(self.format);
        let network = self
            .model
            .build(g, images, self.model.data.classes(), &options);
        losses::sparse_softmax_cross_entropy(labels, network.logits).value()
    }
}

/// Graph of a worker's step, with variables on the tasks of the job `ps`.
pub struct StepGraph<'g> {
    /// Graph.
    pub graph: &'g Graph,
    /// Outputs and nodes of a step.
    pub fetches: Vec<Fetch>,
    /// Fed outputs.
    pub feeds: Vec<(OutputId, DType, Dims)>,
    /// Devices of the worker that compute the model.
    pub devices: u32,
    /// `true` if those are GPUs.
    pub gpu: bool,
}

impl StepGraph<'_> {
    /// Places the graph on so many servers and on the first worker, cuts it, and makes a template of the parts.
    ///
    /// # Errors
    /// [`SimulateError::Plan`]; [`SimulateError::NoUpdate`].
    pub fn template(&self, servers: u32) -> Result<StepTemplate> {
        let mut names = Vec::new();
        let mut places = Vec::new();
        let mut add = |job: &str, number: u32, index: u32, kind: &str, place: DevicePlace| {
            let task = if job == "ps" { number } else { servers };
            let name = format!("/job:{job}/replica:0/task:{number}/device:{kind}:{index}");
            names.push((DeviceSpec::parse(&name).unwrap_or_default(), task));
            places.push(place);
        };
        // Nodes without a device are placed on the first: the worker's.
        let task = TemplateTask::Worker;
        let kind = if self.gpu { "GPU" } else { "CPU" };
        for index in 0..self.devices {
            let stream = Stream::Device(index);
            add("worker", 0, index, kind, DevicePlace { task, stream });
        }
        if self.gpu {
            let stream = Stream::Host;
            add("worker", 0, 0, "CPU", DevicePlace { task, stream });
        }
        let mut tasks = Vec::new();
        for server in 0..servers {
            let task = TemplateTask::Server(server);
            let stream = Stream::Host;
            add("ps", server, 0, "CPU", DevicePlace { task, stream });
            tasks.push(task);
        }
        tasks.push(TemplateTask::Worker);
        let cpu = Device::Cpu(Cpu::new(1).named(Cpu::local(0), None));
        let machine = Machine::new(vec![cpu], &OpSet::default(), Files::none(), None);
        let options = PlanOptions {
            // A few small ops have no kernel for GPUs.
            soft_placement: true,
            deny_fallback: false,
            parallel: Parallel::Never,
            optimise: true,
            wire: None,
        };
        let partitioner = TaskPartitioner::new(machine, options, names);
        let cut = partitioner.cut(&self.graph.snapshot(), &self.fetches, &self.feeds)?;
        let template = template_of(&cut, &places, &tasks);
        match template.worker_bytes().0 > 0.0 {
            true => Ok(template),
            false => Err(SimulateError::NoUpdate),
        }
    }
}
