//! Errors of importing a file's graph.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::messages::{GraphDef, NodeDef};
//! use thalweg_graphdef::{ImportError, ImportOptions, import};
//! use thalweg_ops::NewGraph;
//!
//! let node = NodeDef { name: "a".into(), op: "NoSuchOp".into(), ..NodeDef::default() };
//! let def = GraphDef { node: vec![node], ..GraphDef::default() };
//! let g = Graph::new();
//! let error = import(&g, &def, &ImportOptions::default()).unwrap_err();
//! let ImportError::Unsupported { nodes, .. } = error else { panic!("{error}") };
//! assert_eq!(nodes, [("a".to_owned(), "NoSuchOp".to_owned())]);
//! // The graph is unchanged.
//! assert!(g.snapshot().is_empty());
//! ```

use std::collections::BTreeMap;

use thalweg_graph::{GraphError, SpecError};
use thalweg_tensor::text::counted;
use thalweg_tensor::{Shape, TensorError};
use thiserror::Error;

/// The most names of a kind that a message prints; the error holds all.
const MAX_SHOWN: usize = 3;

/// The reason why a graph could not be imported. The target graph is unchanged.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Bytes that cannot be decoded.
    #[error("{origin} is no {message}: {reason}")]
    Decode {
        /// The file.
        origin: String,
        /// The expected message type.
        message: &'static str,
        /// The mistake, and its position.
        reason: String,
    },
    /// All ops that Thalweg does not have.
    #[error(
        "{origin} uses ops that there are none of: {}; ops of your own belong in the graph's set (Graph::with_ops), and \
         in that of a server (SessionOptions::ops){}",
        grouped(.nodes),
        python_hint(.nodes)
    )]
    Unsupported {
        /// The file.
        origin: String,
        /// Each node, and its op. A node of a function's body is `function/node`.
        nodes: Vec<(String, String)>,
    },
    /// All dtypes that Thalweg does not have.
    #[error("{origin} uses dtypes that there are none of: {}", grouped(.nodes))]
    DTypes {
        /// The file.
        origin: String,
        /// Each node, and the dtype's name.
        nodes: Vec<(String, String)>,
    },
    /// All attributes that their ops do not have, with values that may change the result.
    #[error(
        "{origin} has attributes that are not known, and whose values are not known to change nothing: {}; the file is of a newer version (producer {producer})",
        grouped(.nodes)
    )]
    Attributes {
        /// The file.
        origin: String,
        /// Each node, and its attribute as `Op.attribute`.
        nodes: Vec<(String, String)>,
        /// The version of the program that wrote the file.
        producer: i32,
    },
    /// A file that requires a newer reader.
    #[error(
        "{origin} is for readers of GraphDef version {wanted} or newer, and this one is of version {known}: write it with an older TensorFlow, or take a newer Thalweg"
    )]
    Version {
        /// The file.
        origin: String,
        /// The required version.
        wanted: i32,
        /// The version supported here.
        known: i32,
    },
    /// A file that excludes readers of this version.
    #[error("{origin} says that readers of GraphDef version {known} misread it")]
    BadConsumer {
        /// The file.
        origin: String,
        /// The version supported here.
        known: i32,
    },
    /// More nodes than the importer may take.
    #[error(
        "{origin} has more than {limit} nodes, those of its functions counted: raise ImportOptions::max_nodes if it is meant to"
    )]
    Nodes {
        /// The file.
        origin: String,
        /// The limit.
        limit: usize,
    },
    /// A node that cannot be built from the file.
    #[error("{origin}: node '{node}' ({op}): {problem}")]
    Node {
        /// The file.
        origin: String,
        /// The node; one of a function's body is `function/node`.
        node: String,
        /// Its op.
        op: String,
        /// The problem.
        problem: Problem,
    },
    /// A function that cannot be built from the file.
    #[error("{origin}: function '{function}': {problem}")]
    Function {
        /// The file.
        origin: String,
        /// The function.
        function: String,
        /// The problem.
        problem: Problem,
    },
    /// A cycle of nodes other than a loop's.
    #[error(
        "{origin}: nodes wait for each other in a circle: {}; only a NextIteration may go back, to a Merge",
        .nodes.join(" <- ")
    )]
    Cycle {
        /// The file.
        origin: String,
        /// The nodes of one such cycle, each followed by the one that it waits for.
        nodes: Vec<String>,
    },
    /// Mistakes found by the graph.
    #[error("{}{}", first(.0), more(.0.len()))]
    Graph(Vec<GraphError>),
    /// A name in the options that the file does not have.
    #[error("{option} names '{name}', {problem}")]
    Option {
        /// The option.
        option: &'static str,
        /// The name.
        name: String,
        /// The problem.
        problem: &'static str,
    },
    /// A mistake in a MetaGraph outside of its graph.
    #[error("{origin}: {what}")]
    Meta {
        /// The file.
        origin: String,
        /// The mistake.
        what: String,
    },
}

/// Prints the message: a program that returns the error from `main` prints this.
impl std::fmt::Debug for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

fn first(errors: &[GraphError]) -> String {
    errors.first().map_or(String::new(), ToString::to_string)
}

fn more(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        n => format!(" (and {} in this graph)", counted(n - 1, "more mistake")),
    }
}

/// Ops that call a function of the process that made the graph.
const PYTHON_OPS: [&str; 3] = ["PyFunc", "PyFuncStateless", "EagerPyFunc"];

