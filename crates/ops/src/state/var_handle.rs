//! VarHandleOp, ReadVariableOp, VarIsInitializedOp, DisableCopyOnRead, VariableShape, DestroyResourceOp.

use smallvec::smallvec;
use thalweg_device::{Body, Kernel, KernelError, Op, Prepared, cpu, cpu_tensors, on_host};
use thalweg_graph::op::{
    Arg, AttrDef, Default, Effect, Gradient, arg, arg_of, attr, bool_attr, str_attr, type_attr,
    type_attr_or,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::row_indices::value_dims;
use crate::data::anonymous_iterators::destroy_iterator;
use crate::support::trivial_kernels::VIEW;

/// Creates the handle of a variable.
pub(crate) static VAR_HANDLE: Op = Op {
    def: OpDef {
        name: "VarHandleOp",
        summary: "The handle of a variable, which the session (or the server) keeps under its shared name, or else the node's.",
        outputs: &[arg_of("resource", DType::Resource)],
        attrs: &[
            str_attr("container", "", &[]),
            str_attr("shared_name", "", &[]),
            str_attr("debug_name", "", &[]),
            AttrDef {
                default: Default::Empty(AttrKind::Strs),
                ..attr("allowed_devices", AttrKind::Strs)
            },
            type_attr("dtype", &DType::ALL),
            AttrDef {
                default: Default::UnknownShape,
                ..attr("shape", AttrKind::Shape)
            },
        ],
        shape: |cx| {
            let (dtype, shape) = (cx.attrs().dtype("dtype"), cx.attrs().shape("shape"));
            cx.set_variable(0, dtype.unwrap_or(DType::F32), shape);
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Handle,
        ..OpDef::EMPTY
    },
    kernels: &[Kernel {
        body: Body::Handle,
        ..VIEW
    }],
};

/// Reads the value of a variable.
pub(crate) static READ: Op = Op {
    def: OpDef {
        name: "ReadVariableOp",
        summary: "The value of a variable: before any update of the same step, unless a control dependency orders the read after it.",
        inputs: &[arg_of("resource", DType::Resource)],
        outputs: &[arg("value", "dtype")],
        attrs: &[type_attr("dtype", &DType::ALL)],
        shape: |cx| {
            let shape = expect_dtype(cx, "dtype")?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![Some(g.grad())]),
        effect: Effect::Read,
        ..OpDef::EMPTY
    },
    kernels: &[Kernel {
        body: Body::Read,
        ..VIEW
    }],
};

/// `true` if a variable has a value.
pub(crate) static IS_INITIALIZED: Op = Op {
    def: OpDef {
        name: "VarIsInitializedOp",
        summary: "True if a variable has a value.",
        inputs: &[arg_of("resource", DType::Resource)],
        outputs: &[arg_of("is_initialized", DType::Bool)],
        shape: |cx| {
            cx.set(0, Shape::scalar());
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Read,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|_| {
            Ok(Prepared::new(1, |cx| {
                let initialized = cx.variable(0)?.value().is_some();
                cx.output::<bool>(0)?.fill(initialized);
                Ok(())
            }))
        }),
        on_host(),
    ],
};

/// A hint for TensorFlow's reads, which its savers put before them. Reads never copy here.
pub(crate) static DISABLE_COPY_ON_READ: Op = Op {
    def: OpDef {
        name: "DisableCopyOnRead",
        summary: "A hint to TensorFlow that reads of a variable need no copy; does nothing here, where they never do.",
        inputs: &[arg_of("resource", DType::Resource)],
        gradient: Gradient::None,
        effect: Effect::Read,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|_| Ok(Prepared::new(1, |_| Ok(())))), on_host()],
};

/// Shape of the variable behind input 0, whose dtype must be that of attribute `attr`.
pub(super) fn expect_dtype(cx: &Infer<'_>, attr: &'static str) -> Result<Shape, InferError> {
    let Some((dtype, shape)) = cx.variable(0) else {
        return Ok(Shape::unknown());
    };
    match cx.attrs().dtype(attr) {
        Some(asked) if asked != dtype => Err(InferError::Attr {
            attr,
            reason: format!("the variable holds {dtype}, not {asked}"),
        }),
        _ => Ok(shape),
    }
}

const INPUT: &[Arg] = &[arg_of("input", DType::Resource)];

/// Shape of a variable's value.
pub(crate) static SHAPE: Op = Op {
    def: OpDef {
        name: "VariableShape",
        summary: "The dimensions of a variable's value.",
        inputs: INPUT,
        outputs: &[arg("output", "out_type")],
        attrs: &[type_attr_or("out_type", DType::INDICES, DType::I32)],
        shape: |cx| {
            let shape = cx.variable_shape(0);
            let Some(dims) = shape.to_dims() else {
                let rank = shape.rank().map(Some);
                cx.set(0, Shape::partial([rank.flatten()]));
                return Ok(());
            };
            let narrow: Option<Vec<i32>> = dims.iter().map(|&d| i32::try_from(d).ok()).collect();
            let value = match (cx.attrs().dtype("out_type"), narrow) {
                (Some(DType::I64), _) => {
                    Tensor::vector(&dims.iter().map(|&d| d as i64).collect::<Vec<_>>())
                }
                (_, Some(narrow)) => Tensor::vector(&narrow),
                (_, None) => {
                    return Err(InferError::Attr {
                        attr: "out_type",
                        reason: format!("{shape} does not fit in i32: use i64"),
                    });
                }
            };
            cx.set_value(0, value);
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Read,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let dtype = p.node.attrs.dtype("out_type").unwrap_or(DType::I32);
            dispatch!(dtype, [I32 I64], T => Ok(Prepared::new(1, |cx| {
                let out = cx.output::<T>(0)?;
                let dims = match cx.variable(0)?.shape().to_dims() {
                    Some(dims) => dims,
                    None => value_dims(cx)?,
                };
                if dims.len() != out.len() {
                    return Err(KernelError::Argument("an element for each dimension"));
                }
                for (out, &dim) in out.iter_mut().zip(&dims) {
                    *out = T::try_from(dim).map_err(|_| {
                        KernelError::Invalid(format!("dimension {dim} does not fit: use i64"))
                    })?;
                }
                Ok(())
            })), else Err(KernelError::DType(dtype)))
        }),
        on_host(),
    ],
};

/// Removes a variable's value.
pub(crate) static DESTROY: Op = Op {
    def: OpDef {
        name: "DestroyResourceOp",
        summary: "Removes a variable's value: it is no longer initialized. Ends the pass of an iterator.",
        inputs: &[arg_of("resource", DType::Resource)],
        attrs: &[bool_attr("ignore_lookup_error", true)],
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        match cx.variable(0) {
            Ok(variable) => *variable.lock() = None,
            Err(error) => destroy_iterator(cx, 0).map_err(|_| error)?,
        }
        Ok(Vec::new())
    })],
};
