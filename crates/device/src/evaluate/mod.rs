//! Evaluates one node on tensors: for constant folding, for nodes whose shapes are known only at run time, and for the
//! naive interpreter of the tests.
//!
//! ```
//! use thalweg_device::{Argument, Cpu, Op, cpu_tensors, evaluate};
//! use thalweg_graph::op::{Registry, arg_of};
//! use thalweg_graph::{Graph, OpDef};
//! use thalweg_tensor::{DType, Tensor};
//!
//! static SOURCE: OpDef = OpDef { name: "Source", outputs: &[arg_of("x", DType::I64)], ..OpDef::EMPTY };
//! static COUNT: Op = Op {
//!     def: OpDef {
//!         name: "Count",
//!         inputs: &[arg_of("x", DType::I64)],
//!         outputs: &[arg_of("count", DType::I64)],
//!         ..OpDef::EMPTY
//!     },
//!     kernels: &[cpu_tensors(|cx| Ok(vec![(cx.tensor(0)?.len() as i64).into()]))],
//! };
//!
//! # fn main() -> Result<(), thalweg_device::KernelError> {
//! let g = Graph::with_registry(Registry::new([&SOURCE, &COUNT.def]).into());
//! let count = g.op("Count").input(g.op("Source").output()).build();
//! let node = g.snapshot().node(count.id()).clone();
//! let given = Tensor::vector(&[5i64, 6, 7]);
//! let found = evaluate(&Cpu::new(1), &COUNT, &node, &[Argument::Value(&given)], None)?;
//! assert_eq!(found, [Tensor::scalar(3i64)]);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use smallvec::SmallVec;
use thalweg_graph::check::infer;
use thalweg_graph::op::{ArgType, Effect};
use thalweg_graph::{Fact, Node};
use thalweg_tensor::shape::Dims;
use thalweg_tensor::text::counted;
use thalweg_tensor::{BUFFER_OVERHEAD, Buffer, DType, Memory, Shape, Tensor};

use crate::context::{KernelCx, Slot};
use crate::cpu::Cpu;
use crate::device_type::DeviceType;
use crate::environment::{Argument, Environment, NoStep, SharedObject, TensorCx};
use crate::error::KernelError;
use crate::kernel::{Body, Op, Operand, Prepare, PrepareFn};
use crate::variable::Variable;

/// Runs a node of `op` on these arguments, into new tensors, outside of any step.
///
/// `counter` is the counter of a random op.
///
/// # Errors
/// Those of the op's shape rule, preparation or kernel.
pub fn evaluate(
    cpu: &Cpu,
    op: &Op,
    node: &Node,
    arguments: &[Argument<'_>],
    counter: Option<&AtomicU64>,
) -> Result<Vec<Tensor>, KernelError> {
    evaluate_in(cpu, op, node, arguments, counter, &NoStep)
}

/// As [`evaluate`], in a step.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_in(
    cpu: &Cpu,
    op: &Op,
    node: &Node,
    arguments: &[Argument<'_>],
    counter: Option<&AtomicU64>,
    environment: &dyn Environment,
) -> Result<Vec<Tensor>, KernelError> {
    let cx = TensorCx {
        cpu,
        memory: cpu.memory(),
        max_cost: u64::MAX,
        node,
        arguments: &[],
        counter,
        environment,
    };
    run(op, &cx, arguments)
}

/// Limits of memory and time for a node that is evaluated outside of steps, as when constants are folded.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// The memory account of its results and its scratch memory.
    pub memory: &'a Arc<Memory>,
    /// Maximum of its kernel's estimate in nanoseconds. A kernel without an estimate ([`Body::Tensors`]) is assumed to
    /// read each byte of its inputs a few times.
    pub cost: u64,
}

