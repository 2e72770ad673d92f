//! Import of a GraphDef into a graph.
//!
//! An import can put names behind a prefix, and outputs of the graph in place of some of the file's:
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::{ExportOptions, ImportOptions, export, import};
//! use thalweg_ops::{MathOps, NewGraph, SourceOps};
//! use thalweg_tensor::DType;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let g = Graph::new();
//! let _y = g.placeholder("x", DType::F32, [-1]).exp().named("y");
//! let def = export(&g, &ExportOptions::default())?;
//!
//! let g = Graph::new();
//! let data = g.constant([0.0f32, 1.0]);
//! let options = ImportOptions::new().prefix("model").replacing("x", data);
//! let model = import(&g, &def, &options)?;
//! let y = model.output("y").ok_or("no y")?;
//! assert_eq!(y.name(), "model/y:0");
//! # Ok(())
//! # }
//! ```

mod body;
mod define;
mod errors;
mod functions;
mod gradient;
mod inline;
mod input_names;
mod nodes;
mod order;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_graph::{Graph, NodeId, Operation, Origin, Output, OutputId};

use crate::error::ImportError;
use crate::import::errors::checked;
use crate::import::functions::Functions;
use crate::import::input_names::InputNames;
use crate::import::nodes::{NodeSource, Nodes};
use crate::messages::attr_value::Value;
use crate::messages::{GraphDef, NodeDef, TensorShapeProto, VersionDef};
use crate::names::{self, prefixed};
use crate::survey::{library, survey};
use crate::tensor::{Budget, DEFAULT_EXPANDED_BYTES};

/// The newest version of GraphDefs that is read here: TensorFlow 2.21's.
pub const KNOWN_VERSION: i32 = 2474;

/// Options of [`import`].
#[derive(Clone, Debug)]
pub struct ImportOptions<'g> {
    pub(crate) prefix: String,
    input_map: BTreeMap<String, Output<'g>>,
    return_outputs: Vec<String>,
    pub(crate) origin: String,
    max_expanded_bytes: usize,
    max_nodes: usize,
    inline_calls: bool,
}

impl Default for ImportOptions<'_> {
    fn default() -> Self {
        ImportOptions {
            prefix: String::new(),
            input_map: BTreeMap::new(),
            return_outputs: Vec::new(),
            origin: "an imported graph".to_owned(),
            max_expanded_bytes: DEFAULT_EXPANDED_BYTES,
            max_nodes: 4 << 20,
            inline_calls: false,
        }
    }
}

impl<'g> ImportOptions<'g> {
    /// The defaults.
    pub fn new() -> ImportOptions<'g> {
        ImportOptions::default()
    }

    /// Sets a prefix for every node's name, followed by a slash. It starts at the root: name scopes do not apply.
    pub fn prefix(self, prefix: impl Into<String>) -> ImportOptions<'g> {
        ImportOptions {
            prefix: prefix.into(),
            ..self
        }
    }

    /// Replaces an output of the file, by its name there (`node:1`, or `node` for its first output), with this output of
    /// the graph. With `^node`, control inputs from that node wait for this output's node instead. The replaced node is
    /// imported all the same.
    pub fn replacing(mut self, name: impl Into<String>, by: Output<'g>) -> ImportOptions<'g> {
        self.input_map.insert(name.into(), by);
        self
    }

    /// Adds an output, by its name in the file (`node:1`, `node`), to [`Imported::outputs`], after those named before.
    pub fn returning(mut self, name: impl Into<String>) -> ImportOptions<'g> {
        self.return_outputs.push(name.into());
        self
    }

    /// Sets the origin of nodes in error messages: a file's name.
    pub fn origin(self, origin: impl Into<String>) -> ImportOptions<'g> {
        ImportOptions {
            origin: origin.into(),
            ..self
        }
    }

    /// Sets the most bytes filled in for all tensors together whose elements the file does not list in full (256 MiB): a
    /// file of a hundred bytes can request any amount.
    pub fn max_expanded_bytes(self, max_expanded_bytes: usize) -> ImportOptions<'g> {
        ImportOptions {
            max_expanded_bytes,
            ..self
        }
    }

    /// Puts the nodes of a called function in place of each call of the graph (`false`), so that a model of Keras or
    /// TensorFlow 2 can be cut inside, trained and frozen as any other graph. Node `name` of the function that node `call`
    /// calls becomes `call/name`, and an `IdentityN` of the results keeps the name of the call. Branches and loops keep
    /// their functions.
    pub fn inline_calls(self, inline_calls: bool) -> ImportOptions<'g> {
        ImportOptions {
            inline_calls,
            ..self
        }
    }

    /// Sets the most nodes, including those of functions (4 million).
    pub fn max_nodes(self, max_nodes: usize) -> ImportOptions<'g> {
        ImportOptions { max_nodes, ..self }
    }
}

