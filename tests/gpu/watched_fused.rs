//! Kernels of nodes that only the planner makes, watched: `batch_norm_fusion.rs` and `pool_fusion.rs` compare
//! their values.

use thalweg::device::{Body, Cpu, DeviceType, Op, Operand, Prepare};
use thalweg::graph::check::check_node;
use thalweg::graph::node::Origin;
use thalweg::graph::{Attr, Attrs, Fact, Node};
use thalweg::ops::fused::{
    FUSED_BATCH_NORM_EX, FUSED_BATCH_NORM_GRAD_EX, MAX_POOL_GRAD_STORED_ARGMAX,
    MAX_POOL_STORE_ARGMAX, RELU_GRAD_SUM,
};
use thalweg_tensor::{DType, Shape, Tensor};
use thalweg_tests::emulated::{Checks, Emulated, has_compiler};
use thalweg_tests::large_cases::batch_norm_inputs;

/// A node of an op with these inputs.
fn node(op: &'static Op, inputs: &[Tensor], attrs: &[(&'static str, Attr)]) -> Node {
    let facts: Vec<Fact> = (inputs.iter())
        .map(|t| Fact::new(t.dtype(), t.shape()))
        .collect();
    let mut given = Attrs::default();
    for (name, value) in attrs {
        given.set(*name, value.clone());
    }
    let (attrs, outputs) = check_node(&op.def, &facts, given).unwrap();
    Node {
        name: op.def.name.to_owned(),
        op: &op.def,
        inputs: Default::default(),
        controls: Default::default(),
        attrs,
        device: Default::default(),
        colocation: Default::default(),
        outputs,
        origin: Origin::Other("a test".into()),
    }
}

fn watch(emulated: &Emulated, op: &'static Op, inputs: &[Tensor], attrs: &[(&'static str, Attr)]) {
    watch_node(emulated, op, &node(op, inputs, attrs), inputs);
}

fn watch_node(emulated: &Emulated, op: &'static Op, node: &Node, inputs: &[Tensor]) {
    let kernel = op.kernels.iter().find_map(|k| match k.body {
        Body::Launch(launches) if k.takes(DeviceType::Gpu, node) => Some(launches),
        _ => None,
    });
    let operand = |dtype, dims: &[usize]| Operand {
        dtype,
        dims: dims.into(),
        value: None,
    };
    let from: Vec<Operand> = (inputs.iter())
        .map(|t| operand(t.dtype(), t.dims()))
        .collect();
    let dims = |f: &Fact| f.shape.to_dims().unwrap();
    let to: Vec<Operand> = (node.outputs.iter())
        .map(|f| operand(f.dtype, &dims(f)))
        .collect();
    let prepare = Prepare {
        cpu: &Cpu::new(1),
        node,
        inputs: &from,
        outputs: &to,
    };
    let launches = kernel.expect(op.def.name)(&prepare).unwrap();
    let memory = |o: &Operand| {
        let bytes = vec![0; o.elements() * o.dtype.size()];
        Tensor::from_bytes(o.dtype, &o.dims, &bytes).unwrap()
    };
    let outputs: Vec<Tensor> = to.iter().map(memory).collect();
    let found = emulated.run_launches(&launches, inputs, &outputs);
    found.unwrap_or_else(|e| panic!("{} of {}: {e}", op.def.name, from[0].dtype));
}

#[test]
fn fused_nodes_access_no_memory_but_theirs() {
    if !has_compiler() {
        return;
    }
    let emulated = Emulated::new(Checks::Watched);
    for [forward, mut gradient] in batch_norm_inputs() {
        let (x, offset) = (forward[0].clone(), forward[2].clone());
        for sides in [0, 1] {
            let mut inputs = forward.clone();
            inputs.extend((0..sides).map(|_| x.clone()));
            let attrs = [
                ("num_side_inputs", Attr::Int(sides)),
                ("activation_mode", Attr::Str("Relu".to_owned())),
            ];
            watch(&emulated, &FUSED_BATCH_NORM_EX, &inputs, &attrs);
        }
        gradient.push(offset);
        watch(&emulated, &FUSED_BATCH_NORM_GRAD_EX, &gradient, &[]);
        watch(&emulated, &RELU_GRAD_SUM, &[x.clone(), x.clone(), x], &[]);
    }
    watch_poolings(&emulated);
}

/// Watches max poolings of whole packs and of single elements; with windows that are cut off at the edge, too.
fn watch_poolings(emulated: &Emulated) {
    for (channels, dtype) in [(16, DType::F16), (8, DType::F32), (3, DType::BF16)] {
        for (size, stride, padding) in [(3, 2, "SAME"), (2, 2, "VALID")] {
            let window = |n: i64| Attr::Ints(vec![1, n, n, 1]);
            let attrs = [
                ("ksize", window(size)),
                ("strides", window(stride)),
                ("padding", Attr::Str(padding.to_owned())),
            ];
            let zeros = |dtype, dims: &[usize]| Tensor::zeros(dtype, dims).unwrap();
            let images = [2, 7, 6, channels];
            let pooled = match size {
                3 => [2, 4, 3, channels],
                _ => [2, 3, 3, channels],
            };
            let fact = |dtype, dims: &[usize]| Fact::new(dtype, Shape::known(dims));
            let x = [zeros(dtype, &images)];
            let mut forward = node(&MAX_POOL_STORE_ARGMAX, &x, &attrs);
            forward.outputs =
                FromIterator::from_iter([fact(dtype, &pooled), fact(DType::U8, &pooled)]);
            watch_node(emulated, &MAX_POOL_STORE_ARGMAX, &forward, &x);
            let dy = [zeros(dtype, &pooled), zeros(DType::U8, &pooled)];
            let mut gradient = node(&MAX_POOL_GRAD_STORED_ARGMAX, &dy, &attrs);
            gradient.outputs = FromIterator::from_iter([fact(dtype, &images)]);
            watch_node(emulated, &MAX_POOL_GRAD_STORED_ARGMAX, &gradient, &dy);
        }
    }
}
