//! Regions (control flow of TensorFlow 1), compiled for the interpreter: the kind of each node, and the users of its
//! outputs.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustc_hash::FxHashMap;
use thalweg_device::{DeviceType, Op};
use thalweg_graph::flow::{ENTER, EXIT, MERGE, NEXT, SWITCH};
use thalweg_graph::function::ARGUMENT;
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::known;
use thalweg_graph::{Function, Node, NodeId};

use crate::error::SessionError;
use crate::kernels::{find, no_kernel};
use crate::request::PlanContext;

/// A region that is ready to be interpreted.
pub struct Region {
    /// The nodes, by number.
    pub nodes: Vec<RegionNode>,
    /// By result: the node and output that it is, and its name.
    pub results: Vec<(u32, u32, String)>,
    /// By frame's name: how many values come into it.
    pub enters: FxHashMap<String, usize>,
}

/// A node of a region.
pub struct RegionNode {
    /// The node.
    pub node: Arc<Node>,
    /// Its kind.
    pub kind: Kind,
    /// Number of control inputs.
    pub controls: u32,
    /// The uses of outputs: number of the output, the node, and number of its input.
    pub users: Vec<(u32, u32, u32)>,
    /// The nodes that have it as a control input.
    pub waiting: Vec<u32>,
    /// The counter of a random op.
    pub counter: Option<Arc<AtomicU64>>,
}

/// The kind of a node, by which the interpreter runs it.
pub enum Kind {
    /// Its output is this argument.
    Argument(usize),
    /// It passes its input to one of two outputs.
    Switch,
    /// It takes the first value that comes; one of a loop waits for one at a time.
    Merge {
        /// `true` if an input comes from the iteration before.
        looped: bool,
    },
    /// It takes a value into a loop.
    Enter {
        /// The name of the loop.
        frame: String,
        /// `true` if the value is the same in every iteration.
        constant: bool,
    },
    /// It takes a value out of a loop.
    Exit,
    /// It takes a value to the next iteration.
    Next,
    /// It passes its input on.
    Pass,
    /// It only orders others.
    Nothing,
    /// It has these values.
    Constant,
    /// It makes the handle of a variable.
    Handle,
    /// It has a kernel.
    Kernel(&'static Op),
}

impl Region {
    /// # Errors
    /// A node without a kernel, or a placeholder.
    pub fn new(function: &Function, context: PlanContext<'_>) -> Result<Region, SessionError> {
        let body = &function.body;
        let mut nodes = Vec::with_capacity(body.len());
        let mut enters: FxHashMap<String, usize> = FxHashMap::default();
        for (id, node) in body.nodes() {
            let kind = kind(function, id, node, context)?;
            if let Kind::Enter { frame, .. } = &kind {
                *enters.entry(frame.clone()).or_default() += 1;
            }
            let random = node.op.effect == Effect::Random;
            nodes.push(RegionNode {
                node: node.clone(),
                kind,
                controls: node.controls.len() as u32,
                users: Vec::new(),
                waiting: Vec::new(),
                counter: random.then(|| context.counter(&node.name)),
            });
        }
        for (id, node) in body.nodes() {
            let at = id.index() as u32;
            for (i, input) in node.inputs.iter().enumerate() {
                if let Some(source) = nodes.get_mut(input.node.index()) {
                    source.users.push((input.index, at, i as u32));
                }
            }
            for control in &node.controls {
                nodes[control.index()].waiting.push(at);
            }
        }
        let results = function.outputs.iter().zip(&function.results);
        Ok(Region {
            nodes,
            results: results
                .map(|(o, port)| (o.node.index() as u32, o.index, port.name.clone()))
                .collect(),
            enters,
        })
    }
}

fn kind(
    function: &Function,
    id: NodeId,
    node: &Arc<Node>,
    context: PlanContext<'_>,
) -> Result<Kind, SessionError> {
    if std::ptr::eq(node.op, &ARGUMENT) {
        let index = function.inputs.iter().position(|&i| i == id);
        return Ok(Kind::Argument(index.unwrap_or(usize::MAX)));
    }
    if known(node) {
        return Ok(Kind::Constant);
    }
    let later = |input: &thalweg_graph::OutputId| input.node.index() >= id.index();
    Ok(match (node.op.name, node.op.effect) {
        (SWITCH, _) => Kind::Switch,
        (MERGE, _) => Kind::Merge {
            looped: node.inputs.iter().any(later),
        },
        (ENTER, _) => Kind::Enter {
            frame: node.attrs.str("frame_name").to_owned(),
            constant: node.attrs.bool("is_constant"),
        },
        (EXIT, _) => Kind::Exit,
        (NEXT, _) => Kind::Next,
        (_, Effect::Flow) => Kind::Pass,
        (_, Effect::Control) => Kind::Nothing,
        (_, Effect::Handle) => Kind::Handle,
        (_, Effect::Feed) if node.inputs.is_empty() => {
            let fact = &node.outputs[0];
            return Err(SessionError::MissingFeed {
                node: node.name.clone(),
                dtype: fact.dtype,
                shape: fact.shape.clone(),
                origin: node.origin.clone(),
            });
        }
        _ => match find(context.kernels, DeviceType::Cpu, node) {
            Some((op, _)) => Kind::Kernel(op),
            None => {
                let dtypes = node.outputs.iter().map(|f| f.dtype);
                return Err(no_kernel(context.kernels, node, dtypes, DeviceType::Cpu));
            }
        },
    })
}

#[cfg(test)]
mod tests;
