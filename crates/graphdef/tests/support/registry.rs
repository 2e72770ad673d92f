//! A few ops of the control flow and of calls, without kernels: enough to build graphs.

use std::sync::Arc;

use thalweg_graph::op::{
    ArgType, Effect, Gradient, OpDef, arg, arg_of, args_of, attr, count_attr, list_attr, type_attr,
    types_attr,
};
use thalweg_graph::{AttrKind, Graph, Registry};
use thalweg_tensor::{DType, Shape};

const T: thalweg_graph::op::AttrDef = type_attr("T", &DType::ALL);

const BASE: OpDef = OpDef {
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

const CALL: OpDef = OpDef {
    name: "PartitionedCall",
    inputs: &[args_of("args", "Tin")],
    outputs: &[args_of("output", "Tout")],
    attrs: &[
        types_attr("Tin"),
        types_attr("Tout"),
        attr("f", AttrKind::Func),
    ],
    ..BASE
};

static OPS: &[OpDef] = &[
    OpDef {
        name: "Placeholder",
        outputs: &[arg("output", "dtype")],
        attrs: &[type_attr("dtype", &DType::ALL)],
        effect: Effect::Feed,
        ..BASE
    },
    OpDef {
        name: "Identity",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[T],
        ..BASE
    },
    OpDef {
        name: "AddV2",
        inputs: &[arg("x", "T"), arg("y", "T")],
        outputs: &[arg("z", "T")],
        attrs: &[T],
        ..BASE
    },
    OpDef {
        name: "Split",
        inputs: &[arg_of("split_dim", DType::I32), arg("value", "T")],
        outputs: &[arg("output", "T").list("num_split")],
        attrs: &[T, count_attr("num_split")],
        ..BASE
    },
    OpDef {
        name: "Enter",
        inputs: &[arg("data", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[T, attr("frame_name", AttrKind::Str)],
        effect: Effect::Flow,
        ..BASE
    },
    OpDef {
        name: "NextIteration",
        inputs: &[arg("data", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[T],
        effect: Effect::Flow,
        ..BASE
    },
    OpDef {
        name: "Merge",
        inputs: &[arg("inputs", "T").list("N")],
        outputs: &[arg("output", "T"), arg_of("value_index", DType::I32)],
        attrs: &[T, count_attr("N")],
        effect: Effect::Flow,
        shape: |i| {
            i.set(1, Shape::scalar());
            Ok(())
        },
        ..BASE
    },
    OpDef {
        name: "LoopCond",
        inputs: &[arg_of("input", DType::Bool)],
        outputs: &[arg_of("output", DType::Bool)],
        effect: Effect::Flow,
        ..BASE
    },
    OpDef {
        name: "Print",
        inputs: &[arg("input", "T")],
        attrs: &[T],
        effect: Effect::Stateful,
        ..BASE
    },
    OpDef {
        name: "While",
        inputs: &[args_of("input", "T")],
        outputs: &[args_of("output", "T")],
        attrs: &[
            types_attr("T"),
            attr("cond", AttrKind::Func),
            attr("body", AttrKind::Func),
            list_attr("output_shapes", AttrKind::Shapes),
        ],
        ..BASE
    },
    CALL,
    OpDef {
        name: "StatefulPartitionedCall",
        effect: Effect::Stateful,
        ..CALL
    },
];

/// A graph that has only these ops.
pub fn graph() -> Graph {
    assert!(matches!(OPS[0].outputs[0].ty, ArgType::Attr("dtype")));
    Graph::with_registry(Arc::new(Registry::new(OPS)))
}
