//! Calls of functions: each is a step of its own, on the thread that calls.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::{KernelError, SharedObject, Variable};
use thalweg_graph::function::MAX_CALL_DEPTH;
use thalweg_graph::{Fact, Func, Function, Node, NodeId, OutputId};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Tensor};

use super::{ProgramRun, Step};
use crate::compiled_step::{ArgumentKey, ByAddress, CallKey, CompiledStep, reserve_plan};
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
        let name = &function.name;
        let Some(function) = self.program.graph.function(name) else {
            return Err(KernelError::Invalid(format!(
                "the graph has no function '{name}': define it, or import the library that has it"
            )));
        };
        // Each call takes room on the thread's stack.
        if self.step.depth >= MAX_CALL_DEPTH {
            return Err(KernelError::Invalid(format!(
                "function '{name}' is called inside of {MAX_CALL_DEPTH} others: use a While in place of \
                 a function that calls itself"
            )));
        }
        // A loop whose functions have no instruction would never check otherwise.
        if self.check_limits(node).is_err() {
            return Err(KernelError::Stopped);
        }
        check(function, &arguments)?;
        let variables: SmallVec<[Option<Arc<Variable>>; 4]> = arguments
            .iter()
            .map(|a| match a.dtype() {
                DType::Resource if a.dims().is_empty() => a.object::<Variable>(),
                _ => None,
            })
            .collect();
        let path = match self.step.context.path {
            "" => node.name.clone(),
            outer => format!("{outer}/{}", node.name),
        };
        let key = CallKey {
            function: ByAddress(function.clone()),
            path,
            device: self.program.device,
            fuse: self.step.context.fuse,
            arguments: arguments
                .iter()
                .zip(&variables)
                .map(|(a, v)| match v {
                    Some(v) => ArgumentKey::Variable(ByAddress(v.clone())),
                    None => ArgumentKey::Value(a.dtype(), a.dims().into()),
                })
                .collect(),
            live: live.map(SmallVec::from_slice),
        };
        let compiled = match self.step.calls.get(&key) {
            Some(compiled) => compiled,
            None => {
                let runs = function.runs(node.op.calls);
                let compiled = self.plan(function, &runs, &key, &arguments, &variables);
                let compiled = Arc::new(compiled.map_err(|e| error_in_function(name, e))?);
                self.step.calls.keep(key.clone(), compiled)
            }
        };
        let results = self.step_of(&compiled, &key.path, arguments);
        let results = results.map_err(|e| error_in_function(name, e))?;
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

    /// Compiles a function for arguments like these.
    fn plan(
        &self,
        function: &Function,
        runs: &[NodeId],
        key: &CallKey,
        arguments: &[Tensor],
        variables: &[Option<Arc<Variable>>],
    ) -> Result<CompiledStep, SessionError> {
        let feeds: Vec<(OutputId, Fact)> = function
            .inputs
            .iter()
            .zip(arguments.iter().zip(variables))
            .map(|(&node, (argument, variable))| {
                let fact = Fact::new(argument.dtype(), argument.shape());
                let variable = variable.as_ref().map(|v| (v.dtype(), v.shape().clone()));
                (OutputId { node, index: 0 }, Fact { variable, ..fact })
            })
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
            variables,
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

    fn step_of(
        &self,
        compiled: &CompiledStep,
        path: &str,
        arguments: Vec<Tensor>,
    ) -> Result<SmallVec<[Option<Tensor>; 4]>, SessionError> {
        let plan = &compiled.plan;
        let frame = compiled.take_frame(self.step.devices, self.step.context.collectives)?;
        for (slots, value) in plan.feeds.iter().zip(&arguments) {
            for &(program, slot) in slots {
                // SAFETY: nothing else has the frame yet.
                unsafe { frame.parts[program as usize].hold(slot, Some(value.clone())) };
            }
        }
        // A value that the caller does not hold may be changed in place.
        drop(arguments);
        let step = Step {
            plan,
            frame: &frame,
            replay: false,
            depth: self.step.depth + 1,
            context: PlanContext {
                path,
                ..self.step.context
            },
            ..*self.step
        };
        let mut results = SmallVec::new();
        let result = step.run().and_then(|()| step.collect(&mut results));
        compiled.return_frame(frame, result.is_ok());
        result?;
        for (number, variable) in &plan.handles {
            let handle = Tensor::handle(DType::Resource, variable.clone() as SharedObject);
            if let (Some(result), Ok(handle)) = (results.get_mut(*number), handle) {
                *result = Some(handle);
            }
        }
        Ok(results)
    }
}

fn check(function: &Function, arguments: &[Tensor]) -> Result<(), KernelError> {
    let (name, expected) = (&function.name, function.arguments.len());
    if expected != arguments.len() {
        return Err(KernelError::Invalid(format!(
            "function '{name}' takes {}, not {}",
            counted(expected, "argument"),
            arguments.len()
        )));
    }
    for (port, argument) in function.arguments.iter().zip(arguments) {
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
fn error_in_function(function: &str, error: SessionError) -> KernelError {
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
        other => KernelError::Invalid(format!("in function '{function}': {other}")),
    }
}
