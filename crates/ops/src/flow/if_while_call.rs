//! If, StatelessIf, Case, StatelessCase, While, StatelessWhile, PartitionedCall, StatefulPartitionedCall, FakeParam.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors, gpu_functions, is_true};
use thalweg_graph::flow::is_extracted;
use thalweg_graph::op::{
    Arg, AttrDef, Calls, Effect, Gradient, arg, arg_of, args_of, attr, int_attr, list_attr,
    str_attr, type_attr,
};
use thalweg_graph::{AttrKind, Func, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Dims, Tensor};

use super::{gradient, gradient_loop};
use crate::support::tensors::unwritten;

const INPUT: Arg = args_of("input", "Tin");
pub(super) const OUTPUT: Arg = args_of("output", "Tout");
pub(super) const TIN: AttrDef = list_attr("Tin", AttrKind::Types);
pub(super) const TOUT: AttrDef = list_attr("Tout", AttrKind::Types);
const SHAPES: AttrDef = list_attr("output_shapes", AttrKind::Shapes);

/// Base definition of an op that calls functions.
const CALL_OP: OpDef = OpDef {
    inputs: &[INPUT],
    outputs: &[OUTPUT],
    shape: declared_shapes,
    gradient: Gradient::Missing,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Sets the shapes that attribute `output_shapes` gives, if any. That of a resource may be wrong: TensorFlow says that the
/// handle of an array is a vector. An output that is not computed has any shape.
fn declared_shapes(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shapes = cx.attrs().shapes("output_shapes");
    let types = ["Tout", "T"].map(|attr| cx.attrs().types(attr));
    let types = types
        .into_iter()
        .find(|t| !t.is_empty())
        .unwrap_or_default();
    let live: Vec<bool> = (0..cx.outputs()).map(|i| cx.attrs().is_live(i)).collect();
    if shapes.len() == cx.outputs() {
        for (i, (shape, dtype)) in shapes.iter().zip(types).enumerate() {
            if *dtype != DType::Resource && live[i] {
                cx.set(i, shape.clone());
            }
        }
    }
    Ok(())
}

/// Inputs from index `first` on.
pub(super) fn arguments(cx: &TensorCx<'_>, first: usize) -> Result<Vec<Tensor>, KernelError> {
    (first..cx.inputs()).map(|i| cx.value(i)).collect()
}

pub(super) fn function<'a>(cx: &TensorCx<'a>, attr: &'static str) -> Result<&'a Func, KernelError> {
    cx.attrs()
        .func(attr)
        .ok_or(KernelError::Argument("a function"))
}

/// Calls a function of which only the node's needed outputs are computed; the others are placeholders.
fn call(
    cx: &TensorCx<'_>,
    function: &Func,
    arguments: Vec<Tensor>,
) -> Result<Vec<Tensor>, KernelError> {
    cx.environment()
        .call(function, arguments, cx.attrs().live_outputs())
}

fn run_if(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let value = cx.tensor(0)?;
    let taken = match is_extracted(&function(cx, "then_branch")?.name) {
        // Switch takes a scalar.
        true => value.to_scalar::<bool>()?,
        false => is_true(value)?,
    };
    let taken = match taken {
        true => "then_branch",
        false => "else_branch",
    };
    call(cx, function(cx, taken)?, arguments(cx, 1)?)
}

const IF_ATTRS: &[AttrDef] = &[
    type_attr("Tcond", &DType::ALL),
    TIN,
    TOUT,
    attr("then_branch", AttrKind::Func),
    attr("else_branch", AttrKind::Func),
    SHAPES,
];

/// Calls one of two functions.
pub(crate) static IF: Op = Op {
    def: OpDef {
        name: "If",
        summary: "Calls one of two functions, by a condition.",
        inputs: &[arg("cond", "Tcond"), INPUT],
        attrs: IF_ATTRS,
        calls: Calls::Branch,
        gradient: Gradient::Rule(gradient::branch),
        ..CALL_OP
    },
    kernels: &[cpu_tensors(run_if), gpu_functions()],
};

/// Like [`IF`], for functions without effects.
pub(crate) static STATELESS_IF: Op = Op {
    def: OpDef {
        name: "StatelessIf",
        summary: "Calls one of two functions without effects, by a condition.",
        inputs: &[arg("cond", "Tcond"), INPUT],
        attrs: IF_ATTRS,
        calls: Calls::Branch,
        effect: Effect::Pure,
        gradient: Gradient::Rule(gradient::branch),
        ..CALL_OP
    },
    kernels: &[cpu_tensors(run_if), gpu_functions()],
};

/// Calls the function at an index; the last one if the index is out of range.
fn run_case(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let branches = cx.attrs().funcs("branches");
    let index = usize::try_from(cx.int(0)?).unwrap_or(usize::MAX);
    let taken = branches.get(index).or(branches.last());
    let taken = taken.ok_or(KernelError::Argument("a function"))?;
    call(cx, taken, arguments(cx, 1)?)
}

const CASE_ATTRS: &[AttrDef] = &[TIN, TOUT, attr("branches", AttrKind::Funcs), SHAPES];

/// Calls one of several functions.
pub(crate) static CASE: Op = Op {
    def: OpDef {
        name: "Case",
        summary: "Calls one of several functions, by its index; the last one if the index is out of range.",
        inputs: &[arg_of("branch_index", DType::I32), INPUT],
        attrs: CASE_ATTRS,
        calls: Calls::Branch,
        ..CALL_OP
    },
    kernels: &[cpu_tensors(run_case)],
};

/// Like [`CASE`], for functions without effects.
pub(crate) static STATELESS_CASE: Op = Op {
    def: OpDef {
        name: "StatelessCase",
        summary: "Calls one of several functions without effects, by its index.",
        inputs: &[arg_of("branch_index", DType::I32), INPUT],
        attrs: CASE_ATTRS,
        calls: Calls::Branch,
        effect: Effect::Pure,
        ..CALL_OP
    },
    kernels: &[cpu_tensors(run_case)],
};

fn run_while(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (condition, body) = (function(cx, "cond")?, function(cx, "body")?);
    let live = cx.attrs().live_outputs();
    cx.environment()
        .repeat(condition, body, arguments(cx, 0)?, live)
}

const WHILE_ATTRS: &[AttrDef] = &[
    list_attr("T", AttrKind::Types),
    attr("cond", AttrKind::Func),
    attr("body", AttrKind::Func),
    SHAPES,
    int_attr("parallel_iterations", 10),
];

/// Sets the shapes of `output_shapes`, and for a handle its variable, which no iteration changes.
fn while_shapes(cx: &mut Infer<'_>) -> Result<(), InferError> {
    declared_shapes(cx)?;
    for i in 0..cx.outputs() {
        if let Some((dtype, shape)) = cx.variable(i) {
            cx.set_variable(i, dtype, shape);
        }
    }
    Ok(())
}

/// Calls a body function while a condition function returns true.
pub(crate) static WHILE: Op = Op {
    def: OpDef {
        name: "While",
        summary: "Calls a function on its own results for as long as another one returns true.",
        inputs: &[args_of("input", "T")],
        outputs: &[args_of("output", "T")],
        attrs: WHILE_ATTRS,
        calls: Calls::Loop,
        shape: while_shapes,
        gradient: Gradient::Rule(gradient_loop::repeat),
        ..CALL_OP
    },
    kernels: &[cpu_tensors(run_while), gpu_functions()],
};

/// Like [`WHILE`], for functions without effects.
pub(crate) static STATELESS_WHILE: Op = Op {
    def: OpDef {
        name: "StatelessWhile",
        summary: "Calls a function without effects on its own results for as long as another one returns true.",
        inputs: &[args_of("input", "T")],
        outputs: &[args_of("output", "T")],
        attrs: WHILE_ATTRS,
        calls: Calls::Loop,
        shape: while_shapes,
        effect: Effect::Pure,
        gradient: Gradient::Rule(gradient_loop::repeat),
        ..CALL_OP
    },
    kernels: &[cpu_tensors(run_while), gpu_functions()],
};

fn run_call(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    cx.environment()
        .call(function(cx, "f")?, arguments(cx, 0)?, None)
}

const CALL_ATTRS: &[AttrDef] = &[
    TIN,
    TOUT,
    attr("f", AttrKind::Func),
    str_attr("config", "", &[]),
    str_attr("config_proto", "", &[]),
    str_attr("executor_type", "", &[]),
];

/// Calls a function.
pub(crate) static PARTITIONED_CALL: Op = Op {
    def: OpDef {
        name: "PartitionedCall",
        summary: "Calls a function without effects.",
        inputs: &[args_of("args", "Tin")],
        attrs: CALL_ATTRS,
        effect: Effect::Pure,
        gradient: Gradient::Rule(gradient::call),
        ..CALL_OP
    },
    kernels: &[cpu_tensors(run_call)],
};

/// Calls a function with effects.
pub(crate) static STATEFUL_PARTITIONED_CALL: Op = Op {
    def: OpDef {
        name: "StatefulPartitionedCall",
        summary: "Calls a function.",
        inputs: &[args_of("args", "Tin")],
        attrs: CALL_ATTRS,
        gradient: Gradient::Rule(gradient::call),
        ..CALL_OP
    },
    kernels: &[cpu_tensors(run_call)],
};

/// Placeholder for an output that a branch does not compute.
pub(crate) static FAKE_PARAM: Op = Op {
    def: OpDef {
        name: "FakeParam",
        summary: "A placeholder for an output that a branch does not compute; it is never read.",
        outputs: &[arg("output", "dtype")],
        attrs: &[
            type_attr("dtype", &DType::ALL),
            attr("shape", AttrKind::Shape),
        ],
        // Nothing reads its value, nor its shape.
        shape: |_| Ok(()),
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.attrs().dtype("dtype").unwrap_or(DType::F32);
        let dims = cx.attrs().shape("shape").to_dims();
        let dims = dims.filter(|d| thalweg_tensor::shape::elements(d) <= 1024);
        let dims = match dtype.is_handle() {
            true => dims.unwrap_or_default(),
            false => dims.unwrap_or_else(|| Dims::from_slice(&[0])),
        };
        Ok(vec![unwritten(cx.memory(), dtype, &dims)?])
    })],
};
