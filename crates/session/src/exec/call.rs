//! Calls of functions: each is a step of its own, on the thread that calls.

use std::borrow::Borrow;
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::{HolderHandle, KernelError, SharedObject, Variable};
use thalweg_graph::flow::is_extracted;
use thalweg_graph::function::MAX_CALL_DEPTH;
use thalweg_graph::{Fact, Func, Function, Node, NodeId, OutputId};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor};

use super::{ProgramRun, Step};
use crate::compiled_step::{ArgumentKey, ByAddress, CallKey, CompiledStep, reserve_plan};
use crate::frame::Frame;
use thalweg_plan::Fetch;
use thalweg_plan::SessionError;
use thalweg_plan::{PlanContext, Request, compile};

impl ProgramRun<'_> {
    /// Calls a function of the graph's library, for this node. With `live`, only these results are computed.
    pub(super) fn call(
        &self,
        node: &Node,
        function: &Func,
        arguments: Vec<Tensor>,
        live: Option<&[i64]>,
    ) -> Result<Vec<Tensor>, KernelError> {
        let function = self.function(function)?;
        self.check_call(node, function, &arguments)?;
        let keys = arguments.iter().enumerate();
        let keys = keys.map(|(i, a)| argument_key(function, i, a)).collect();
        let key = self.call_key(node, function, keys, live);
        let compiled = self.compiled_call(node, function, &key)?;
        let frame = compiled.take_frame(self.step.devices, self.step.context.collectives);
        let frame = frame.map_err(|e| error_in_function(&function.name, e))?;
        let mut results = SmallVec::new();
        let done = self.run_call(&compiled, &frame, &key.path, arguments, &mut results);
        compiled.return_frame(frame, done.is_ok());
        done.map_err(|e| error_in_function(&function.name, e))?;
        let mut results = results.into_iter();
        let all = (0i64..).zip(&function.results);
        let all = all.map(
            |(i, port)| match live.is_none_or(|live| live.contains(&i)) {
                true => {
                    let result = results.next().flatten();
                    result.ok_or(KernelError::Argument("the results of a function"))
                }
                false if port.dtype.is_handle() => Ok(Tensor::handle(port.dtype, Arc::new(()))?),
                false => Ok(Tensor::zeros(port.dtype, &[0])?),
            },
        );
        all.collect()
    }

    /// The function of this name in the graph's library.
    pub(super) fn function(&self, function: &Func) -> Result<&Arc<Function>, KernelError> {
        let name = &function.name;
        self.program.graph.function(name).ok_or_else(|| {
            KernelError::Invalid(format!(
                "the graph has no function '{name}': define it, or import the library that has it"
            ))
        })
    }

    /// Checks that a function can be called now with these arguments.
    pub(super) fn check_call<T: Borrow<Tensor>>(
        &self,
        node: &Node,
        function: &Function,
        arguments: &[T],
    ) -> Result<(), KernelError> {
        // Each call takes room on the thread's stack.
        if self.step.depth >= MAX_CALL_DEPTH {
            let name = &function.name;
            return Err(KernelError::Invalid(format!(
                "function '{name}' is called inside of {MAX_CALL_DEPTH} others: use a While in place of \
                 a function that calls itself"
            )));
        }
        // A loop whose functions have no instruction would never check otherwise.
        if self.check_limits(node).is_err() {
            return Err(KernelError::Stopped);
        }
        check(function, arguments)
    }

    /// The key of a function's plan for arguments of these properties.
    pub(super) fn call_key(
        &self,
        node: &Node,
        function: &Arc<Function>,
        arguments: SmallVec<[ArgumentKey; 4]>,
        live: Option<&[i64]>,
    ) -> CallKey {
        let path = match self.step.context.path {
            "" => node.name.clone(),
            outer => format!("{outer}/{}", node.name),
        };
        CallKey {
            function: ByAddress(function.clone()),
            path,
            device: self.program.device,
            fuse: self.step.context.fuse,
            arguments,
            live: live.map(SmallVec::from_slice),
        }
    }

    /// The plan of a key, compiled where there is none yet.
    pub(super) fn compiled_call(
        &self,
        node: &Node,
        function: &Function,
        key: &CallKey,
    ) -> Result<Arc<CompiledStep>, KernelError> {
        if let Some(compiled) = self.step.calls.get(key) {
            return Ok(compiled);
        }
        let runs = function.runs(node.op.calls);
        let compiled = self.plan(function, &runs, key);
        let compiled = Arc::new(compiled.map_err(|e| error_in_function(&function.name, e))?);
        Ok(self.step.calls.keep(key.clone(), compiled))
    }

    /// Compiles a function for arguments of these properties.
    fn plan(
        &self,
        function: &Function,
        runs: &[NodeId],
        key: &CallKey,
    ) -> Result<CompiledStep, SessionError> {
        let fact = |argument: &ArgumentKey| match argument {
            ArgumentKey::Value(dtype, shape) => Fact::new(*dtype, shape.clone()),
            ArgumentKey::Holder(shape) => Fact {
                held: Some(shape.clone()),
                ..Fact::new(DType::Resource, Shape::scalar())
            },
            ArgumentKey::Variable(v) => Fact {
                variable: Some((v.0.dtype(), v.0.shape().clone())),
                ..Fact::new(DType::Resource, Shape::scalar())
            },
        };
        let variables: SmallVec<[Option<Arc<Variable>>; 4]> = key
            .arguments
            .iter()
            .map(|a| match a {
                ArgumentKey::Variable(v) => Some(v.0.clone()),
                ArgumentKey::Value(..) | ArgumentKey::Holder(_) => None,
            })
            .collect();
        let feeds: Vec<(OutputId, Fact)> = function
            .inputs
            .iter()
            .zip(&key.arguments)
            .map(|(&node, argument)| (OutputId { node, index: 0 }, fact(argument)))
            .collect();
        let is_live = |i: &i64| key.live.as_ref().is_none_or(|live| live.contains(i));
        let values = (0i64..).zip(&function.outputs).filter(|(i, _)| is_live(i));
        let values = values.map(|(_, &o)| Fetch::Value(o));
        let runs = runs.iter().map(|n| Fetch::Run(*n));
        let fetches: Vec<Fetch> = values.chain(runs).collect();
        let data = function.body.with_library_of(&self.program.graph);
        let devices = vec![self.program.device as u32; data.len()];
        let request = Request {
            feeds: &feeds,
            fetches: &fetches,
            devices: &devices,
            variables: &variables,
        };
        let context = PlanContext {
            path: &key.path,
            ..self.step.context
        };
        let mut plan = compile(&data, &request, context)?;
        // The threads are those of the step around it.
        plan.parallel = false;
        let held = reserve_plan(self.step.plan_memory, &plan, || self.step.calls.clear())?;
        Ok(CompiledStep::new(plan, held))
    }

    /// Runs a plan of a call in a frame, and collects its results.
    pub(super) fn run_call(
        &self,
        compiled: &CompiledStep,
        frame: &Frame,
        path: &str,
        arguments: impl IntoIterator<Item = Tensor>,
        results: &mut SmallVec<[Option<Tensor>; 4]>,
    ) -> Result<(), SessionError> {
        let plan = &compiled.plan;
        for (slots, value) in plan.feeds.iter().zip(arguments) {
            let Some((&(program, slot), others)) = slots.split_last() else {
                continue;
            };
            for &(program, slot) in others {
                // SAFETY: nothing else has the frame yet.
                unsafe { frame.parts[program as usize].hold(slot, Some(value.clone())) };
            }
            // A value that the caller does not hold may be changed in place.
            // SAFETY: as above.
            unsafe { frame.parts[program as usize].hold(slot, Some(value)) };
        }
        let step = Step {
            plan,
            frame,
            replay: false,
            depth: self.step.depth + 1,
            context: PlanContext {
                path,
                ..self.step.context
            },
            ..*self.step
        };
        step.run()?;
        step.collect(results)?;
        for (number, variable) in &plan.handles {
            let handle = Tensor::handle(DType::Resource, variable.clone() as SharedObject);
            if let (Some(result), Ok(handle)) = (results.get_mut(*number), handle) {
                *result = Some(handle);
            }
        }
        Ok(())
    }
}

