//! Work of a node: floating-point operations, and bytes of memory that it reads and writes.

use std::ops::{Add, AddAssign};

use thalweg_graph::op::Effect;
use thalweg_graph::{Attr, Fact, GraphData, Node};

use crate::cluster::DeviceSpeed;

/// Work of a node or of several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeCost {
    /// Floating-point operations of matrix products and convolutions: two for each product of two numbers.
    pub flops: f64,
    /// Bytes of inputs and outputs.
    pub bytes: f64,
}

impl Add for NodeCost {
    type Output = NodeCost;

    fn add(self, other: NodeCost) -> NodeCost {
        NodeCost {
            flops: self.flops + other.flops,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl AddAssign for NodeCost {
    fn add_assign(&mut self, other: NodeCost) {
        *self = *self + other;
    }
}

impl NodeCost {
    /// Seconds on a device: the operations at its speed, and then the bytes at its bandwidth.
    pub fn seconds(&self, device: &DeviceSpeed) -> f64 {
        self.flops / device.flops + self.bytes / device.bandwidth
    }

    /// Work of a node of a graph whose shapes are known; unknown dimensions count as nothing.
    ///
    /// ```
    /// use thalweg_graph::Graph;
    /// use thalweg_ops::{LinalgOps, NewGraph, SourceOps};
    /// use thalweg_simulate::NodeCost;
    /// use thalweg_tensor::DType;
    ///
    /// let g = Graph::new();
    /// let a = g.placeholder("a", DType::F32, [2, 3]);
    /// let b = g.placeholder("b", DType::F32, [3, 5]);
    /// let product = a.matmul(b);
    /// let data = g.snapshot();
    /// let cost = NodeCost::of(&data, data.node(product.id().node));
    /// assert_eq!((cost.flops, cost.bytes), (2.0 * 30.0, 4.0 * (6.0 + 15.0 + 10.0)));
    /// ```
    pub fn of(data: &GraphData, node: &Node) -> NodeCost {
        if moves_nothing(node) {
            return NodeCost::default();
        }
        let inputs = node.inputs.iter().filter_map(|&input| data.fact(input));
        let given: Vec<f64> = inputs.map(fact_bytes).collect();
        let made: f64 = node.outputs.iter().map(fact_bytes).sum();
        // An update reads and writes a variable, which is as large as the largest value that it is given.
        let updated = match node.op.effect {
            Effect::Write => 2.0 * given.iter().copied().fold(0.0, f64::max),
            _ => 0.0,
        };
        NodeCost {
            flops: flops(data, node),
            bytes: given.iter().sum::<f64>() + made + updated,
        }
    }
}

/// Bytes of a value; 0 if its shape is not known, or if it is a handle.
pub(super) fn fact_bytes(fact: &Fact) -> f64 {
    fact.shape.elements().unwrap_or(0) as f64 * fact.dtype.size() as f64
}

/// `true` for nodes that hand values on, or have them from the start.
fn moves_nothing(node: &Node) -> bool {
    const NAMES: [&str; 9] = [
        "Const",
        "ExpandDims",
        "Identity",
        "PreventGradient",
        "Reshape",
        "Shape",
        "ShapeN",
        "Squeeze",
        "StopGradient",
    ];
    let effects = [
        Effect::Control,
        Effect::Feed,
        Effect::Handle,
        Effect::Read,
        Effect::Recv,
        Effect::Send,
    ];
    effects.contains(&node.op.effect) || NAMES.contains(&node.op.name)
}

fn flops(data: &GraphData, node: &Node) -> f64 {
    let dims = |fact: &Fact| -> Option<Vec<f64>> {
        let dims = fact.shape.to_dims()?;
        Some(dims.iter().map(|&d| d as f64).collect())
    };
    let input = |at: usize| dims(data.fact(*node.inputs.get(at)?)?);
    let own = || dims(node.outputs.first()?);
    let all = |dims: Vec<f64>| dims.iter().product::<f64>();
    // Products for each element of a result: a filter's window times its input channels.
    let window = |filter: Vec<f64>| match filter.split_last() {
        Some((_, window)) => window.iter().product::<f64>(),
        None => 0.0,
    };
    let is_transposed = |name: &str| node.attrs.get(name) == Some(&Attr::Bool(true));
    let products = match node.op.name {
        "Conv2D" => own().zip(input(1)).map(|(y, f)| all(y) * window(f)),
        "Conv2DBackpropInput" => input(2).zip(input(1)).map(|(y, f)| all(y) * window(f)),
        "Conv2DBackpropFilter" => input(2).zip(own()).map(|(y, f)| all(y) * window(f)),
        "DepthwiseConv2dNative" => own().zip(input(1)).map(|(y, f)| all(y) * f[0] * f[1]),
        "DepthwiseConv2dNativeBackpropInput" => {
            input(2).zip(input(1)).map(|(y, f)| all(y) * f[0] * f[1])
        }
        "DepthwiseConv2dNativeBackpropFilter" => {
            input(2).zip(own()).map(|(y, f)| all(y) * f[0] * f[1])
        }
        "MatMul" => own().zip(input(0)).map(|(y, a)| {
            let common = usize::from(!is_transposed("transpose_a"));
            all(y) * a.get(common).copied().unwrap_or(0.0)
        }),
        "BatchMatMul" | "BatchMatMulV2" => own().zip(input(0)).map(|(y, a)| {
            let from_end = if is_transposed("adj_x") { 2 } else { 1 };
            let common = a.len().checked_sub(from_end).map_or(0.0, |at| a[at]);
            all(y) * common
        }),
        _ => None,
    };
    2.0 * products.unwrap_or(0.0)
}
