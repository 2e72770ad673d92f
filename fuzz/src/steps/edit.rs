//! Mutations of a graph: attributes, values, shapes, inputs, ops, feeds and fetches.

use thalweg_graph::{Attr, Registry};
use thalweg_graphdef::messages::attr_value::Value;
use thalweg_graphdef::messages::{AttrValue, NodeDef, TensorProto};
use thalweg_tensor::{DType, Shape, Tensor};

use super::base::{BASES, Base, fetches_of, node, of, set_value, value_of};
use super::follow::outputs;
use super::grown::grow;
use super::values;

/// Most nodes of a graph.
const MAX_NODES: usize = 1 << 11;

/// Applies a mutation: one byte for its kind, and five for the place and the new value. Any six bytes are a valid
/// mutation, so that an insertion or deletion by the fuzzer changes one or two mutations and keeps the others.
pub fn apply(base: &mut Base, edit: &[u8; 6], registry: &Registry) {
    let &[kind, a, b, c, d, e] = edit;
    if base.def.node.is_empty() || base.def.node.len() > MAX_NODES {
        return;
    }
    // The newest nodes come first: the last one is the graph's main op.
    let last = base.def.node.len() - 1;
    let at = last - usize::from(a) % (last + 1);
    match kind % 16 {
        0 | 1 => attribute(&mut base.def.node[at], b, [c, d, e]),
        2 | 3 => change_value(base, a, d, |t| values::revalued(t, b, c)),
        4 => change_value(base, a, d, |t| {
            values::reshaped(t, &values::other_dims(t.dims(), b, c))
        }),
        5 => raw_value(&mut base.def.node[at], b, [c, d, e]),
        6 => {
            let from = last - usize::from(c) % (last + 1);
            let from = format!("{}:{}", base.def.node[from].name, d % 4);
            let inputs = &mut base.def.node[at].input;
            let count = inputs.len().max(1);
            match inputs.get_mut(usize::from(b) % count) {
                Some(input) => *input = from,
                None => inputs.push(from),
            }
        }
        7 => {
            let number = usize::from(b) << 8 | usize::from(c);
            let ops: Vec<&str> = registry.iter().map(|op| op.name).collect();
            base.def.node[at].op = ops[number % ops.len()].to_owned();
        }
        8 | 9 => {
            let number = usize::from(b) << 8 | usize::from(c);
            let count = registry.iter().count();
            if let Some(op) = registry.iter().nth(number % count) {
                let grown = grow(base, op, registry, [d, e]);
                base.steps.push(fetches_of(&grown, op));
            }
        }
        10 => join(base, edit, registry),
        11 => ask(base, at, b, registry),
        12 => feed(base, at, [b, c, d, e], registry),
        13 => wait(base, at, b, c),
        14 => lists(&mut base.def.node[at], b, c),
        _ => base.def.node[at].device = format!("/cpu:{}", if b < 250 { b & 1 } else { 2 }),
    }
}

/// Changes an attribute, or takes it away.
fn attribute(node: &mut NodeDef, which: u8, [how, x, y]: [u8; 3]) {
    let count = node.attr.len().max(1);
    let Some(name) = node.attr.keys().nth(usize::from(which) % count).cloned() else {
        return;
    };
    if how >= 248 {
        node.attr.remove(&name);
        return;
    }
    if let Some(value) = node.attr.get_mut(&name).and_then(|a| a.value.as_mut()) {
        match how {
            240.. => *value = other_kind(how, x),
            _ => mutate(value, how, x, y),
        }
    }
}

fn other_kind(how: u8, x: u8) -> Value {
    match how % 8 {
        0 => Value::I(values::int(x)),
        1 => Value::F(values::float(x) as f32),
        2 => Value::B(x & 1 == 1),
        3 => Value::S(values::string(x)),
        4 => Value::Type(values::dtype_number(x)),
        5 => Value::Placeholder("T".to_owned()),
        6 => Value::Shape(values::shape(x, x)),
        _ => Value::List(Default::default()),
    }
}

