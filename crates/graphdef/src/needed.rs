//! The nodes of a file that others need.

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::NodeDef;
use crate::messages::attr_value::Value;
use crate::names;

/// Names of the nodes among `nodes` that `roots` need, directly or not, and of the roots among them: over inputs, control
/// inputs and colocation. Others are not followed.
///
/// ```
/// use std::collections::BTreeMap;
/// use thalweg_graphdef::messages::NodeDef;
/// use thalweg_graphdef::needed;
///
/// let node = |name: &str, input: &[&str]| {
///     let input = input.iter().map(|i| i.to_string()).collect();
///     (name.to_owned(), NodeDef { name: name.into(), input, ..NodeDef::default() })
/// };
/// let all = BTreeMap::from([node("x", &[]), node("y", &["x:1", "^elsewhere"]), node("z", &["y"]), node("other", &[])]);
/// assert_eq!(needed(&all, ["y", "unknown"]).into_iter().collect::<Vec<_>>(), ["x", "y"]);
/// ```
pub fn needed<'d>(
    nodes: &'d BTreeMap<String, NodeDef>,
    roots: impl IntoIterator<Item = &'d str>,
) -> BTreeSet<&'d str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = roots.into_iter().collect();
    while let Some(name) = open.pop() {
        let Some((name, node)) = nodes.get_key_value(name) else {
            continue;
        };
        if !found.insert(&**name) {
            continue;
        }
        open.extend(node.input.iter().map(|input| names::node(input)));
        if let Some(Value::List(class)) = node.attr.get("_class").and_then(|a| a.value.as_ref()) {
            let class = class.s.iter().filter_map(|c| std::str::from_utf8(c).ok());
            open.extend(class.filter_map(|c| c.strip_prefix("loc:@")));
        }
    }
    found
}
