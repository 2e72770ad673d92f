//! Building of the nodes of a saver.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use thalweg_graph::{DeviceSpec, Graph, GraphData, NodeId, Operation, Output, OutputId};
use thalweg_ops::SourceOps;
use thalweg_tensor::{DType, Shape, Tensor};

use super::error::SaverNodesError;
use super::options::SaverOptions;
use super::saved_variable::SavedVariable;

/// Largest number of colocation references that are followed from a variable.
const MAX_COLOCATION_HOPS: usize = 16;

/// Ids of the nodes, on the copy of a graph.
pub(super) struct NodeIds {
    pub filename: OutputId,
    pub save: NodeId,
    pub save_tensor: OutputId,
    pub restore: NodeId,
}

/// The requested device of a node: its own, or that of a node that it is colocated with.
fn device(data: &GraphData, node: NodeId) -> DeviceSpec {
    let mut at = node;
    for _ in 0..MAX_COLOCATION_HOPS {
        let Some(node) = data.get(at) else { break };
        if !node.device.is_empty() {
            return node.device.clone();
        }
        match node.colocation.iter().find_map(|name| data.find(name)) {
            Some(other) if other != at => at = other,
            _ => break,
        }
    }
    DeviceSpec::default()
}

/// The CPU of the task of a device: files are read and written there. Empty for any device.
fn cpu_beside(device: &DeviceSpec) -> DeviceSpec {
    if device.is_empty() {
        return DeviceSpec::default();
    }
    DeviceSpec {
        device_type: Some("CPU".into()),
        index: Some(0),
        ..device.clone()
    }
}

/// Builder of the nodes of a saver.
struct Builder<'a, 'g> {
    graph: &'g Graph,
    saved: &'a [SavedVariable],
    filename: Output<'g>,
}

pub(super) fn build(
    graph: &Graph,
    saved: &[SavedVariable],
    options: &SaverOptions,
) -> Result<NodeIds, SaverNodesError> {
    let default = graph.constant(Tensor::from("model"));
    let default = default.named("filename/input");
    let filename = graph.placeholder_with_default("filename", default, Shape::scalar());
    let filename = graph.placeholder_with_default("Const", filename, Shape::scalar());
    let builder = Builder {
        graph,
        saved,
        filename,
    };
    match options.sharded {
        true => builder.sharded(),
        false => builder.single(),
    }
}

