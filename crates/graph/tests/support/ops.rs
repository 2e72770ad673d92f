// A few ops: the graph crate defines none. The examples of its documentation include this file.

use std::sync::Arc;

use smallvec::smallvec;
use thalweg_graph::op::{
    Effect, Gradient, arg, arg_of, args_of, attr, count_attr, float_attr, int_attr, type_attr,
    types_attr,
};
use thalweg_graph::{AttrKind, Graph, InferError, Node, OpDef, Output, Registry};
use thalweg_tensor::{DType, Shape, Tensor};

pub static CONST: OpDef = OpDef {
    name: "Const",
    outputs: &[arg("output", "dtype")],
    attrs: &[
        attr("value", AttrKind::Tensor),
        type_attr("dtype", &DType::ALL),
    ],
    shape: |cx| {
        if let Some(value) = cx.attrs().tensor("value") {
            cx.set_value(0, value.clone());
        }
        Ok(())
    },
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

pub static PLACEHOLDER: OpDef = OpDef {
    name: "Placeholder",
    outputs: &[arg("output", "dtype")],
    attrs: &[
        type_attr("dtype", &DType::ALL),
        attr("shape", AttrKind::Shape),
    ],
    shape: |cx| {
        cx.set(0, cx.attrs().shape("shape"));
        Ok(())
    },
    gradient: Gradient::None,
    effect: Effect::Feed,
    ..OpDef::EMPTY
};

pub static IDENTITY: OpDef = OpDef {
    name: "Identity",
    inputs: &[arg("input", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[type_attr("T", &DType::ALL)],
    shape: |cx| {
        cx.set(0, cx.shape(0).clone());
        Ok(())
    },
    gradient: Gradient::Rule(|g| smallvec![Some(g.grad())]),
    same_as: |_| Some(0),
    ..OpDef::EMPTY
};

pub static IDENTITY_N: OpDef = OpDef {
    name: "IdentityN",
    inputs: &[args_of("input", "T")],
    outputs: &[args_of("output", "T")],
    attrs: &[types_attr("T")],
    shape: |cx| {
        (0..cx.inputs()).for_each(|i| cx.set(i, cx.shape(i).clone()));
        Ok(())
    },
    same_as: |_| Some(0),
    ..OpDef::EMPTY
};

pub static ADD: OpDef = OpDef {
    name: "AddV2",
    inputs: &[arg("x", "T"), arg("y", "T")],
    outputs: &[arg("z", "T")],
    attrs: &[type_attr("T", DType::NUMBERS), float_attr("scale", 1.0)],
    shape: |cx| {
        let shape = cx.shape(0).broadcast(cx.shape(1));
        let (left, right) = (cx.shape(0).clone(), cx.shape(1).clone());
        cx.set(0, shape.ok_or(InferError::Broadcast { left, right })?);
        Ok(())
    },
    gradient: Gradient::Rule(|g| smallvec![Some(g.grad()), Some(g.grad())]),
    ..OpDef::EMPTY
};

/// Two outputs: its input, twice.
pub static TWICE: OpDef = OpDef {
    name: "Twice",
    inputs: &[arg("x", "T")],
    outputs: &[arg("a", "T"), arg("b", "T")],
    attrs: &[type_attr("T", DType::NUMBERS), int_attr("salt", 0)],
    shape: |cx| {
        cx.set(0, cx.shape(0).clone());
        cx.set(1, cx.shape(0).clone());
        Ok(())
    },
    ..OpDef::EMPTY
};

pub static RANDOM: OpDef = OpDef {
    name: "Random",
    outputs: &[arg_of("output", DType::F32)],
    shape: |cx| {
        cx.set(0, Shape::scalar());
        Ok(())
    },
    effect: Effect::Random,
    ..OpDef::EMPTY
};

pub static ONES_LIKE: OpDef = OpDef {
    name: "OnesLike",
    inputs: &[arg("x", "T")],
    outputs: &[arg("y", "T")],
    attrs: &[type_attr("T", DType::NUMBERS)],
    shape: |cx| {
        cx.set(0, cx.shape(0).clone());
        Ok(())
    },
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

pub static MUL: OpDef = OpDef {
    name: "Mul",
    inputs: &[arg("x", "T"), arg("y", "T")],
    outputs: &[arg("z", "T")],
    attrs: &[type_attr("T", DType::NUMBERS)],
    shape: ADD.shape,
    gradient: Gradient::Rule(|g| {
        let (x, y) = (g.input(0), g.input(1));
        smallvec![Some(g.grad() * y), Some(g.grad() * x)]
    }),
    ..OpDef::EMPTY
};

pub static ADD_N: OpDef = OpDef {
    name: "AddN",
    inputs: &[arg("inputs", "T").list("N")],
    outputs: &[arg("sum", "T")],
    attrs: &[count_attr("N"), type_attr("T", DType::NUMBERS)],
    shape: |cx| {
        cx.set(0, cx.shape(0).clone());
        Ok(())
    },
    gradient: Gradient::Rule(|g| (0..g.inputs()).map(|_| Some(g.grad())).collect()),
    ..OpDef::EMPTY
};

pub static SWITCH: OpDef = OpDef {
    name: "Switch",
    inputs: &[arg("data", "T"), arg_of("pred", DType::Bool)],
    outputs: &[arg("output_false", "T"), arg("output_true", "T")],
    attrs: &[type_attr("T", &DType::ALL)],
    effect: Effect::Flow,
    ..OpDef::EMPTY
};

pub static HANDLE: OpDef = OpDef {
    name: "VarHandleOp",
    outputs: &[arg_of("resource", DType::Resource)],
    attrs: &[attr("shape", AttrKind::Shape)],
    shape: |cx| {
        cx.set_variable(0, DType::F32, cx.attrs().shape("shape"));
        Ok(())
    },
    gradient: Gradient::None,
    effect: Effect::Handle,
    ..OpDef::EMPTY
};

pub static NO_OP: OpDef = OpDef {
    name: "NoOp",
    effect: Effect::Control,
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

pub fn graph() -> Graph {
    let ops = [
        &CONST,
        &PLACEHOLDER,
        &IDENTITY,
        &IDENTITY_N,
        &ADD,
        &TWICE,
        &RANDOM,
        &ONES_LIKE,
        &MUL,
        &ADD_N,
        &SWITCH,
        &HANDLE,
        &NO_OP,
    ];
    Graph::with_registry(Arc::new(Registry::new(ops)))
}

pub fn constant<'g>(g: &'g Graph, value: impl Into<Tensor>) -> Output<'g> {
    let value = value.into();
    let node = g.op("Const").attr("dtype", value.dtype());
    node.attr("value", value).output()
}

pub fn placeholder<'g>(g: &'g Graph, name: &str, shape: impl Into<Shape>) -> Output<'g> {
    let node = g.op("Placeholder").attr("dtype", DType::F32);
    node.attr("shape", shape.into()).name(name).output()
}

/// The handle of a variable of `f32`.
pub fn handle<'g>(g: &'g Graph, name: &str, shape: impl Into<Shape>) -> Output<'g> {
    let node = g.op("VarHandleOp").attr("shape", shape.into());
    node.name(name).output()
}

/// Adds; nothing else is ever folded here.
pub fn evaluate(node: &Node, inputs: &[&Tensor]) -> Option<Vec<Tensor>> {
    let (x, y) = match (node.op.name, inputs) {
        ("AddV2", [x, y]) => (x.as_slice::<f32>().ok()?, y.as_slice::<f32>().ok()?),
        _ => return None,
    };
    let at = |s: &[f32], i: usize| if s.len() == 1 { s[0] } else { s[i] };
    let sum: Vec<f32> = (0..x.len().max(y.len()))
        .map(|i| at(x, i) + at(y, i))
        .collect();
    let dims = if x.len() >= y.len() {
        inputs[0].dims()
    } else {
        inputs[1].dims()
    };
    Some(vec![Tensor::new(dims, &sum).ok()?])
}
