//! Functions: graphs with arguments and results, which nodes of another graph call by name.

use std::sync::Arc;

use crate::attr::Attr;
use crate::data::GraphData;
use crate::dtype::DType;
use crate::graph::Graph;
use crate::node::{NodeId, OutputId};
use crate::op::{Arg, AttrDef, Effect, Gradient, OpDef, arg, attr, type_attr};

/// What stands for an argument in the body of a function.
pub static ARGUMENT: OpDef = OpDef {
    name: "_Arg",
    summary: "An argument of the function that this stands in.",
    outputs: &[arg("output", "T")],
    attrs: &[
        type_attr("T", &DType::ALL),
        AttrDef {
            allowed: crate::op::Allowed::AtLeast(0),
            ..attr("index", crate::attr::AttrKind::Int)
        },
    ],
    shape: |_| Ok(()),
    gradient: Gradient::None,
    effect: Effect::Feed,
    ..OpDef::EMPTY
};

/// An argument or result of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its dtype.
    pub dtype: DType,
}

/// A graph with arguments and results.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name in the library.
    pub name: String,
    /// What it takes.
    pub arguments: Vec<Port>,
    /// What it gives.
    pub results: Vec<Port>,
    /// Its body.
    pub body: GraphData,
    /// By argument: the node of the body that stands for it, an [`ARGUMENT`].
    pub inputs: Vec<NodeId>,
    /// By result: where its value comes from.
    pub outputs: Vec<OutputId>,
    /// Nodes of the body that run though no result needs them, by name.
    pub controls: Vec<(String, NodeId)>,
    /// Its attributes, those whose names begin with `_` too.
    pub attrs: Vec<(String, Attr)>,
    /// The name that its description and errors are known under: a file, or a line.
    pub origin: crate::node::Origin,
}

impl Function {
    /// By argument: whether a call updates the variable that it is the handle of. What the functions
    /// do that it calls is looked up in `library`.
    pub fn updates(&self, library: &GraphData) -> Vec<bool> {
        let mut found = vec![false; self.inputs.len()];
        let mut inside = Vec::new();
        self.find_updates(library, &mut inside, &mut found);
        found
    }

    fn find_updates<'a>(
        &'a self,
        library: &'a GraphData,
        inside: &mut Vec<&'a str>,
        found: &mut [bool],
    ) {
        // A function that calls itself has been looked at already.
        if inside.contains(&self.name.as_str()) {
            return;
        }
        inside.push(&self.name);
        // By node: the argument whose handle it passes on.
        let mut handle: Vec<Option<usize>> = vec![None; self.body.len()];
        for (argument, input) in self.inputs.iter().enumerate() {
            if let Some(at) = handle.get_mut(input.index()) {
                *at = Some(argument);
            }
        }
        for (id, node) in self.body.nodes() {
            let resource = |o: &OutputId| {
                let of = self.body.fact(*o);
                of.is_some_and(|f| f.dtype == DType::Resource || f.reference)
            };
            let behind: Vec<Option<usize>> = node
                .inputs
                .iter()
                .map(|i| {
                    handle
                        .get(i.node.index())
                        .copied()
                        .flatten()
                        .filter(|_| resource(i))
                })
                .collect();
            if node
                .outputs
                .iter()
                .any(|f| f.dtype == DType::Resource || f.reference)
                && handle[id.index()].is_none()
            {
                handle[id.index()] = behind.iter().copied().flatten().next();
            }
            if node.op.effect == Effect::Write {
                behind.iter().flatten().for_each(|&a| found[a] = true);
                continue;
            }
            for function in calls(node.attrs.iter().map(|(_, a)| a)) {
                let Some(called) = library.function(function) else {
                    continue;
                };
                let mut inner = vec![false; called.inputs.len()];
                called.find_updates(library, inside, &mut inner);
                // Arguments are the last inputs: what comes before them chooses the function.
                let first = behind.len().saturating_sub(inner.len());
                for (of, updated) in behind[first..].iter().zip(inner) {
                    if let (Some(argument), true) = (of, updated) {
                        found[*argument] = true;
                    }
                }
            }
        }
        inside.pop();
    }
}

/// The names of the functions among these attributes.
pub fn calls<'a>(attrs: impl Iterator<Item = &'a Attr>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for attr in attrs {
        match attr {
            Attr::Func(f) => names.push(f.name.as_str()),
            Attr::Funcs(all) => names.extend(all.iter().map(|f| f.name.as_str())),
            _ => {}
        }
    }
    names
}

impl Graph {
    /// Adds a function to the graph's library, in place of one of the same name.
    pub fn define(&self, function: Function) {
        let mut state = self.state();
        let data = Arc::make_mut(&mut state.data);
        Arc::make_mut(&mut data.functions).insert(function.name.clone(), Arc::new(function));
    }

    /// The function of this name in the graph's library.
    pub fn function(&self, name: &str) -> Option<Arc<Function>> {
        self.state().data.function(name).cloned()
    }
}

/// The argument list of an op that calls functions: as many tensors as attribute `Tin` has dtypes.
pub const ARGUMENTS: Arg = crate::op::args_of("input", "Tin");
/// The results of an op that calls functions.
pub const RESULTS: Arg = crate::op::args_of("output", "Tout");
