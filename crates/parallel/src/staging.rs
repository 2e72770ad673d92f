//! Staging areas: values delayed by one step, so that copies between devices overlap with computation.

use std::sync::{Arc, Mutex};

use thalweg_graph::{DeviceSpec, Graph, NodeId, Operation, Output, OutputId};
use thalweg_layers::VariableScope;
use thalweg_ops::{SourceOps, Variable};
use thalweg_tensor::sync::Unpoisoned;

/// A staging area: a step puts a value, and the next step takes it.
struct StagingArea {
    name: String,
    device: DeviceSpec,
}

impl StagingArea {
    /// Takes the value of the previous step, of the dtype and shape of `like`.
    #[track_caller]
    fn take<'g>(&self, like: Output<'g>) -> Output<'g> {
        let g = like.graph();
        g.device(&self.device, || {
            let taken = self.node(g, "Unstage", like).output();
            let shaped = g.op("EnsureShape").input(taken);
            shaped.attr("shape", like.shape()).output()
        })
    }

    #[track_caller]
    fn put<'g>(&self, value: Output<'g>) -> Operation<'g> {
        let g = value.graph();
        g.device(&self.device, || {
            self.node(g, "Stage", value).input(value).build()
        })
    }

    #[track_caller]
    fn node<'g>(&self, g: &'g Graph, op: &str, like: Output<'g>) -> thalweg_graph::NodeBuilder<'g> {
        g.op(op)
            .attr("dtypes", vec![like.dtype()])
            .attr("shared_name", &*self.name)
    }
}

/// Staged values of variables on one tower.
pub(crate) struct StagedValues {
    /// Handle of each variable, its staged value, and the node that puts it.
    all: Arc<Mutex<Vec<(OutputId, OutputId, NodeId)>>>,
}

impl StagedValues {
    /// Creates an empty collection.
    pub(crate) fn new() -> StagedValues {
        StagedValues {
            all: Arc::default(),
        }
    }

    /// The scope of the tower: its variables are read from their areas, which are on its device.
    pub(crate) fn scope(&self, scope: VariableScope, device: DeviceSpec) -> VariableScope {
        let all = self.all.clone();
        scope.getter(move |variable| {
            let g = variable.handle().graph();
            let handle = variable.handle().id();
            let known = |all: &Mutex<Vec<(OutputId, OutputId, NodeId)>>| {
                let all = all.lock().unpoisoned();
                all.iter().find(|s| s.0 == handle).map(|s| s.1)
            };
            // Untrained variables change during a step: they are read directly.
            let trained = |v: &thalweg_graph::VariableInfo| v.handle == handle && v.trainable;
            if !g.variables().iter().any(trained) {
                return variable;
            }
            if let Some(value) = known(&all) {
                return variable.with_value(g.output(value));
            }
            let area = StagingArea {
                name: format!("{}/staged{device}", variable.name()),
                device: device.clone(),
            };
            let value = area.take(variable.value());
            let put = area.put(variable.value());
            let staged = (handle, value.id(), put.id());
            all.lock().unpoisoned().push(staged);
            variable.with_value(value)
        })
    }

    /// The output by which the gradient with respect to the variable is taken.
    pub(crate) fn value<'g>(&self, variable: Variable<'g>) -> Option<Output<'g>> {
        let all = self.all.lock().unpoisoned();
        let handle = variable.handle();
        let found = all.iter().find(|s| s.0 == handle.id());
        found.map(|s| handle.graph().output(s.1))
    }

    /// Nodes that put values.
    pub(crate) fn puts<'g>(&self, g: &'g Graph) -> Vec<Operation<'g>> {
        let all = self.all.lock().unpoisoned();
        all.iter().map(|s| g.operation(s.2)).collect()
    }
}

/// Gradients delayed by one step.
pub(crate) struct DelayedGradients<'g> {
    /// Gradients of the previous step.
    pub(crate) gradients: Vec<Output<'g>>,
    /// Put those of this step.
    pub(crate) puts: Vec<Operation<'g>>,
    /// Put zeros, for the first step.
    pub(crate) zeros: Vec<Operation<'g>>,
}

/// Defers the gradients of a tower, on its device.
#[track_caller]
pub(crate) fn delayed<'g>(
    g: &'g Graph,
    device: &DeviceSpec,
    tower: usize,
    gradients: &[Output<'g>],
) -> DelayedGradients<'g> {
    let mut delayed = DelayedGradients {
        gradients: Vec::new(),
        puts: Vec::new(),
        zeros: Vec::new(),
    };
    for (number, &gradient) in gradients.iter().enumerate() {
        let area = StagingArea {
            name: format!("gradients/tower_{tower}/{number}"),
            device: device.clone(),
        };
        delayed.gradients.push(area.take(gradient));
        delayed.puts.push(area.put(gradient));
        let zeros = || {
            let dims = gradient.shape().to_dims().unwrap_or_default();
            let dims: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
            match thalweg_graph::scalar_of(gradient.dtype(), 0.0) {
                Some(zero) => g.fill(dims, zero),
                None => gradient,
            }
        };
        delayed.zeros.push(area.put(g.device(device, zeros)));
    }
    delayed
}
