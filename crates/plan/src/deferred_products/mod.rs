//! Sums of products over the iterations of a loop, computed as one product after the loop.
//!
//! The gradient of a weight that a loop uses is a sum over its iterations: `sum + MatMul(a, b, transpose_a)`, where one
//! operand comes from a stack. Such a loop collects the rows of both operands in lists, and one product of all rows follows
//! it: no iteration reads and writes the sum. The rows lie in memory until then. They take at most four times
//! as much as the other operand's, which the stack has held.

mod product_sum;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_device::Device;
use thalweg_graph::function::{Port, argument_node};
use thalweg_graph::op::{Calls, LIVE_OUTPUTS};
use thalweg_graph::simplify::Simplified;
use thalweg_graph::{Attr, Attrs, Fact, Func, Function, GraphData, Node, NodeId, OpDef, OutputId};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::checked_node::checked_node;
use crate::kernels::Kernels;
use crate::request::PlanContext;
use product_sum::{ProductSum, argument};

/// The most values of a loop that is looked at: each is compared with all results.
const MAX_CARRIED: usize = 1024;
/// The operands of a product, in names.
const SIDES: [&str; 2] = ["a", "b"];

/// The ops that take the place of a sum in a loop, on lists of rows.
struct ListOps {
    constant: &'static OpDef,
    empty: &'static OpDef,
    push: &'static OpDef,
    concat: &'static OpDef,
    product: &'static OpDef,
    add: &'static OpDef,
}

impl ListOps {
    fn new(kernels: &Kernels) -> Option<ListOps> {
        let find = |name: &str| kernels.get(name).map(|op| &op.def);
        Some(ListOps {
            constant: find("Const")?,
            empty: find("EmptyTensorList")?,
            push: find("TensorListPushBack")?,
            concat: find("TensorListConcatV2")?,
            product: find("MatMul")?,
            add: find("AddV2")?,
        })
    }
}

/// Moves the products out of the loops on CPUs.
pub(crate) fn defer_products(simplified: Simplified, context: PlanContext<'_>) -> Simplified {
    deferred(&simplified, context).unwrap_or(simplified)
}

/// The graph with the products after the loops; `None` if there are none.
fn deferred(simplified: &Simplified, context: PlanContext<'_>) -> Option<Simplified> {
    let on_cpu = |id: NodeId| {
        let device = context.devices.get(simplified.devices[id.index()] as usize);
        matches!(device, Some(Device::Cpu(_)))
    };
    let graph = &simplified.graph;
    let found: FxHashMap<NodeId, Vec<ProductSum>> = graph
        .nodes()
        .filter(|(id, node)| node.op.calls == Calls::Loop && on_cpu(*id))
        .filter_map(|(id, node)| Some((id, sums(graph, node)?)))
        .filter(|(_, sums)| !sums.is_empty())
        .collect();
    // A part of a step that comes from another task may be in another order.
    let ascends = |(id, node): (NodeId, &Arc<Node>)| {
        let inputs = node.inputs.iter().map(|i| i.node);
        inputs.chain(node.controls.iter().copied()).all(|n| n < id)
    };
    if found.is_empty() || !graph.nodes().all(ascends) {
        return None;
    }
    let mut rewriter = LoopRewriter {
        ops: ListOps::new(context.kernels)?,
        out: graph.empty(),
        devices: Vec::with_capacity(simplified.devices.len()),
        device: 0,
        nodes: Vec::with_capacity(graph.len()),
        sums: FxHashMap::default(),
    };
    for (id, node) in graph.nodes() {
        rewriter.device = simplified.devices[id.index()];
        let mut node = Node::clone(node);
        node.inputs.iter_mut().for_each(|i| *i = rewriter.value(*i));
        (node.controls.iter_mut()).for_each(|c| *c = rewriter.nodes[c.index()]);
        let sums = found.get(&id).map_or(&[][..], |sums| sums);
        rewriter.add(id, node, sums)?;
    }
    let node = |n: &NodeId| rewriter.nodes[n.index()];
    Some(Simplified {
        feeds: (simplified.feeds.iter())
            .map(|f| f.as_ref().map(node))
            .collect(),
        fetches: simplified
            .fetches
            .iter()
            .map(|f| rewriter.value(*f))
            .collect(),
        targets: simplified.targets.iter().map(node).collect(),
        devices: rewriter.devices,
        graph: rewriter.out,
    })
}

/// The functions of a loop: its condition and its body.
fn functions<'g>(graph: &'g GraphData, node: &Node) -> Option<[&'g Function; 2]> {
    let function = |name| Some(&**graph.function(&node.attrs.func(name)?.name)?);
    Some([function("cond")?, function("body")?])
}

