//! Kernels of nodes that only the planner makes, watched: `batch_norm_fusion.rs` compares their values.

use thalweg::device::{Body, Cpu, DeviceType, Op, Operand, Prepare};
use thalweg::graph::check::check_node;
use thalweg::graph::node::Origin;
use thalweg::graph::{Attr, Attrs, Fact, Node};
use thalweg::ops::fused::{FUSED_BATCH_NORM_EX, FUSED_BATCH_NORM_GRAD_EX, RELU_GRAD_SUM};
use thalweg_tensor::Tensor;
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
    let node = node(op, inputs, attrs);
    let kernel = op.kernels.iter().find_map(|k| match k.body {
        Body::Launch(launches) if k.takes(DeviceType::Gpu, &node) => Some(launches),
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
        node: &node,
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
}