/// As [`evaluate`], within bounds.
///
/// # Errors
/// As [`evaluate`]; [`KernelError::Stopped`] where it would take too long, [`KernelError::Tensor`] where it would
/// take too much memory.
pub fn evaluate_within(
    bounds: Bounds<'_>,
    cpu: &Cpu,
    op: &Op,
    node: &Node,
    arguments: &[Argument<'_>],
) -> Result<Vec<Tensor>, KernelError> {
    let cx = TensorCx {
        cpu,
        memory: bounds.memory,
        max_cost: bounds.cost,
        node,
        arguments: &[],
        counter: None,
        environment: &NoStep,
    };
    run(op, &cx, arguments)
}

/// Evaluates another node on these arguments, in the memory and within the bounds of the running one.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_for(
    cx: &TensorCx<'_>,
    op: &Op,
    node: &Node,
    arguments: &[Argument<'_>],
) -> Result<Vec<Tensor>, KernelError> {
    let cx = TensorCx {
        node,
        arguments: &[],
        environment: &NoStep,
        ..*cx
    };
    run(op, &cx, arguments)
}

/// Estimated nanoseconds of a kernel from tensors to tensors for each byte of its inputs.
const NANOSECONDS_PER_BYTE: u64 = 20;

/// Runs a node of `op` on these arguments, with the rest of the context from `cx`.
fn run(op: &Op, cx: &TensorCx<'_>, arguments: &[Argument<'_>]) -> Result<Vec<Tensor>, KernelError> {
    let node = cx.node;
    // A handle that came as a value is the variable that it holds. One in a tensor of another shape stays there, unless
    // the op takes handles alone.
    let takes_handle = |i| {
        let arg = node.input_arg(i);
        arg.is_some_and(|a| a.ty == ArgType::Is(DType::Resource))
    };
    let held: SmallVec<[Option<Arc<Variable>>; 4]> = arguments
        .iter()
        .enumerate()
        .map(|(i, a)| match a {
            Argument::Value(t) if t.dtype() == DType::Resource => t
                .object()
                .filter(|_| t.dims().is_empty() || takes_handle(i)),
            _ => None,
        })
        .collect();
    let arguments: SmallVec<[Argument<'_>; 4]> = arguments
        .iter()
        .zip(&held)
        .map(|(a, variable)| variable.as_ref().map_or(*a, Argument::Variable))
        .collect();
    let arguments = &arguments[..];
    let assigns = node.op.effect == Effect::Write;
    let facts: SmallVec<[Fact; 4]> = arguments.iter().map(|a| fact(a, assigns)).collect();
    let outputs =
        infer(node.op, &facts, &node.attrs).map_err(|e| KernelError::Invalid(e.to_string()))?;
    if !outputs.is_empty() && outputs.iter().all(|o| o.value.is_some()) {
        return Ok(outputs.into_iter().filter_map(|o| o.value).collect());
    }
    let kernel = op.kernels.iter().find(|k| k.takes(DeviceType::Cpu, node));
    let kernel = kernel.ok_or(KernelError::DType(
        facts
            .first()
            .or(outputs.first())
            .map_or(DType::F32, |f| f.dtype),
    ))?;
    let cx = TensorCx { arguments, ..*cx };
    match kernel.body {
        Body::Nothing => Ok(Vec::new()),
        Body::Handle => Err(KernelError::Argument("a value in place of a handle")),
        Body::Read => match arguments.first() {
            Some(Argument::Variable(v)) => Ok(vec![v.read()?]),
            Some(Argument::Value(other)) => Err(KernelError::handle(0, other)),
            None => Err(KernelError::Argument("a variable")),
        },
        Body::View => Ok(vec![view(arguments.first(), outputs.first())?]),
        Body::Launch(_) | Body::Host | Body::Functions => {
            Err(KernelError::Argument("a kernel of the CPU"))
        }
        Body::Tensors(run) => {
            let bytes = arguments.iter().map(|a| match a {
                Argument::Value(t) => t.byte_size(),
                Argument::Variable(_) => 0,
            });
            if cx.max_cost < u64::MAX
                && NANOSECONDS_PER_BYTE.saturating_mul(bytes.sum::<usize>() as u64) > cx.max_cost
            {
                return Err(KernelError::Stopped);
            }
            let tensors = run(&cx)?;
            check(&outputs, &tensors)?;
            Ok(tensors)
        }
        Body::Compute(prepare) => {
            // Such a kernel knows no resources but variables.
            for (i, a) in arguments.iter().enumerate() {
                if let Argument::Value(other) = a
                    && other.dtype() == DType::Resource
                {
                    return Err(KernelError::handle(i, other));
                }
            }
            compute(&cx, prepare, &outputs)
        }
    }
}

/// The dimensions of an output, which must be known by now.
fn dims(output: &Fact) -> Result<Dims, KernelError> {
    output.shape.to_dims().ok_or_else(|| {
        let shape = &output.shape;
        KernelError::Invalid(format!("the shape {shape} of an output stays unknown"))
    })
}

/// The input as the output has it: only its bytes are seen in another way.
fn view(input: Option<&Argument<'_>>, output: Option<&Fact>) -> Result<Tensor, KernelError> {
    match (input, output) {
        (Some(Argument::Variable(v)), Some(o)) => {
            let handle = Tensor::handle(DType::Resource, (*v).clone() as SharedObject)?;
            match o.shape.admits(&[]) {
                true => Ok(handle),
                false => Ok(handle.reshaped(&dims(o)?)?),
            }
        }
        // What stays open is as the input has it.
        (Some(Argument::Value(t)), Some(o)) if o.shape.admits(t.dims()) => Ok((*t).clone()),
        (Some(Argument::Value(t)), Some(o)) => Ok(t.reshaped(&dims(o)?)?),
        _ => Err(KernelError::Argument("an input")),
    }
}

/// Prepares a kernel for these arguments, and runs it into new tensors.
fn compute(
    cx: &TensorCx<'_>,
    prepare: PrepareFn,
    outputs: &[Fact],
) -> Result<Vec<Tensor>, KernelError> {
    let memory = cx.memory;
    let inputs: SmallVec<[Operand; 4]> = cx.arguments.iter().map(operand).collect();
    let mut operands: SmallVec<[Operand; 2]> = SmallVec::new();
    let mut tensors = Vec::with_capacity(outputs.len());
    for o in outputs {
        if o.dtype.size() == 0 {
            return Err(KernelError::DType(o.dtype));
        }
        let dims = dims(o)?;
        tensors.push(Tensor::zeros_in(o.dtype, &dims, memory)?);
        operands.push(Operand {
            dtype: o.dtype,
            dims,
            value: None,
        });
    }
    let prepared = prepare(&Prepare {
        cpu: cx.cpu,
        node: cx.node,
        inputs: &inputs,
        outputs: &operands,
    })?;
    if prepared.cost > cx.max_cost {
        return Err(KernelError::Stopped);
    }
    let scratch = Buffer::try_zeroed_in(prepared.scratch, memory).ok_or_else(|| {
        let bytes = prepared.scratch + BUFFER_OVERHEAD;
        KernelError::Memory { bytes }
    })?;
    let variable = |a: &Argument<'_>| match a {
        Argument::Variable(v) => Some((*v).clone()),
        Argument::Value(_) => None,
    };
    let variables: SmallVec<[Option<Arc<Variable>>; 4]> =
        cx.arguments.iter().map(variable).collect();
    let from: SmallVec<[Slot; 4]> = cx.arguments.iter().map(slot).collect();
    let to: SmallVec<[Slot; 2]> = tensors.iter().map(tensor_slot).collect();
    // SAFETY: inputs are borrowed for the run and only read; outputs were made above, are apart from everything, and
    // nothing else has them; so is the scratch memory.
    let cx = unsafe {
        KernelCx::new(
            cx.cpu,
            &from,
            &to,
            &variables,
            cx.counter,
            (scratch.as_ptr(), scratch.len()),
        )
    };
    (prepared.run)(&cx)?;
    Ok(tensors)
}