fn mutate(value: &mut Value, how: u8, x: u8, y: u8) {
    match value {
        Value::I(v) => *v = values::int(x),
        Value::F(v) => *v = values::float(x) as f32,
        Value::B(v) => *v = !*v,
        Value::S(v) => *v = values::string(x),
        Value::Type(v) => *v = values::dtype_number(x),
        Value::Shape(v) => *v = values::shape(x, y),
        Value::Tensor(v) => mutate_tensor(v, how, x, y),
        Value::Func(v) => v.name = String::from_utf8_lossy(&values::string(x)).into_owned(),
        Value::Placeholder(v) => v.push('x'),
        Value::List(v) => {
            mutate_items(&mut v.i, how, x, values::int(y));
            mutate_items(&mut v.f, how, x, values::float(y) as f32);
            mutate_items(&mut v.r#type, how, x, values::dtype_number(y));
            mutate_items(&mut v.s, how, x, values::string(y));
            mutate_items(&mut v.shape, how, x, values::shape(y, x));
            mutate_items(&mut v.b, how, x, y & 1 == 1);
        }
    }
}

/// Changes a list that is not empty: removes, adds or replaces an item.
fn mutate_items<T>(items: &mut Vec<T>, how: u8, at: u8, item: T) {
    let count = items.len();
    match (how % 8, items.get_mut(usize::from(at) % count.max(1))) {
        (_, None) => {}
        (0, _) => drop(items.pop()),
        (1, _) => items.push(item),
        (_, Some(old)) => *old = item,
    }
}

/// Changes the message of a tensor, possibly to an invalid one.
fn mutate_tensor(proto: &mut TensorProto, how: u8, x: u8, y: u8) {
    match how % 4 {
        0 => proto.tensor_shape = Some(values::shape(x, y)),
        1 => proto.dtype = values::dtype_number(x),
        2 => drop(proto.tensor_content.pop()),
        _ => {
            let count = proto.tensor_content.len().max(1);
            if let Some(byte) = proto.tensor_content.get_mut(usize::from(x) % count) {
                *byte = y;
            }
        }
    }
}

fn raw_value(node: &mut NodeDef, which: u8, [how, x, y]: [u8; 3]) {
    match node.attr.get_mut("value").and_then(|a| a.value.as_mut()) {
        Some(Value::Tensor(proto)) => mutate_tensor(proto, how, x, y),
        _ => attribute(node, which, [how, x, y]),
    }
}

/// Changes the value of a constant or a feed, the newest first. Placeholders mostly get the shape of their feeds.
fn change_value(base: &mut Base, which: u8, how: u8, change: impl Fn(&Tensor) -> Option<Tensor>) {
    let nodes = &mut base.def.node;
    let constants = nodes
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, n)| n.op == "Const");
    let constants: Vec<usize> = constants.map(|(at, _)| at).collect();
    let count = (constants.len() + base.feeds.len()).max(1);
    let at = usize::from(which) % count;
    if let Some((name, fed)) = base.feeds.iter_mut().nth(at) {
        let Some(t) = change(fed) else { return };
        let holder = nodes
            .iter_mut()
            .find(|n| n.name == *name && n.op == "Placeholder" && how < 240);
        if let Some(shape) = holder.and_then(|n| n.attr.get_mut("shape")) {
            *shape = of(&Attr::Shape(if how.is_multiple_of(4) {
                Shape::unknown()
            } else {
                t.shape()
            }));
        }
        *fed = t;
    } else if let Some(&at) = constants.get(at - base.feeds.len())
        && let Some(t) = value_of(&nodes[at]).and_then(|t| change(&t))
    {
        set_value(&mut nodes[at], &t);
    }
}