impl<'g> Builder<'_, 'g> {
    /// Builds one `SaveV2` and one `RestoreV2`.
    fn single(&self) -> Result<NodeIds, SaverNodesError> {
        let graph = self.graph;
        let all: Vec<&SavedVariable> = self.saved.iter().collect();
        let save = self.save(self.filename, &all)?;
        let build = || self.identity("control_dependency", self.filename);
        let save_tensor = graph.control_dependencies([save], build);
        let assigned = self.restore(&all)?;
        let restore = self.after("restore_all", &assigned);
        Ok(self.made(save, save_tensor, restore))
    }

    /// Builds one of each for each device, and the nodes that merge the files on the first one.
    fn sharded(&self) -> Result<NodeIds, SaverNodesError> {
        let graph = self.graph;
        let data = graph.snapshot();
        let mut devices: BTreeMap<DeviceSpec, Vec<&SavedVariable>> = BTreeMap::new();
        for one in self.saved {
            let cpu = cpu_beside(&device(&data, one.handle.node));
            devices.entry(cpu).or_default().push(one);
        }
        // Folder of the files of a save until it is complete. Two programs must not share it.
        let (high, low) = (RandomState::new(), RandomState::new());
        let place = format!(
            "_temp_{:016x}{:016x}/part",
            high.hash_one(graph.snapshot().len()),
            low.hash_one(std::process::id())
        );
        let place = graph.constant(Tensor::from(place.as_str())).named("temp");
        let join = graph.op("StringJoin").inputs([self.filename, place]);
        let place = join.output();
        let count = i32::try_from(devices.len()).unwrap_or(i32::MAX);
        let count = graph.constant(count).named("num_shards");
        let mut written = Vec::new();
        for ((device, saved), shard) in devices.iter().zip(0i32..) {
            let part = graph.device(device, || {
                let name = graph.op("ShardedFilename").inputs([place]);
                let shard = graph.constant(shard).named("ShardedFilename/shard");
                let name = name.input(shard).input(count).output();
                let save = self.save(name, saved)?;
                let build = || self.identity("control_dependency", name);
                Ok::<_, SaverNodesError>(graph.control_dependencies([save], build))
            });
            written.push(part?);
        }
        let first = devices.keys().next().cloned().unwrap_or_default();
        let (save, save_tensor) = graph.device(&first, || {
            let parts = graph.stack(&written, 0);
            let merge = graph.op("MergeV2Checkpoints").inputs([parts]);
            let merge = merge.input(self.filename).build();
            let build = || self.identity("Identity", self.filename);
            (merge, graph.control_dependencies([merge], build))
        });
        let mut restored = Vec::new();
        for (device, saved) in &devices {
            let assigned = graph.device(device, || self.restore(saved))?;
            restored.push(graph.device(device, || self.after("restore_shard", &assigned)));
        }
        let restore = self.after("restore_all", &restored);
        Ok(self.made(save, save_tensor, restore))
    }

    fn made(
        &self,
        save: Operation<'g>,
        save_tensor: Output<'g>,
        restore: Operation<'g>,
    ) -> NodeIds {
        NodeIds {
            filename: self.filename.id(),
            save: save.id(),
            save_tensor: save_tensor.id(),
            restore: restore.id(),
        }
    }

    fn identity(&self, name: &str, value: Output<'g>) -> Output<'g> {
        self.graph.op("Identity").input(value).name(name).output()
    }

    /// Builds a node that runs after these.
    fn after(&self, name: &str, nodes: &[Operation<'g>]) -> Operation<'g> {
        let node = self.graph.op("NoOp").name(name);
        nodes.iter().fold(node, |node, &n| node.control(n)).build()
    }

    /// Builds the names and slices of variables, as inputs of node `of`.
    fn names(
        &self,
        of: &str,
        saved: &[&SavedVariable],
    ) -> Result<[Output<'g>; 2], SaverNodesError> {
        let names: Vec<&str> = saved.iter().map(|s| &*s.name).collect();
        let slice = |s: &&SavedVariable| s.slice_text(&variable(self.graph.output(s.handle)).1);
        let slices = saved.iter().map(|s| slice(s).unwrap_or_default());
        let slices: Vec<String> = slices.collect();
        let names = Tensor::strings(&[names.len()], &names)?;
        let slices = Tensor::strings(&[slices.len()], &slices)?;
        let constant = |name: &str, value: Tensor| {
            let name = format!("{of}/{name}");
            self.graph.constant(value).named(&name)
        };
        Ok([
            constant("tensor_names", names),
            constant("shape_and_slices", slices),
        ])
    }

    /// Writes variables to files of this prefix.
    fn save(
        &self,
        prefix: Output<'g>,
        saved: &[&SavedVariable],
    ) -> Result<Operation<'g>, SaverNodesError> {
        let graph = self.graph;
        let names = self.names("SaveV2", saved)?;
        let mut values = Vec::new();
        let mut dtypes = Vec::new();
        for one in saved {
            let handle = graph.output(one.handle);
            let (dtype, _) = variable(handle);
            dtypes.push(dtype);
            // A reference is also the value.
            values.push(match handle.fact().reference {
                true => handle,
                false => {
                    let read = graph.op("ReadVariableOp").name("Read/ReadVariableOp");
                    let read = || read.input(handle).attr("dtype", dtype).output();
                    graph.colocate_with(handle, read)
                }
            });
        }
        let save = graph.op("SaveV2").input(prefix).inputs(names);
        Ok(save.inputs(values).attr("dtypes", dtypes).build())
    }

    /// Reads variables from files, and returns the nodes that assign them.
    fn restore(&self, saved: &[&SavedVariable]) -> Result<Vec<Operation<'g>>, SaverNodesError> {
        let graph = self.graph;
        let names = self.names("RestoreV2", saved)?;
        let handle = |one: &&SavedVariable| graph.output(one.handle);
        let dtypes: Vec<DType> = saved.iter().map(|one| variable(handle(one)).0).collect();
        let restore = graph.op("RestoreV2").input(self.filename).inputs(names);
        let values = restore.attr("dtypes", dtypes).outputs();
        let assign = |(one, value): (&&SavedVariable, Output<'g>)| {
            let handle = handle(one);
            let op = match handle.fact().reference {
                true => "Assign",
                false => "AssignVariableOp",
            };
            let assign = || graph.op(op).input(handle).input(value).build();
            graph.colocate_with(handle, assign)
        };
        Ok(saved.iter().zip(values).map(assign).collect())
    }
}

/// Dtype and shape of the variable behind a handle.
fn variable(handle: Output<'_>) -> (DType, Shape) {
    let fact = handle.fact();
    fact.variable.unwrap_or((fact.dtype, fact.shape))
}
