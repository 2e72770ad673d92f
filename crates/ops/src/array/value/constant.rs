//! Const, HostConst.

use thalweg_device::Op;
use thalweg_graph::op::{Gradient, arg, attr, type_attr};
use thalweg_graph::{AttrKind, InferError, OpDef};
use thalweg_tensor::DType;

const DEF: OpDef = OpDef {
    name: "Const",
    summary: "A constant tensor.",
    outputs: &[arg("output", "dtype")],
    attrs: &[
        attr("value", AttrKind::Tensor),
        type_attr("dtype", &DType::ALL),
    ],
    shape: |cx| {
        let Some(value) = cx.attrs().tensor("value") else {
            return Ok(());
        };
        if Some(value.dtype()) != cx.attrs().dtype("dtype") {
            return Err(InferError::Attr {
                attr: "dtype",
                reason: format!("the value is {}", value.dtype()),
            });
        }
        cx.set_value(0, value.clone());
        Ok(())
    },
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

/// A constant. Its value is known at build time, so it never runs.
pub(crate) static CONST: Op = Op {
    def: DEF,
    kernels: &[],
};

/// A constant in host memory, as all are here.
pub(crate) static HOST_CONST: Op = Op {
    def: OpDef {
        name: "HostConst",
        ..DEF
    },
    kernels: &[],
};
