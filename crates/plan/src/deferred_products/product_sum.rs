//! Sums of products that a loop carries.

use smallvec::SmallVec;
use thalweg_graph::{Function, GraphData, NodeId, OutputId};
use thalweg_tensor::{DType, Shape};

/// The ops that take a value from a stack, each value once.
const POPS: [&str; 2] = ["StackPopV2", "TensorListPopBack"];
/// The ops that add two values.
const SUMS: [&str; 3] = ["Add", "AddV2", "AddN"];
/// The fewest elements of a sum, by estimate: to push two values takes some microseconds.
const MIN_ELEMENTS: usize = 4096;
/// The most columns of an operand that comes from no stack, in columns of the other one.
const MAX_GROWTH: usize = 4;

/// A sum of products that a loop carries.
pub(super) struct ProductSum {
    /// The number of the value that is carried.
    pub(super) index: usize,
    /// The node of the body that adds a product.
    pub(super) sum: NodeId,
    /// The product.
    pub(super) product: NodeId,
    pub(super) dtype: DType,
    /// The operands of the product, and the number of columns of each.
    pub(super) operands: [(OutputId, usize); 2],
}

/// The most Identity nodes that are looked through.
const MAX_IDENTITIES: usize = 8;

/// The output that one behind Identity nodes passes on.
fn source(graph: &GraphData, mut output: OutputId) -> OutputId {
    for _ in 0..MAX_IDENTITIES {
        let node = graph.node(output.node);
        match node.inputs.first() {
            Some(&input) if node.op.name == "Identity" => output = input,
            _ => break,
        }
    }
    output
}

impl ProductSum {
    /// The value of this number that a loop carries, if it is such a sum; `initial` is its shape before the loop.
    pub(super) fn find(
        [condition, body]: [&Function; 2],
        index: usize,
        initial: &Shape,
    ) -> Option<ProductSum> {
        let graph = &body.body;
        let before = argument(body, index)?;
        let after = source(graph, *body.outputs.get(index)?);
        let sum = graph.node(after.node);
        let at = (sum.inputs.iter()).position(|&i| source(graph, i) == before)?;
        let added = *sum.inputs.get(1 - at.min(1))?;
        let product = graph.node(added.node);
        let is_sum = SUMS.contains(&sum.op.name) && sum.inputs.len() == 2 && added != before;
        let is_product = product.op.name == "MatMul"
            && product.attrs.bool("transpose_a")
            && !product.attrs.bool("transpose_b");
        let waits = !sum.controls.is_empty() || !product.controls.is_empty();
        if !is_sum || !is_product || waits {
            return None;
        }
        // A gradient has the shape of its weight. A sum with dimensions of one could grow to that of a product.
        let dims = initial.to_dims().filter(|d| !d.contains(&1))?;
        let [rows, columns] = dims[..] else {
            return None;
        };
        let operands = [(product.inputs[0], rows), (product.inputs[1], columns)];
        let popped = operands.map(|(o, _)| {
            let mut from = graph.node(source(graph, o).node);
            if from.op.name == "EnsureShape" {
                from = graph.node(source(graph, from.inputs[0]).node);
            }
            POPS.contains(&from.op.name)
        });
        let grows = |i: usize| !popped[i] && operands[i].1 > MAX_GROWTH * operands[1 - i].1;
        let fits = popped.contains(&true) && !grows(0) && !grows(1);
        let large = rows.saturating_mul(columns) >= MIN_ELEMENTS;
        let dtype = sum.outputs.first()?.dtype;
        let found = ProductSum {
            index,
            sum: after.node,
            product: added.node,
            dtype,
            operands,
        };
        let moves = fits && large && dtype.is_float() && found.is_alone(condition, body);
        moves.then_some(found)
    }

    /// `true` if nothing else uses the sum in an iteration, nor the product.
    fn is_alone(&self, condition: &Function, body: &Function) -> bool {
        let graph = &body.body;
        let (before, tested) = (argument(body, self.index), argument(condition, self.index));
        let (Some(before), Some(tested)) = (before, tested) else {
            return false;
        };
        // The only user of a value, behind Identity nodes.
        let only = |mut of: NodeId, user: NodeId| {
            for _ in 0..=MAX_IDENTITIES {
                match graph.consumers(of).take(2).collect::<SmallVec<[_; 2]>>()[..] {
                    [one] if one == user => return true,
                    [one] if graph.node(one).op.name == "Identity" => of = one,
                    _ => break,
                }
            }
            false
        };
        let after = OutputId {
            node: self.sum,
            index: 0,
        };
        let passed_on = |n: NodeId| {
            let ends = graph.consumers(n).next().is_none();
            graph.node(n).op.name == "Identity" && ends
        };
        let results: Vec<OutputId> = body.outputs.iter().map(|&o| source(graph, o)).collect();
        only(before.node, self.sum)
            && only(self.product, self.sum)
            && graph.consumers(self.sum).all(passed_on)
            && results.iter().filter(|&&o| o == after).count() == 1
            && !results.contains(&before)
            && condition.body.consumers(tested.node).next().is_none()
            && !condition.outputs.contains(&tested)
    }
}

/// The output that stands for an argument of a function.
pub(super) fn argument(function: &Function, index: usize) -> Option<OutputId> {
    let node = *function.inputs.get(index)?;
    Some(OutputId { node, index: 0 })
}