/// The sums of products of a loop; `None` for a loop that is not looked at.
fn sums(graph: &GraphData, node: &Node) -> Option<Vec<ProductSum>> {
    if node.inputs.len() > MAX_CARRIED {
        return None;
    }
    let functions = functions(graph, node)?;
    let sum = |(index, input): (usize, &OutputId)| {
        let initial = &graph.fact(*input)?.shape;
        let live = node.attrs.is_live(index);
        live.then(|| ProductSum::find(functions, index, initial))?
    };
    Some(node.inputs.iter().enumerate().filter_map(sum).collect())
}

/// A graph under construction.
struct LoopRewriter {
    ops: ListOps,
    out: GraphData,
    devices: Vec<u32>,
    /// The device of the next nodes.
    device: u32,
    /// By node of the old graph: its copy.
    nodes: Vec<NodeId>,
    /// By result of a loop in the old graph: the sum that follows the loop.
    sums: FxHashMap<OutputId, OutputId>,
}

impl LoopRewriter {
    /// The output that stands for one of the old graph.
    fn value(&self, old: OutputId) -> OutputId {
        let node = self.nodes[old.node.index()];
        let same = OutputId { node, ..old };
        self.sums.get(&old).copied().unwrap_or(same)
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.devices.push(self.device);
        self.out.push(node)
    }

    /// Adds the copy of a node; of a loop with these sums, with the products after it.
    fn add(&mut self, old: NodeId, node: Node, sums: &[ProductSum]) -> Option<()> {
        let looped = match sums {
            [] => node.clone(),
            sums => self.with_lists(&node, sums)?,
        };
        let id = self.push(looped);
        self.nodes.push(id);
        for (number, sum) in sums.iter().enumerate() {
            let first = node.inputs.len() + 2 * number;
            let lists = [first, first + 1].map(|index| OutputId {
                node: id,
                index: index as u32,
            });
            let total = self.product(sum, lists, node.inputs[sum.index], id)?;
            let index = sum.index as u32;
            self.sums.insert(OutputId { node: old, index }, total);
        }
        Some(())
    }

    /// The loop with two lists more for each sum, in place of the sum. Both functions are defined.
    fn with_lists(&mut self, node: &Node, sums: &[ProductSum]) -> Option<Node> {
        let [condition, body] = functions(&self.out, node)?;
        let name = |f: &Function| format!("{}:{}", f.name, node.name);
        let names = [name(condition), name(body)];
        let mut condition = Function {
            name: names[0].clone(),
            ..condition.clone()
        };
        let mut body = Function {
            name: names[1].clone(),
            ..body.clone()
        };
        condition.drop_argument_attrs();
        body.drop_argument_attrs();
        let mut changed = node.clone();
        for sum in sums {
            let product = body.body.node(sum.product).clone();
            for (side, (operand, columns)) in SIDES.into_iter().zip(sum.operands) {
                let name = format!("{}/{side}", product.name);
                push_argument(&mut condition, &name, node);
                self.collect_rows(&mut body, sum, &name, operand)?;
                changed
                    .inputs
                    .push(self.empty_list(&name, columns, sum.dtype, &product)?);
                changed.outputs.push(list_fact());
            }
            // The sum stays as it was before the loop.
            body.outputs[sum.index] = argument(&body, sum.index)?;
        }
        extend(&mut changed.attrs, node.inputs.len(), 2 * sums.len());
        changed
            .attrs
            .set("cond", Attr::Func(Func::named(&names[0])));
        changed
            .attrs
            .set("body", Attr::Func(Func::named(&names[1])));
        self.out.define(condition);
        self.out.define(body);
        Some(changed)
    }

    /// Makes a body push the rows of an operand to a list of this name, which it takes and gives.
    fn collect_rows(
        &self,
        body: &mut Function,
        sum: &ProductSum,
        name: &str,
        operand: OutputId,
    ) -> Option<()> {
        let product = body.body.node(sum.product).clone();
        let list = push_argument(body, name, &product);
        let (inputs, name) = ([list, operand], format!("{name}/push"));
        let attrs = element(sum.dtype);
        let pushed = checked_node(&body.body, self.ops.push, name, &inputs, attrs, &product)?;
        let node = body.body.push(pushed);
        body.results.push(body.arguments.last()?.clone());
        body.outputs.push(OutputId { node, index: 0 });
        for (_, run) in body.controls.iter_mut().filter(|(_, n)| *n == sum.sum) {
            *run = node;
        }
        Some(())
    }

