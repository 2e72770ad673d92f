//! Fusion of consecutive elementwise ops into a chain, which runs in one pass.

use smallvec::SmallVec;
use thalweg_device::{Kernel, Operand, Prepare};
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::known;
use thalweg_graph::{Attr, Attrs, Fact, Node, NodeId, OutputId};
use thalweg_tensor::DType;

use thalweg_ops::fused::MEMBERS;
use thalweg_ops::fused::chain::{
    ARGS, CHAIN, DTYPE, InputKind, OPS, elementwise, member_attr, prepare,
};

use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// Number of elements from which on a chain is worth it: smaller values stay in a cache from one op to the next.
const MIN_ELEMENTS: usize = 16 * 1024;
/// Maximum number of ops of a chain.
const MAX_OPS: usize = 64;
/// Dtypes of elements: kernels of integers can fail, and an error would have to name the op of the chain.
const DTYPES: &[DType] = &[DType::F16, DType::BF16, DType::F32, DType::F64, DType::Bool];

/// Finds chains: elementwise ops whose inner values nothing else uses.
pub(super) fn found(graph: &Rewriter<'_>) -> Vec<Replacement> {
    // By node: the number of its chain.
    let mut chain: Vec<Option<usize>> = vec![None; graph.len()];
    // The nodes of each chain, the last one first.
    let mut chains: Vec<Vec<NodeId>> = Vec::new();
    for id in graph.ids().into_iter().rev() {
        if link(graph, id).is_none() {
            continue;
        }
        let of = |id: NodeId| chain[id.index()];
        let joined = graph.users(id).first().and_then(|&user| of(user));
        let joined = joined.filter(|&number| {
            let (last, members) = (chains[number][0], chains[number].len());
            let inside = graph.users(id).iter().all(|&user| of(user) == Some(number));
            let alike =
                graph.dims(first(id)) == graph.dims(first(last)) && graph.together(id, last);
            let may = members < MAX_OPS && inside && alike && graph.is_free(id);
            may && keeps_memory(graph, id, last, &|n| of(n) == Some(number))
        });
        let number = joined.unwrap_or_else(|| {
            chains.push(Vec::new());
            chains.len() - 1
        });
        chain[id.index()] = Some(number);
        chains[number].push(id);
    }
    let chains = chains.into_iter().filter(|c| c.len() > 1);
    let replacement = |mut members: Vec<NodeId>| {
        members.reverse();
        replacement(graph, &members)
    };
    chains.filter_map(replacement).collect()
}

fn first(node: NodeId) -> OutputId {
    OutputId { node, index: 0 }
}