/// Adds another graph, whose last node takes a value of the existing graph.
fn join(base: &mut Base, &[_, fed, high, low, which, input]: &[u8; 6], registry: &Registry) {
    let number = usize::from(high) << 8 | usize::from(low);
    let mut other = BASES.get(number, which.into(), fed, !fed, registry);
    if other.def.library.is_some() && base.def.library.is_some() {
        return;
    }
    let prefix = format!("j{}/", base.def.node.len());
    for node in &mut other.def.node {
        node.name.insert_str(0, &prefix);
        let names = node.input.iter_mut();
        names.for_each(|i| i.insert_str(usize::from(i.starts_with('^')), &prefix));
        // Colocation constraints would name nodes of the other graph.
        node.attr.remove("_class");
    }
    let longer = |names: Vec<String>| -> Vec<String> {
        names.into_iter().map(|n| format!("{prefix}{n}")).collect()
    };
    if let (Some(from), Some(last)) = (base.def.node.last(), other.def.node.last_mut()) {
        let count = last.input.len().max(1);
        if let Some(i) = last
            .input
            .get_mut(usize::from(input & 0x7f) % count)
            .filter(|_| input & 0x80 == 0)
        {
            *i = from.name.clone();
        }
    }
    base.inits.extend(longer(other.inits));
    base.feeds.extend(
        other
            .feeds
            .into_iter()
            .map(|(name, t)| (format!("{prefix}{name}"), t)),
    );
    base.def.node.append(&mut other.def.node);
    base.def.library = other.def.library.or(base.def.library.take());
    base.steps.extend(other.steps.into_iter().map(longer));
}

/// Fetches a node in the first step, or in a step of its own.
fn ask(base: &mut Base, at: usize, how: u8, registry: &Registry) {
    let node = &base.def.node[at];
    let Some(op) = registry.get(&node.op) else {
        return;
    };
    let names = fetches_of(node, op);
    match base.steps.first_mut() {
        Some(first) if how & 1 == 0 => first.extend(names),
        _ => base.steps.push(names),
    }
}

/// Feeds an output of any node.
fn feed(base: &mut Base, at: usize, [output, dims, from, dtype]: [u8; 4], registry: &Registry) {
    let node = &base.def.node[at];
    let Some(op) = registry.get(&node.op) else {
        return;
    };
    let all = outputs(op, node);
    let output = usize::from(output) % all.len().max(1);
    let dtype = match dtype {
        0..224 => all.get(output).copied().unwrap_or(DType::F32),
        _ => DType::ALL[usize::from(dtype) % DType::ALL.len()],
    };
    let dims: Vec<usize> = (0..dims % 5).map(|k| usize::from(dims >> k & 3)).collect();
    if let Some(t) = values::small(dtype, &dims, from) {
        base.feeds.insert(
            if output == 0 {
                node.name.clone()
            } else {
                format!("{}:{output}", node.name)
            },
            t,
        );
    }
}

/// Adds a control dependency, or removes or repeats an input.
fn wait(base: &mut Base, at: usize, from: u8, how: u8) {
    let count = base.def.node.len();
    let name = base.def.node[count - 1 - usize::from(from) % count]
        .name
        .clone();
    let inputs = &mut base.def.node[at].input;
    match how % 4 {
        0 => drop(inputs.pop()),
        1 => inputs.extend(inputs.first().cloned().filter(|i| !i.starts_with('^'))),
        _ => inputs.push(format!("^{name}")),
    }
}

/// Gives a node an attribute that it may not have: an empty list, or one that only runtimes set.
fn lists(def: &mut NodeDef, which: u8, value: u8) {
    let name = [
        "_class",
        "_output_shapes",
        "shared_name",
        "container",
        "T",
        "N",
        "dtype",
        "shape",
    ][usize::from(which % 8)];
    let other = AttrValue {
        value: Some(other_kind(which / 8, value)),
    };
    def.attr.insert(name.to_owned(), other);
    if def.op.is_empty() {
        *def = node(&def.name, "NoOp", &[], &[]);
    }
}