/// The result of an import.
#[derive(Clone)]
pub struct Imported<'g> {
    graph: &'g Graph,
    prefix: String,
    /// The outputs that [`ImportOptions::returning`] names, in its order.
    pub outputs: Vec<Output<'g>>,
    /// The number of nodes added, without those of functions.
    pub nodes: usize,
    /// The unused functions of the file that could not be built: they are left out.
    pub left_out: Vec<String>,
}

impl<'g> Imported<'g> {
    /// A node by its name in the file.
    pub fn operation(&self, name: &str) -> Option<Operation<'g>> {
        self.graph.find(&prefixed(&self.prefix, name))
    }

    /// An output by its name in the file: `node:1`, and `node` for the first one.
    pub fn output(&self, name: &str) -> Option<Output<'g>> {
        names::find_output(self.graph, &prefixed(&self.prefix, name))
    }
}

impl std::fmt::Debug for Imported<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Imported")
            .field("prefix", &self.prefix)
            .field("outputs", &self.outputs)
            .field("nodes", &self.nodes)
            .field("left_out", &self.left_out)
            .finish()
    }
}

/// Adds a file's graph to `graph`: its nodes in topological order, and the functions of its
/// library.
///
/// Nodes keep their names (behind the prefix), devices, colocation and attributes, including those
/// whose names begin with `_`. A node whose op is a function of the file becomes a
/// `PartitionedCall`, or a `StatefulPartitionedCall`. A function with attributes becomes one
/// function for each combination of attributes that it is used with.
///
/// # Errors
/// See [`ImportError`]; nothing is added then. All ops, dtypes and attributes that Thalweg does not
/// have are reported at once.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_graphdef::{GraphDef, ImportOptions, import};
/// use thalweg_graphdef::messages::NodeDef;
/// use thalweg_ops::NewGraph;
///
/// # fn main() -> Result<(), thalweg_graphdef::ImportError> {
/// // As `file::read` returns it for a file.
/// let node = NodeDef { name: "step".into(), op: "NoOp".into(), ..NodeDef::default() };
/// let def = GraphDef { node: vec![node], ..GraphDef::default() };
///
/// let g = Graph::new();
/// let imported = import(&g, &def, &ImportOptions::default())?;
/// assert_eq!(imported.nodes, 1);
/// let step = imported.operation("step").expect("the file has it");
/// assert_eq!(step.name(), "step");
/// # Ok(())
/// # }
/// ```
pub fn import<'g>(
    graph: &'g Graph,
    def: &GraphDef,
    options: &ImportOptions<'g>,
) -> Result<Imported<'g>, ImportError> {
    import_and(graph, def, options, |_, _| Ok::<(), ImportError>(()))
}

/// As [`import`]; `and` checks the graph with the additions before they are adopted, and the number
/// of bytes filled in for constants. It may be called again.
///
/// # Errors
/// As [`import`], and the error of `and`; nothing is added then.
/// As [`import`], and the error of `and`; nothing is added then.
pub fn import_and<'g, E: From<ImportError>>(
    graph: &'g Graph,
    def: &GraphDef,
    options: &ImportOptions<'g>,
    and: impl Fn(&Graph, usize) -> Result<(), E>,
) -> Result<Imported<'g>, E> {
    for (name, output) in &options.input_map {
        let problem = match std::ptr::eq(output.graph(), graph) {
            false => Some("and gives an output of another graph for it"),
            true if output.is_invalid() => {
                Some("and gives an output that could not be made for it")
            }
            true => None,
        };
        if let Some(problem) = problem {
            return Err(option("input_map", name, problem).into());
        }
    }
    if !options.prefix.is_empty() && !names::is_valid(&options.prefix) {
        let problem =
            "and names begin with a letter or digit and have letters, digits and _ . - / >";
        return Err(option("prefix", &options.prefix, problem).into());
    }
    check_versions(def, &options.origin)?;
    check_survey(def, graph, &options.origin)?;
    let def = placeholders_of_any_shape(def);
    let added = graph.atomically(|copy| -> Result<Added, E> {
        let added = add(copy, &def, options)?;
        and(copy, added.expanded)?;
        Ok(added)
    })?;
    Ok(Imported {
        graph,
        prefix: options.prefix.clone(),
        outputs: added.outputs.iter().map(|&o| graph.output(o)).collect(),
        nodes: added.nodes,
        left_out: added.left_out,
    })
}

struct Added {
    outputs: Vec<OutputId>,
    nodes: usize,
    left_out: Vec<String>,
    /// The bytes filled in for constants.
    expanded: usize,
}

