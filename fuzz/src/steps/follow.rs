//! Derives a node's attributes from the dtypes of its inputs, and the dtypes of its outputs from its attributes.

use thalweg_graph::op::{Arg, ArgType, OpDef};
use thalweg_graphdef::dtype::{from_number, to_number};
use thalweg_graphdef::messages::attr_value::{ListValue, Value};
use thalweg_graphdef::messages::{AttrValue, NodeDef};
use thalweg_tensor::DType;

use super::base::of;

/// Most outputs of a node.
const MAX_OUTPUTS: usize = 16;

fn value<'n>(node: &'n NodeDef, attr: &str) -> Option<&'n Value> {
    node.attr.get(attr)?.value.as_ref()
}

/// The dtypes of the values of an argument.
fn dtypes(arg: &Arg, node: &NodeDef, def: &OpDef) -> Vec<DType> {
    let default = |name: &str| {
        def.attr(name)
            .and_then(|a| a.default.value())
            .and_then(|v| of(&v).value)
    };
    let get = |name: &str| value(node, name).cloned().or_else(|| default(name));
    let number = |name: &str| match get(name) {
        Some(Value::I(n)) => usize::try_from(n).unwrap_or(0).min(MAX_OUTPUTS),
        _ => 0,
    };
    let dtype = match arg.ty {
        ArgType::Is(dtype) => Some(dtype),
        ArgType::Attr(name) => match get(name) {
            Some(Value::Type(n)) => from_number(n).ok(),
            _ => None,
        },
        ArgType::List(name) => {
            let Some(Value::List(list)) = get(name) else {
                return Vec::new();
            };
            return list
                .r#type
                .iter()
                .take(MAX_OUTPUTS)
                .filter_map(|&n| from_number(n).ok())
                .collect();
        }
    };
    vec![dtype.unwrap_or(DType::F32); arg.count.map_or(1, number)]
}

/// The dtypes of a node's outputs, as far as its attributes determine them.
pub fn outputs(def: &OpDef, node: &NodeDef) -> Vec<DType> {
    def.outputs
        .iter()
        .flat_map(|arg| dtypes(arg, node, def))
        .take(MAX_OUTPUTS)
        .collect()
}

/// Gives a node the attributes that follow from the dtypes of its inputs.
pub fn follow(def: &OpDef, inputs: &[DType], node: &mut NodeDef) {
    let singles = def.inputs.iter().filter(|a| !a.is_list()).count();
    let lists = def.inputs.len() - singles;
    let each = inputs
        .len()
        .saturating_sub(singles)
        .checked_div(lists)
        .unwrap_or(0);
    let mut rest = inputs;
    for arg in def.inputs {
        let (here, after) = rest.split_at(if arg.is_list() { each } else { 1 }.min(rest.len()));
        rest = after;
        let mut put = |name: &str, value: Value| {
            node.attr
                .insert(name.to_owned(), AttrValue { value: Some(value) })
        };
        if let Some(count) = arg.count {
            put(count, Value::I(here.len() as i64));
        }
        match (arg.ty, here.first()) {
            (ArgType::Attr(name), Some(&dtype)) => drop(put(name, Value::Type(to_number(dtype)))),
            (ArgType::List(name), _) => {
                let types = here.iter().map(|&d| to_number(d)).collect();
                put(
                    name,
                    Value::List(ListValue {
                        r#type: types,
                        ..ListValue::default()
                    }),
                );
            }
            _ => {}
        }
    }
}
