//! GraphDefs for tests, built by hand.

#![allow(dead_code, reason = "each test takes what it needs")]

use thalweg_graphdef::GraphDef;
use thalweg_graphdef::messages::attr_value::{ListValue, Value};
use thalweg_graphdef::messages::{
    AttrValue, DataType, NameAttrList, NodeDef, TensorProto, TensorShapeProto, VersionDef,
    tensor_shape_proto::Dim,
};

pub fn value(value: Value) -> AttrValue {
    AttrValue { value: Some(value) }
}

pub fn dtype(dtype: DataType) -> AttrValue {
    value(Value::Type(dtype as i32))
}

/// The attribute `T`.
pub fn t(of: DataType) -> (&'static str, AttrValue) {
    ("T", dtype(of))
}

pub fn text(text: &str) -> AttrValue {
    value(Value::S(text.as_bytes().to_vec()))
}

pub fn strings(all: &[&str]) -> AttrValue {
    value(Value::List(ListValue {
        s: all.iter().map(|s| s.as_bytes().to_vec()).collect(),
        ..ListValue::default()
    }))
}

pub fn types(all: &[DataType]) -> AttrValue {
    value(Value::List(ListValue {
        r#type: all.iter().map(|t| *t as i32).collect(),
        ..ListValue::default()
    }))
}

pub fn func(name: &str, attrs: &[(&str, AttrValue)]) -> AttrValue {
    value(Value::Func(NameAttrList {
        name: name.to_owned(),
        attr: attrs
            .iter()
            .map(|(n, a)| ((*n).to_owned(), a.clone()))
            .collect(),
    }))
}

pub fn shape(dims: &[i64]) -> TensorShapeProto {
    let dim = |&size: &i64| Dim {
        size,
        name: String::new(),
    };
    TensorShapeProto {
        dim: dims.iter().map(dim).collect(),
        unknown_rank: false,
    }
}

pub fn floats(dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        dtype: DataType::DtFloat as i32,
        tensor_shape: Some(shape(dims)),
        float_val: values.to_vec(),
        ..TensorProto::default()
    }
}

pub fn node(name: &str, op: &str, inputs: &[&str], attrs: &[(&str, AttrValue)]) -> NodeDef {
    NodeDef {
        name: name.to_owned(),
        op: op.to_owned(),
        input: inputs.iter().map(|i| (*i).to_owned()).collect(),
        attr: attrs
            .iter()
            .map(|(n, a)| ((*n).to_owned(), a.clone()))
            .collect(),
        ..NodeDef::default()
    }
}

pub fn constant(name: &str, tensor: TensorProto) -> NodeDef {
    let dtype = value(Value::Type(tensor.dtype));
    let value = value(Value::Tensor(tensor));
    node(name, "Const", &[], &[("dtype", dtype), ("value", value)])
}

pub fn graph_def(nodes: Vec<NodeDef>) -> GraphDef {
    GraphDef {
        node: nodes,
        versions: Some(VersionDef {
            producer: 134,
            ..VersionDef::default()
        }),
        ..GraphDef::default()
    }
}

/// `i = 0; loop: i = i + i`, its nodes in an order in which consumers come first.
pub fn counting_loop() -> GraphDef {
    graph_def(vec![
        node("next", "NextIteration", &["sum"], &[t(DataType::DtFloat)]),
        node(
            "sum",
            "AddV2",
            &["merge", "merge:0", "^merge"],
            &[t(DataType::DtFloat)],
        ),
        node(
            "merge",
            "Merge",
            &["enter", "next"],
            &[t(DataType::DtFloat), ("N", value(Value::I(2)))],
        ),
        node(
            "enter",
            "Enter",
            &["x"],
            &[t(DataType::DtFloat), ("frame_name", text("loop"))],
        ),
        node(
            "x",
            "Placeholder",
            &[],
            &[("dtype", dtype(DataType::DtFloat))],
        ),
        node("turn", "Identity", &["merge:1"], &[t(DataType::DtInt32)]),
    ])
}