/// The properties of argument `i` on which a function's plan depends.
pub(super) fn argument_key(function: &Function, i: usize, argument: &Tensor) -> ArgumentKey {
    if argument.dtype() == DType::Resource && argument.dims().is_empty() {
        if let Some(variable) = argument.object::<Variable>() {
            return ArgumentKey::Variable(ByAddress(variable));
        }
        if let Some(holder) = argument.object::<HolderHandle>()
            && function.only_takes_from(i)
        {
            return ArgumentKey::Holder(holder.0.shape());
        }
    }
    ArgumentKey::Value(argument.dtype(), argument.shape())
}

fn check<T: Borrow<Tensor>>(function: &Function, arguments: &[T]) -> Result<(), KernelError> {
    let (name, expected) = (&function.name, function.arguments.len());
    if expected != arguments.len() {
        return Err(KernelError::Invalid(format!(
            "function '{name}' takes {}, not {}",
            counted(expected, "argument"),
            arguments.len()
        )));
    }
    for (port, argument) in function.arguments.iter().zip(arguments) {
        let argument = argument.borrow();
        if port.dtype != argument.dtype() {
            return Err(KernelError::Invalid(format!(
                "argument '{}' of function '{name}' is {}, not {}",
                port.name,
                port.dtype,
                argument.dtype()
            )));
        }
    }
    Ok(())
}

/// Converts an error inside a function for the node that calls it.
pub(super) fn error_in_function(function: &str, error: SessionError) -> KernelError {
    let at = |node: &str, op: &str, origin: String, source: KernelError| KernelError::Function {
        function: function.to_owned(),
        node: node.to_owned(),
        op: op.to_owned(),
        origin,
        source: Box::new(source),
    };
    match error {
        SessionError::Timeout { .. } | SessionError::Cancelled { .. } => KernelError::Stopped,
        SessionError::Kernel {
            source: KernelError::Stopped,
            ..
        } => KernelError::Stopped,
        SessionError::Kernel {
            node,
            op,
            origin,
            source,
        } => at(&node, &op, origin.to_string(), source),
        SessionError::Memory {
            node,
            op,
            origin,
            dtype,
            shape,
            ..
        } => {
            let dims = shape.to_dims().unwrap_or_default();
            let source = thalweg_tensor::TensorError::TooLarge { dtype, dims };
            at(&node, &op, origin.to_string(), source.into())
        }
        other if is_extracted(function) => KernelError::Invalid(other.to_string()),
        other => KernelError::Invalid(format!("in function '{function}': {other}")),
    }
}
