//! VariableV2, Variable, Assign, AssignAdd, AssignSub, IsVariableInitialized, RefIdentity, DebugGradientRefIdentity: variables as references.
//! The ops on handles run in their place.

use thalweg_device::Op;
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg, arg_of, attr, bool_attr, str_attr, type_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

const VARIABLE_ATTRS: &[AttrDef] = &[
    attr("shape", AttrKind::Shape),
    type_attr("dtype", &DType::ALL),
    str_attr("container", "", &[]),
    str_attr("shared_name", "", &[]),
];

const fn variable(name: &'static str, shape: fn(&mut Infer<'_>) -> Result<(), InferError>) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "A variable, as a reference to it.",
            outputs: const { &[arg("ref", "dtype").reference()] },
            attrs: VARIABLE_ATTRS,
            shape,
            gradient: Gradient::None,
            effect: Effect::Handle,
            on_handles: Some("VarHandleOp"),
            ..OpDef::EMPTY
        },
        kernels: &[],
    }
}

/// Creates a variable.
pub(crate) static VARIABLE_V2: Op = variable("VariableV2", |cx| {
    let (dtype, shape) = (cx.attrs().dtype("dtype"), cx.attrs().shape("shape"));
    cx.set_variable(0, dtype.unwrap_or(DType::F32), shape);
    Ok(())
});

/// Like [`VARIABLE_V2`], in the form of TensorFlow's first graphs, where the shape of a scalar stands
/// for an unknown shape.
pub(crate) static VARIABLE_V1: Op = variable("Variable", |cx| {
    let dtype = cx.attrs().dtype("dtype").unwrap_or(DType::F32);
    let shape = cx.attrs().shape("shape");
    let known = shape.rank().is_some_and(|rank| rank > 0);
    cx.set_variable(0, dtype, if known { shape } else { Shape::unknown() });
    Ok(())
});

/// The value must have the variable's shape, unless `validate_shape` is present and false. The output is the
/// reference.
fn assign_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let Some((dtype, variable)) = cx.variable(0) else {
        cx.set(0, cx.shape(1).clone());
        return Ok(());
    };
    let any = cx.op().attr("validate_shape").is_some() && !cx.attrs().bool("validate_shape");
    match variable.merge(cx.shape(1)) {
        Some(shape) => cx.set_variable(0, dtype, shape),
        None if any => cx.set_variable(0, dtype, cx.shape(1).clone()),
        None => {
            return Err(InferError::Mismatch {
                what: "the value must have the variable's shape".to_owned(),
                left: cx.shape(1).clone(),
                right: variable,
            });
        }
    }
    Ok(())
}

const fn assign(
    name: &'static str,
    summary: &'static str,
    on_handles: &'static str,
    attrs: &'static [AttrDef],
) -> Op {
    Op {
        def: OpDef {
            name,
            summary,
            inputs: const { &[arg("ref", "T").reference(), arg("value", "T")] },
            outputs: const { &[arg("output_ref", "T").reference()] },
            attrs,
            shape: assign_shape,
            gradient: Gradient::None,
            effect: Effect::Write,
            on_handles: Some(on_handles),
            ..OpDef::EMPTY
        },
        kernels: &[],
    }
}

/// Assigns a value to a variable.
pub(crate) static ASSIGN: Op = assign(
    "Assign",
    "Assigns a value to a variable.",
    "AssignVariableOp",
    &[
        type_attr("T", &DType::ALL),
        bool_attr("validate_shape", true),
        bool_attr("use_locking", true),
    ],
);

const NUMBER_ATTRS: &[AttrDef] = &[
    type_attr("T", DType::ALL_NUMBERS),
    bool_attr("use_locking", false),
];

/// Adds to a variable.
pub(crate) static ASSIGN_ADD: Op = assign(
    "AssignAdd",
    "Adds to the value of a variable.",
    "AssignAddVariableOp",
    NUMBER_ATTRS,
);

/// Subtracts from a variable.
pub(crate) static ASSIGN_SUB: Op = assign(
    "AssignSub",
    "Subtracts from the value of a variable.",
    "AssignSubVariableOp",
    NUMBER_ATTRS,
);

/// `true` if a variable has a value.
pub(crate) static IS_INITIALIZED: Op = Op {
    def: OpDef {
        name: "IsVariableInitialized",
        summary: "True if a variable has a value.",
        inputs: &[arg("ref", "dtype").reference()],
        outputs: &[arg_of("is_initialized", DType::Bool)],
        attrs: &[type_attr("dtype", &DType::ALL)],
        shape: |cx| {
            cx.set(0, Shape::scalar());
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Read,
        on_handles: Some("VarIsInitializedOp"),
        ..OpDef::EMPTY
    },
    kernels: &[],
};

/// Passes a reference on.
pub(crate) static IDENTITY: Op = Op {
    def: OpDef {
        name: "RefIdentity",
        summary: "The same reference.",
        inputs: &[arg("input", "T").reference()],
        outputs: &[arg("output", "T").reference()],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            match cx.variable(0) {
                Some((dtype, shape)) => cx.set_variable(0, dtype, shape),
                None => cx.set(0, cx.shape(0).clone()),
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec::smallvec![Some(g.grad())]),
        on_handles: Some("Identity"),
        ..OpDef::EMPTY
    },
    kernels: &[],
};

/// Passes a reference on, where a debugger of gradients looks.
pub(crate) static DEBUG_GRADIENT_IDENTITY: Op = Op {
    def: OpDef {
        name: "DebugGradientRefIdentity",
        ..IDENTITY.def
    },
    kernels: &[],
};