/// Returns the kernel of a node that may be in a chain.
fn link(graph: &Rewriter<'_>, id: NodeId) -> Option<&'static Kernel> {
    let node = graph.node(id)?;
    let [output] = &node.outputs[..] else {
        return None;
    };
    let dims = output.shape.to_dims()?;
    let large = thalweg_tensor::shape::checked_elements(&dims)? >= MIN_ELEMENTS;
    if !large || node.op.effect != Effect::Pure || known(node) || !DTYPES.contains(&output.dtype) {
        return None;
    }
    let operand = |(i, input): (usize, &OutputId)| {
        let fact = graph.fact(*input)?;
        let dims = fact.shape.to_dims()?;
        let plain = DTYPES.contains(&fact.dtype) && !node.is_host_input(i) && !fact.reference;
        (plain && InputKind::of(&dims, &output.shape.to_dims()?).is_some()).then_some(Operand {
            dtype: fact.dtype,
            dims,
            value: None,
        })
    };
    let inputs: Option<SmallVec<[Operand; 4]>> =
        node.inputs.iter().enumerate().map(operand).collect();
    let inputs = inputs.filter(|i| !i.is_empty())?;
    let own = Operand {
        dtype: output.dtype,
        dims,
        value: None,
    };
    let (kernel, _) = elementwise(graph.cpu(id)?, graph.op(node)?, node, &inputs, own)?;
    Some(kernel)
}

/// `true` if a node can run as late as the last of its chain without more values being kept: it uses one large value,
/// of no more bytes, in place of the one that it would have made, or everything between is of the chain. A variable's
/// value is not kept: an update between would have to copy it.
fn keeps_memory(
    graph: &Rewriter<'_>,
    id: NodeId,
    last: NodeId,
    inside: &dyn Fn(NodeId) -> bool,
) -> bool {
    let Some(node) = graph.node(id) else {
        return false;
    };
    let own = graph.dims(first(id));
    let large = || node.inputs.iter().filter(|&&i| graph.dims(i) == own);
    let size = node.outputs[0].dtype.size();
    let small = |i: &OutputId| {
        let wide = graph.fact(*i).is_none_or(|f| f.dtype.size() > size);
        let read = graph
            .node(i.node)
            .is_none_or(|n| n.op.effect == Effect::Read);
        !wide && !read
    };
    let nothing = |j: usize| {
        let between = graph.id(j);
        inside(between) || graph.node(between).is_none_or(|n| known(n))
    };
    let between = id.index() + 1..last.index();
    (large().count() <= 1 && large().all(small))
        || between.len() <= MAX_OPS && between.into_iter().all(nothing)
}

/// Returns a chain in the place of the last of these nodes, which are in order.
fn replacement(graph: &Rewriter<'_>, members: &[NodeId]) -> Option<Replacement> {
    let last = *members.last()?;
    let end = graph.node(last)?.clone();
    let inside = |o: &OutputId| members.iter().position(|&m| m == o.node);
    let mut inputs: Vec<OutputId> = Vec::new();
    for &member in members {
        for input in &graph.node(member)?.inputs {
            if inside(input).is_none() && !inputs.contains(input) {
                inputs.push(*input);
            }
        }
    }
    // The chain may be in place of its first input: one that the last op does not read, or may be in place of itself;
    // or one that the output does not fit.
    let kernel = link(graph, last)?;
    let own = &end.outputs[0];
    let fits = |o: &OutputId| {
        let fact = graph.fact(*o);
        fact.is_some_and(|f| f.dtype == own.dtype && f.shape == own.shape)
    };
    let may = |o: &&OutputId| {
        let at: SmallVec<[usize; 2]> = (0..end.inputs.len())
            .filter(|&i| end.inputs[i] == **o)
            .collect();
        match at[..] {
            [] => true,
            [i] => kernel.in_place.contains(&(i, 0)),
            _ => false,
        }
    };
    // A variable's value and a constant keep their memory: another input is better to be overwritten.
    let passes = |o: &OutputId| {
        let node = graph.node(o.node);
        node.is_some_and(|n| n.op.effect != Effect::Read && !n.inputs.is_empty())
    };
    let may_be = |o: &OutputId| fits(o) && may(&o);
    let leading = inputs.iter().position(|o| may_be(o) && passes(o));
    let leading = leading.or_else(|| inputs.iter().position(may_be));
    let leading = leading.or_else(|| inputs.iter().position(|o| !fits(o)))?;
    inputs.swap(0, leading);
    let (mut ops, mut attrs) = (Vec::with_capacity(members.len()), Attrs::default());
    for &member in members {
        let node = graph.node(member)?;
        let from = |o: &OutputId| match inside(o) {
            Some(before) => -1 - before as i64,
            None => inputs.iter().position(|i| i == o).map_or(0, |i| i as i64),
        };
        let number = ops.len();
        for (name, value) in node.attrs.iter() {
            attrs.set(member_attr(number, name), value.clone());
        }
        let args = node.inputs.iter().map(from).collect();
        attrs.set(member_attr(number, ARGS), Attr::Ints(args));
        attrs.set(member_attr(number, DTYPE), node.outputs[0].dtype.into());
        ops.push(node.op.name.as_bytes().to_vec());
    }
    let dtypes: Option<Vec<DType>> = inputs.iter().map(|&i| Some(graph.fact(i)?.dtype)).collect();
    attrs.set("Tin", Attr::Types(dtypes?));
    attrs.set("T", own.dtype.into());
    attrs.set(OPS, Attr::Strs(ops));
    attrs.set(MEMBERS, graph.names(members.iter().copied()));
    let operand = |fact: &Fact| {
        Some(Operand {
            dtype: fact.dtype,
            dims: fact.shape.to_dims()?,
            value: None,
        })
    };
    let operands: Option<Vec<Operand>> = inputs.iter().map(|&i| operand(graph.fact(i)?)).collect();
    let chain = Node {
        op: &CHAIN.def,
        inputs: inputs.into_iter().collect(),
        attrs,
        ..(*end).clone()
    };
    // An op that is elementwise as a whole need not be so in pieces.
    prepare(&Prepare {
        cpu: graph.cpu(last)?,
        node: &chain,
        inputs: &operands?,
        outputs: &[operand(own)?],
    })
    .ok()?;
    let others = members[..members.len() - 1].iter().copied();
    Some(Replacement::one(last, chain, others))
}
