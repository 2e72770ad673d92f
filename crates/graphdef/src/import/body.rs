//! Import of a function's body as a graph with arguments and results.

use std::collections::BTreeMap;

use thalweg_graph::function::{ARGUMENT, Port};
use thalweg_graph::{
    Attr, Func, Function, Graph, ImportedNode, NodeId, Origin, OutputId, Registry,
};

use crate::attr;
use crate::error::{ImportError, Problem};
use crate::import::errors::{checked, of_function};
use crate::import::functions::{Functions, Use, port_type};
use crate::import::input_names::InputNames;
use crate::import::nodes::{BuiltNode, NodeSource, Nodes, result};
use crate::messages::op_def::ArgDef;
use crate::messages::{FunctionDef, OpDef};
use crate::names::{self, GRADIENT};
use crate::tensor::Budget;

/// Builds a function for one combination of attributes that it is used with.
pub(super) fn function<'d>(
    functions: &mut Functions<'d>,
    wanted: &Use<'d>,
    budget: &mut Budget,
) -> Result<Function, ImportError> {
    functions.count_nodes(wanted.def.node_def.len())?;
    let file = functions.origin.clone();
    let wrong = |problem| of_function(&file, &wanted.name, problem);
    let nameable = |s: &&OpDef| !s.name.is_empty() && s.name.len() <= names::MAX_NAME_BYTES;
    let Some(signature) = wanted.def.signature.as_ref().filter(nameable) else {
        return Err(wrong(Problem::Name(names::MAX_NAME_BYTES)));
    };
    let ops = functions.graph.registry().iter().chain([&ARGUMENT]);
    let graph = Graph::with_registry(Registry::new(ops).into());
    let origin = Origin::Other(format!("{file}, function {}", wanted.name).into());
    let arguments = ports(&signature.input_arg, &wanted.given).map_err(wrong)?;
    let results = ports(&signature.output_arg, &wanted.given).map_err(wrong)?;
    let (inputs, made) =
        add_arguments(&graph, &arguments, &signature.input_arg, &origin).map_err(wrong)?;
    let mut nodes = Nodes {
        graph: &graph,
        place: NodeSource {
            file: &file,
            function: Some(&wanted.name),
            origin: origin.clone(),
            prefix: "",
        },
        input_names: InputNames::Body,
        functions,
        budget,
        given: &wanted.given,
        made,
    };
    nodes.add(&wanted.def.node_def)?;
    let outputs = outputs(&nodes, wanted.def, &results).map_err(wrong)?;
    let controls = controls(&nodes, wanted.def, signature).map_err(wrong)?;
    drop(nodes);
    checked(&graph)?;
    let attrs = attrs(functions, wanted, budget).map_err(wrong)?;
    let body = graph.snapshot();
    Ok(Function {
        name: wanted.name.clone(),
        arguments,
        results,
        body: (*body).clone(),
        inputs,
        outputs,
        controls,
        attrs,
        origin,
    })
}

/// Arguments or results, with their dtypes in this use.
fn ports(args: &[ArgDef], given: &BTreeMap<String, Attr>) -> Result<Vec<Port>, Problem> {
    let port = |arg: &ArgDef| {
        Ok(Port {
            name: arg.name.clone(),
            dtype: port_type(arg, given)?,
        })
    };
    args.iter().map(port).collect()
}

/// Adds the nodes of the arguments: returns them in order, and by their names in the body.
fn add_arguments<'d>(
    graph: &Graph,
    ports: &[Port],
    args: &'d [ArgDef],
    origin: &Origin,
) -> Result<(Vec<NodeId>, BTreeMap<&'d str, BuiltNode<'d>>), Problem> {
    let mut made = BTreeMap::new();
    let mut inputs = Vec::with_capacity(ports.len());
    for (index, (arg, port)) in args.iter().zip(ports).enumerate() {
        if !names::is_valid(&arg.name) {
            return Err(Problem::Name(names::MAX_NAME_BYTES));
        }
        let argument = graph
            .op(ARGUMENT.name)
            .name(&arg.name)
            .imported(ImportedNode {
                origin: origin.clone(),
                device: Default::default(),
                colocation: Default::default(),
            })
            .attr("T", port.dtype)
            .attr("index", index as i64)
            .build();
        let id = argument.id();
        inputs.push(id);
        let argument = BuiltNode {
            id,
            outputs: 1,
            function: None,
        };
        if made.insert(&*arg.name, argument).is_some() {
            return Err(Problem::Duplicate);
        }
    }
    Ok((inputs, made))
}

/// The outputs of the body for the results.
fn outputs(
    nodes: &Nodes<'_, '_>,
    def: &FunctionDef,
    results: &[Port],
) -> Result<Vec<OutputId>, Problem> {
    let mut outputs = Vec::with_capacity(results.len());
    for port in results {
        let text = def.ret.get(&port.name);
        let text = text.ok_or_else(|| Problem::NoResult(port.name.clone()))?;
        // A result whose node could not be built is reported with that node.
        if let Some(output) = result(nodes, text)? {
            let found = nodes.graph.fact(output).map(|f| f.dtype);
            if found != Some(port.dtype) {
                return Err(Problem::NoResult(port.name.clone()));
            }
            outputs.push(output);
        }
    }
    Ok(outputs)
}

/// The nodes that run beside the results, as the body lists them.
fn controls(
    nodes: &Nodes<'_, '_>,
    def: &FunctionDef,
    signature: &OpDef,
) -> Result<Vec<(String, NodeId)>, Problem> {
    let mut controls = Vec::new();
    let listed = |name: &&String| signature.control_output.contains(name);
    let first = signature.control_output.iter();
    let rest = def.control_ret.keys().filter(|name| !listed(name));
    for name in first.chain(rest) {
        let node = def.control_ret.get(name).unwrap_or(name);
        let made = nodes.made.get(&**node);
        let id = made.ok_or_else(|| Problem::NoNode(node.clone()))?.id;
        controls.push((name.clone(), id));
    }
    Ok(controls)
}

/// The function's own attributes, and the name of its gradient function.
fn attrs(
    functions: &mut Functions<'_>,
    wanted: &Use<'_>,
    budget: &mut Budget,
) -> Result<Vec<(String, Attr)>, Problem> {
    let mut attrs = Vec::new();
    for (name, value) in &wanted.def.attr {
        let mut cx = attr::AttrCx {
            budget,
            given: &wanted.given,
        };
        let wrong = |value| Problem::Attr {
            attr: name.clone(),
            value,
        };
        attrs.push((
            name.clone(),
            attr::from_proto(value, None, &mut cx).map_err(wrong)?,
        ));
    }
    let name = wanted.def.signature.as_ref().map_or("", |s| &s.name);
    if let Some(gradient) = functions.gradient(name, budget)? {
        attrs.push((GRADIENT.to_owned(), Attr::Func(Func::named(&gradient))));
    }
    Ok(attrs)
}