/// Checks that a kernel's results fit its node: what it takes from a queue or a stack may be anything.
fn check(outputs: &[Fact], tensors: &[Tensor]) -> Result<(), KernelError> {
    if outputs.len() != tensors.len() {
        return Err(KernelError::Invalid(format!(
            "it gave {} where {} said",
            counted(tensors.len(), "value"),
            match outputs.len() {
                1 => "1 was".to_owned(),
                n => format!("{n} were"),
            }
        )));
    }
    for (fact, tensor) in outputs.iter().zip(tensors) {
        if fact.dtype != tensor.dtype() || !fact.shape.admits(tensor.dims()) {
            return Err(KernelError::Invalid(format!(
                "it gave {}{} where {fact} was said",
                tensor.dtype(),
                tensor.shape()
            )));
        }
    }
    Ok(())
}

/// The shape of a variable: where it may have several, that of its value.
fn shape_of(variable: &Variable) -> Shape {
    let declared = variable.shape();
    let held = || variable.lock().as_ref().map(Tensor::shape);
    match declared.is_known() {
        true => declared.clone(),
        false => held().unwrap_or_else(|| declared.clone()),
    }
}

/// `assigns` says that the variable may get a value of another shape.
fn fact(argument: &Argument<'_>, assigns: bool) -> Fact {
    match argument {
        Argument::Value(t) => Fact {
            value: Some((*t).clone()),
            ..Fact::new(t.dtype(), t.shape())
        },
        Argument::Variable(v) => Fact {
            variable: Some(match assigns {
                true => (v.dtype(), v.shape().clone()),
                false => (v.dtype(), shape_of(v)),
            }),
            ..Fact::new(DType::Resource, Shape::scalar())
        },
    }
}

fn operand(argument: &Argument<'_>) -> Operand {
    match argument {
        Argument::Value(t) => Operand {
            dtype: t.dtype(),
            dims: t.dims().into(),
            value: Some((*t).clone()),
        },
        Argument::Variable(v) => Operand {
            dtype: v.dtype(),
            dims: shape_of(v).to_dims().unwrap_or_default(),
            value: None,
        },
    }
}

fn slot(argument: &Argument<'_>) -> Slot {
    match argument {
        Argument::Value(t) => tensor_slot(t),
        Argument::Variable(_) => Slot::empty(DType::Resource),
    }
}

/// Returns the slot of a tensor's elements; of strings, a slot that no kernel can read.
pub fn tensor_slot(tensor: &Tensor) -> Slot {
    Slot {
        ptr: (tensor.buffer()).map_or(std::ptr::dangling_mut(), |b| b.as_ptr()),
        len: if tensor.dtype().size() == 0 {
            0
        } else {
            tensor.len()
        },
        dtype: tensor.dtype(),
        notes: (tensor.buffer().and_then(|b| b.notes()))
            .map_or(std::ptr::null(), std::ptr::from_ref),
    }
}

#[cfg(test)]
mod tests;