    /// An empty list of rows with these columns.
    fn empty_list(
        &mut self,
        name: &str,
        columns: usize,
        dtype: DType,
        like: &Node,
    ) -> Option<OutputId> {
        let shape = self.row_shape(name, columns, like)?;
        let any = self.constant(format!("{name}/max"), Tensor::scalar(-1i32), like)?;
        let inputs = [shape, any];
        self.op(
            self.ops.empty,
            format!("{name}/rows"),
            &inputs,
            element(dtype),
            like,
        )
    }

    /// The shape of any number of rows.
    fn row_shape(&mut self, name: &str, columns: usize, like: &Node) -> Option<OutputId> {
        let shape = Tensor::vector(&[-1, i64::try_from(columns).ok()?]);
        self.constant(format!("{name}/shape"), shape, like)
    }

    /// The sum of a value and the product of all rows in two lists; the loop has run the body.
    fn product(
        &mut self,
        sum: &ProductSum,
        lists: [OutputId; 2],
        initial: OutputId,
        looped: NodeId,
    ) -> Option<OutputId> {
        let body = functions(&self.out, self.out.node(looped))?[1];
        let [add, product] = [sum.sum, sum.product].map(|n| body.body.node(n).clone());
        let mut rows: SmallVec<[OutputId; 2]> = SmallVec::new();
        for ((list, side), (_, columns)) in lists.into_iter().zip(SIDES).zip(sum.operands) {
            let name = format!("{}/{side}/all", product.name);
            let shape = self.row_shape(&name, columns, &product)?;
            let lengths = Tensor::vector::<i64>(&[]);
            let lengths = self.constant(format!("{name}/lengths"), lengths, &product)?;
            let (inputs, attrs) = ([list, shape, lengths], element(sum.dtype));
            let mut node =
                checked_node(&self.out, self.ops.concat, name, &inputs, attrs, &product)?;
            node.outputs[0].shape = Shape::partial([None, Some(columns)]);
            let node = self.push(node);
            rows.push(OutputId { node, index: 0 });
        }
        let (name, attrs) = (product.name.clone(), product.attrs.clone());
        let value = self.op(self.ops.product, name, &rows, attrs, &product)?;
        let (name, inputs) = (add.name.clone(), [initial, value]);
        self.op(self.ops.add, name, &inputs, Attrs::default(), &add)
    }

    fn constant(&mut self, name: String, value: Tensor, like: &Node) -> Option<OutputId> {
        let mut attrs = Attrs::default();
        attrs.set("dtype", Attr::Type(value.dtype()));
        attrs.set("value", Attr::Tensor(value));
        self.op(self.ops.constant, name, &[], attrs, like)
    }

    fn op(
        &mut self,
        op: &'static OpDef,
        name: String,
        inputs: &[OutputId],
        attrs: Attrs,
        like: &Node,
    ) -> Option<OutputId> {
        let node = checked_node(&self.out, op, name, inputs, attrs, like)?;
        let node = self.push(node);
        Some(OutputId { node, index: 0 })
    }
}

/// Attributes of a list op: the dtype of the elements.
fn element(dtype: DType) -> Attrs {
    let mut attrs = Attrs::default();
    attrs.set("element_dtype", Attr::Type(dtype));
    attrs
}

/// Adds an argument that is a list.
fn push_argument(function: &mut Function, name: &str, like: &Node) -> OutputId {
    let (index, list) = (function.arguments.len(), list_fact());
    let node = argument_node(name.to_owned(), index, list, like.origin.clone());
    let node = function.body.push(node);
    function.inputs.push(node);
    function.arguments.push(Port {
        name: name.to_owned(),
        dtype: DType::Variant,
    });
    OutputId { node, index: 0 }
}

fn list_fact() -> Fact {
    Fact::new(DType::Variant, Shape::scalar())
}

/// Extends the attributes of a loop over `carried` values by `lists` lists.
fn extend(attrs: &mut Attrs, carried: usize, lists: usize) {
    for (name, attr) in attrs.clone().iter() {
        let new = match attr {
            Attr::Types(types) if name == "T" => {
                let mut types = types.clone();
                types.resize(carried + lists, DType::Variant);
                Attr::Types(types)
            }
            Attr::Shapes(shapes) if shapes.len() == carried => {
                let mut shapes = shapes.clone();
                shapes.resize(carried + lists, Shape::scalar());
                Attr::Shapes(shapes)
            }
            Attr::Ints(live) if name == LIVE_OUTPUTS => {
                let new = carried as i64..(carried + lists) as i64;
                Attr::Ints(live.iter().copied().chain(new).collect())
            }
            _ => continue,
        };
        attrs.set(name.to_owned(), new);
    }
}