fn add(graph: &Graph, def: &GraphDef, options: &ImportOptions<'_>) -> Result<Added, ImportError> {
    let origin: Arc<str> = options.origin.as_str().into();
    let mut budget = Budget::new(options.max_expanded_bytes);
    let mut functions = Functions::new(graph, def, library(def), &origin, options.max_nodes);
    functions.inlining = options.inline_calls.then_some(body::function);
    functions.count_nodes(def.node.len())?;
    let given = BTreeMap::new();
    let mut map = BTreeMap::new();
    let mut waits: BTreeMap<&str, NodeId> = BTreeMap::new();
    for (name, output) in &options.input_map {
        match name.strip_prefix('^') {
            Some(node) => {
                waits.insert(node, output.id().node);
            }
            None => {
                let key = names::output(name)
                    .ok_or_else(|| option("input_map", name, "which is no output's name"))?;
                map.insert(key, output.id());
            }
        }
    }
    let mut nodes = Nodes {
        graph,
        place: NodeSource {
            file: &options.origin,
            function: None,
            origin: Origin::Other(origin.clone()),
            prefix: &options.prefix,
        },
        input_names: InputNames::Graph {
            map,
            waits,
            used: Default::default(),
        },
        functions: &mut functions,
        budget: &mut budget,
        given: &given,
        made: BTreeMap::new(),
    };
    nodes.add(&def.node)?;
    let unused = nodes.input_names.unused();
    if let Some(name) = unused {
        let problem = "which is the input of no node of the file";
        return Err(option("input_map", &name, problem));
    }
    let made = std::mem::take(&mut nodes.made);
    checked(graph)?;
    functions.define_used(&mut budget)?;
    let left_out = functions.define_others(&mut budget)?;
    let find = |name: &String| {
        let missing = "which the file does not have";
        let (node, index) =
            names::output(name).ok_or_else(|| option("return_outputs", name, missing))?;
        let output = made.get(node).map(|made| OutputId {
            node: made.id,
            index,
        });
        let output = output.filter(|o| graph.fact(*o).is_some());
        output.ok_or_else(|| option("return_outputs", name, missing))
    };
    Ok(Added {
        outputs: options
            .return_outputs
            .iter()
            .map(find)
            .collect::<Result<_, _>>()?,
        nodes: made.len(),
        left_out,
        expanded: budget.used(),
    })
}

fn option(option: &'static str, name: &str, problem: &'static str) -> ImportError {
    ImportError::Option {
        option,
        name: name.to_owned(),
        problem,
    }
}

fn check_versions(def: &GraphDef, origin: &str) -> Result<(), ImportError> {
    let none = VersionDef::default();
    let versions = def.versions.as_ref().unwrap_or(&none);
    if versions.min_consumer > KNOWN_VERSION {
        return Err(ImportError::Version {
            origin: origin.to_owned(),
            wanted: versions.min_consumer,
            known: KNOWN_VERSION,
        });
    }
    if versions.bad_consumers.contains(&KNOWN_VERSION) {
        return Err(ImportError::BadConsumer {
            origin: origin.to_owned(),
            known: KNOWN_VERSION,
        });
    }
    Ok(())
}

/// The last version of graphs in which a Placeholder of no dimensions stands for one of any shape.
const LAST_WITHOUT_SHAPES: i32 = 21;

/// The graph with placeholders of any shape where its version says so.
fn placeholders_of_any_shape(def: &GraphDef) -> Cow<'_, GraphDef> {
    let producer = def.versions.as_ref().map_or(0, |v| v.producer);
    let is_scalar = |node: &NodeDef| {
        let shape = node.attr.get("shape").and_then(|a| a.value.as_ref());
        let scalar = |s: &TensorShapeProto| s.dim.is_empty() && !s.unknown_rank;
        node.op == "Placeholder" && matches!(shape, Some(Value::Shape(s)) if scalar(s))
    };
    if producer > LAST_WITHOUT_SHAPES || !def.node.iter().any(is_scalar) {
        return Cow::Borrowed(def);
    }
    let mut def = def.clone();
    for node in def.node.iter_mut().filter(|n| is_scalar(n)) {
        node.attr.remove("shape");
    }
    Cow::Owned(def)
}

fn check_survey(def: &GraphDef, graph: &Graph, origin: &str) -> Result<(), ImportError> {
    let found = survey(def, graph.registry());
    let origin = origin.to_owned();
    if !found.ops.is_empty() {
        return Err(ImportError::Unsupported {
            origin,
            nodes: found.ops,
        });
    }
    if !found.dtypes.is_empty() {
        return Err(ImportError::DTypes {
            origin,
            nodes: found.dtypes,
        });
    }
    if !found.attributes.is_empty() {
        return Err(ImportError::Attributes {
            origin,
            nodes: found.attributes,
            producer: def.versions.as_ref().map_or(0, |v| v.producer),
        });
    }
    Ok(())
}