/// The advice for a graph that calls functions of Python.
fn python_hint(nodes: &[(String, String)]) -> &'static str {
    match nodes.iter().any(|(_, op)| PYTHON_OPS.contains(&&**op)) {
        true => {
            "; tf.py_func and Dataset.from_generator run Python code, which is in the process that made the graph alone: \
             feed their values to a placeholder, or write them to a TFRecord file"
        }
        false => "",
    }
}

/// `Op (12 nodes: a, b, c, ...), Other (d)`.
fn grouped(nodes: &[(String, String)]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, kind) in nodes {
        kinds.entry(kind).or_default().push(node);
    }
    let text = |(kind, nodes): (&str, Vec<&str>)| match nodes.len() {
        n if n > MAX_SHOWN => format!("{kind} ({n} nodes: {}, ...)", nodes[..MAX_SHOWN].join(", ")),
        _ => format!("{kind} ({})", nodes.join(", ")),
    };
    kinds.into_iter().map(text).collect::<Vec<_>>().join("; ")
}

impl ImportError {
    /// `true` if the file exceeds [`ImportOptions::max_expanded_bytes`](crate::ImportOptions).
    pub fn exceeds_expansion_limit(&self) -> bool {
        let (ImportError::Node { problem, .. } | ImportError::Function { problem, .. }) = self
        else {
            return false;
        };
        let Problem::Attr { value, .. } = problem else {
            return false;
        };
        matches!(value, ValueError::Expanded { .. })
    }
}

/// The problem of a node or function of a file.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// An invalid name.
    #[error("this is no name: letters, digits and _ . - / > are, and at most {0} of them")]
    Name(usize),
    /// Two of the same name.
    #[error("there are two of this name")]
    Duplicate,
    /// A function whose name is taken already.
    #[error("the graph has another function of this name: import into a graph of its own")]
    Taken,
    /// A call of a function that cannot be inlined.
    #[error("the function that it calls cannot be inlined: {0}")]
    Inline(String),
    /// An input from a node that does not exist.
    #[error("its input '{0}' is of a node that is not there")]
    NoNode(String),
    /// An output that the node does not have.
    #[error("its input '{input}' is not there: '{node}' has {}", counted(.outputs, "output"))]
    NoOutput {
        /// The input.
        input: String,
        /// The node that it names.
        node: String,
        /// The number of the node's outputs.
        outputs: usize,
    },
    /// A malformed input.
    #[error("its input '{0}' cannot be read: 'node', 'node:1' and, after those, '^node' can")]
    Input(String),
    /// A malformed attribute.
    #[error("attribute {attr}: {value}")]
    Attr {
        /// The attribute.
        attr: String,
        /// The mistake.
        value: ValueError,
    },
    /// A string that is not a device.
    #[error(transparent)]
    Device(#[from] SpecError),
    /// A function that is not in the file's library.
    #[error("there is no function '{0}' in the file")]
    NoFunction(String),
    /// An attribute of a function that a use of it does not set.
    #[error("its use of function '{function}' does not say attribute {attr}")]
    NoFunctionAttr {
        /// The function.
        function: String,
        /// The attribute.
        attr: String,
    },
    /// Uses of functions that instantiate functions without end.
    #[error("functions are used with too many different attributes")]
    TooManyFunctions,
    /// An argument or result of a function that stands for a variable number of tensors.
    #[error("'{0}' stands for a list of tensors, which a function here does not have")]
    List(String),
    /// A function whose gradient is requested and cannot be built.
    #[error("the gradient of function '{function}' cannot be made: {reason}")]
    Gradient {
        /// The function.
        function: String,
        /// The reason.
        reason: String,
    },
    /// A result without a value.
    #[error("it does not say what its result '{0}' is")]
    NoResult(String),
}

/// An invalid value in a file.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// A dtype that Thalweg does not have, by its name.
    #[error("{0} is a dtype that there is none of")]
    DType(String),
    /// A negative dimension.
    #[error("{0} is no dimension: -1 stands for one that is unknown")]
    Dim(i64),
    /// More dimensions than a shape may have.
    #[error("a shape of {0} dimensions: at most 254 are possible")]
    Rank(usize),
    /// A tensor whose dimensions are not all known.
    #[error("a tensor of shape {0}: a tensor's dimensions are all known")]
    UnknownShape(Shape),
    /// More elements than the dimensions have.
    #[error("{} for a tensor of shape {shape}", counted(.found, "element"))]
    TooMany {
        /// The tensor's shape.
        shape: Shape,
        /// The number of elements.
        found: usize,
    },
    /// A tensor that takes far more memory than its encoding.
    #[error(
        "a tensor of shape {shape} of which the file says few elements: with it, {bytes} bytes are filled in, and {limit} are allowed: raise ImportOptions::max_expanded_bytes if the file is to be trusted"
    )]
    Expanded {
        /// The tensor's shape.
        shape: Shape,
        /// The bytes that would be filled in, with those of earlier tensors.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Elements that are invalid for their dtype, or for which there is no memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Strings whose lengths do not match the bytes that hold them.
    #[error("its strings are cut off")]
    Strings,
    /// A list with items of several kinds.
    #[error("a list of several kinds of items")]
    MixedList,
    /// An attribute without a value.
    #[error("it has no value")]
    Empty,
    /// A placeholder for an attribute that the function does not have.
    #[error("it stands for attribute {0}, which is not there")]
    Placeholder(String),
    /// Text that is not UTF-8 where a name is wanted.
    #[error("a thing of the runtime's, which no file holds")]
    Handle,
}
