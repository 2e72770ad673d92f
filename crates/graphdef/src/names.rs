//! Names in files: nodes, their outputs, inputs of nodes.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::names::{find_output, is_valid, output};
//! use thalweg_ops::{NewGraph, SourceOps};
//!
//! assert_eq!(output("layer/split:1"), Some(("layer/split", 1)));
//! assert!(is_valid("layer/split") && !is_valid("/layer"));
//!
//! let g = Graph::new();
//! let x = g.constant(1.0f32).named("x");
//! assert_eq!(find_output(&g, "x").map(|o| o.id()), Some(x.id()));
//! assert!(find_output(&g, "x:1").is_none());
//! ```

use thalweg_graph::{Graph, Operation, Output};

/// The attribute of a function that names its gradient function.
pub(crate) const GRADIENT: &str = "_gradient_function";

/// The op that requests a function's gradient: from its arguments and the gradients of its results,
/// it computes the gradient of each argument.
pub(crate) const SYMBOLIC_GRADIENT: &str = "SymbolicGradient";
/// The op that replaces it.
pub(crate) const GRADIENT_CALL: &str = "StatefulPartitionedCall";

/// The longest name in a file, in bytes.
pub const MAX_NAME_BYTES: usize = 1 << 16;

/// `true` if a node of a file may have this name: TensorFlow's pattern, and also a leading
/// underscore, which nodes of its runtime have.
pub fn is_valid(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || b"_.-/>\\".contains(&c);
    let first = |c: u8| c.is_ascii_alphanumeric() || c == b'.' || c == b'_';
    name.len() <= MAX_NAME_BYTES
        && name.bytes().next().is_some_and(first)
        && name.bytes().all(inner)
}

/// The name with a prefix and a slash before it; an empty prefix adds nothing.
pub(crate) fn prefixed(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}/{name}"),
    }
}

/// The node that the text of an input names: `node`, `node:1` or `^node`.
///
/// ```
/// use thalweg_graphdef::names::node;
///
/// assert_eq!(["a/b", "a/b:1", "^a/b"].map(node), ["a/b"; 3]);
/// ```
pub fn node(input: &str) -> &str {
    let name = input.strip_prefix('^').unwrap_or(input);
    name.split_once(':').map_or(name, |(node, _)| node)
}

/// Splits `node` or `node:1` into a name and a number; `None` if it is neither.
pub fn output(text: &str) -> Option<(&str, u32)> {
    match text.split_once(':') {
        None => Some((text, 0)),
        Some((name, index)) => Some((name, number(index)?)),
    }
}

/// Parses a number without sign or leading zeros, as TensorFlow writes it.
pub(crate) fn number(text: &str) -> Option<u32> {
    let plain = text == "0" || !text.starts_with('0');
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| plain && digits)
}

/// The node of a graph by its name; the name of one of its outputs works too.
pub fn find_operation<'g>(graph: &'g Graph, name: &str) -> Option<Operation<'g>> {
    graph.find(output(name)?.0)
}

/// The output of a graph by its name: `node:1`, and `node` for the first one.
pub fn find_output<'g>(graph: &'g Graph, name: &str) -> Option<Output<'g>> {
    let (node, index) = output(name)?;
    let found = graph.find(node)?.output(index);
    graph.fact(found.id()).map(|_| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_read_as_tensorflow_writes_them() {
        assert_eq!(output("a/b"), Some(("a/b", 0)));
        assert_eq!(output("a:12"), Some(("a", 12)));
        for bad in ["a:", "a:-1", "a:+1", "a:01", "a:b:0", "a:99999999999"] {
            assert_eq!(output(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_have_tensorflows_letters() {
        for good in ["x", ".x", "_x", "a/b_1.c-d>e"] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", "/x", "a:0", "^a", "a b", "é"] {
            assert!(!is_valid(bad), "{bad}");
        }
        assert!(!is_valid(&"x".repeat(MAX_NAME_BYTES + 1)));
    }
}
