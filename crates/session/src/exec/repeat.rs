//! Loops of functions: the condition and the body are compiled once, and run in the same memory in every iteration.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::{HolderHandle, KernelError, Variable, is_true};
use thalweg_graph::flow::is_extracted;
use thalweg_graph::{Func, Function, Node};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Tensor};

use super::ProgramRun;
use super::call::{argument_key, error_in_function};
use crate::compiled_step::{ArgumentKey, ByAddress, CompiledStep};
use crate::frame::Frame;
use thalweg_plan::Home;

/// The values of a loop.
type Values = SmallVec<[Option<Tensor>; 4]>;

/// A function that is called again and again, with the memory of its calls.
struct RepeatedCall<'a> {
    run: &'a ProgramRun<'a>,
    node: &'a Node,
    function: &'a Arc<Function>,
    live: Option<&'a [i64]>,
    arguments: SmallVec<[ArgumentKey; 4]>,
    path: String,
    ready: Option<(Arc<CompiledStep>, Box<Frame>)>,
}

impl<'a> RepeatedCall<'a> {
    fn new(
        run: &'a ProgramRun<'a>,
        node: &'a Node,
        function: &'a Func,
        live: Option<&'a [i64]>,
    ) -> Result<RepeatedCall<'a>, KernelError> {
        Ok(RepeatedCall {
            run,
            node,
            function: run.function(function)?,
            live,
            arguments: SmallVec::new(),
            path: String::new(),
            ready: None,
        })
    }

    /// Compiles the function for these values, if its plan does not fit them. A dimension that changes from iteration
    /// to iteration is unknown in the next plan, so that few plans are made.
    fn prepare(&mut self, values: &[Option<Tensor>]) -> Result<(), KernelError> {
        let fits = self.ready.is_some()
            && self
                .arguments
                .iter()
                .zip(values)
                .all(|(a, v)| fits(a, v.as_ref()));
        if fits {
            return Ok(());
        }
        self.end(true);
        let values = values
            .iter()
            .map(|v| v.as_ref().ok_or(KernelError::Argument("a value")));
        let values: SmallVec<[&Tensor; 4]> = values.collect::<Result<_, _>>()?;
        self.run.check_call(self.node, self.function, &values)?;
        let arguments = values.iter().enumerate().map(|(i, value)| {
            let now = argument_key(self.function, i, value);
            match self.arguments.get(i) {
                Some(before) => common(before, now),
                None => now,
            }
        });
        let key = self
            .run
            .call_key(self.node, self.function, arguments.collect(), self.live);
        let compiled = self.run.compiled_call(self.node, self.function, &key)?;
        let step = self.run.step;
        let frame = compiled.take_frame(step.devices, step.context.collectives);
        let frame = frame.map_err(|e| error_in_function(&self.function.name, e))?;
        self.ready = Some((compiled, frame));
        self.arguments = key.arguments;
        self.path = key.path;
        Ok(())
    }

    /// Runs the function on `arguments`, into `results`.
    fn call(
        &mut self,
        arguments: impl IntoIterator<Item = Tensor>,
        results: &mut Values,
    ) -> Result<(), KernelError> {
        let Some((compiled, frame)) = &mut self.ready else {
            return Err(KernelError::Argument("a plan"));
        };
        // Memory of earlier results, for those that lie in tensors of their own.
        for (fetch, earlier) in compiled.plan.fetches.iter().zip(results.iter_mut()) {
            let Some(fetch) = fetch else { continue };
            let plan = compiled.plan.slot(fetch.program, fetch.slot);
            if matches!(plan.home, Home::Own)
                && let Some(earlier) = earlier.take()
            {
                // SAFETY: no step runs in the frame.
                unsafe { frame.parts[fetch.program as usize].reuse(fetch.slot, plan, earlier) };
            }
        }
        let done = self
            .run
            .run_call(compiled, frame, &self.path, arguments, results);
        // A value that the frame holds could not be changed in place.
        frame.clear(&compiled.plan);
        done.map_err(|e| error_in_function(&self.function.name, e))
    }

    /// `true` for the results of the function that are written to memory of earlier ones.
    fn reuses(&self, result: usize) -> bool {
        self.ready.as_ref().is_some_and(|(compiled, _)| {
            let plan = &compiled.plan;
            let fetch = plan.fetches.get(result).and_then(Option::as_ref);
            fetch.is_some_and(|f| {
                matches!(
                    plan.slot(f.program, f.slot).home,
                    Home::Arena(_) | Home::Own
                )
            })
        })
    }

    /// Gives the memory back.
    fn end(&mut self, succeeded: bool) {
        if let Some((compiled, frame)) = self.ready.take() {
            compiled.return_frame(frame, succeeded);
        }
    }
}

impl Drop for RepeatedCall<'_> {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl ProgramRun<'_> {
    /// Calls a body on its own results for as long as a condition on them returns true; `live` are the numbers of the
    /// values that are computed.
    pub(super) fn repeat(
        &self,
        node: &Node,
        (condition, body): (&Func, &Func),
        values: Vec<Tensor>,
        live: Option<&[i64]>,
    ) -> Result<Vec<Tensor>, KernelError> {
        let mut condition = RepeatedCall::new(self, node, condition, None)?;
        let mut body = RepeatedCall::new(self, node, body, live)?;
        let given = body.function.results.len();
        if given != values.len() {
            return Err(KernelError::Invalid(format!(
                "the body of a loop over {} gives {given}",
                counted(values.len(), "value"),
            )));
        }
        let computed: SmallVec<[usize; 4]> = match live {
            None => (0..values.len()).collect(),
            Some(live) => live
                .iter()
                .filter_map(|&i| usize::try_from(i).ok())
                .collect(),
        };
        let mut values: Values = values.into_iter().map(Some).collect();
        let mut goes_on: Values = SmallVec::new();
        // Memory of earlier values, for later ones.
        let mut results: Values = SmallVec::new();
        loop {
            condition.prepare(&values)?;
            condition.call(values.iter().flatten().cloned(), &mut goes_on)?;
            let first = goes_on.first().and_then(Option::as_ref);
            let first = first.ok_or(KernelError::Argument("a condition"))?;
            let repeats = match is_extracted(&condition.function.name) {
                // LoopCond takes a scalar.
                true => first.to_scalar::<bool>()?,
                false => is_true(first)?,
            };
            if !repeats {
                break;
            }
            if self.check_limits(node).is_err() {
                return Err(KernelError::Stopped);
            }
            body.prepare(&values)?;
            let mut number = 0;
            let arguments = values.iter_mut().enumerate().filter_map(|(i, value)| {
                // A value whose memory is used again stays here; the body alone has any other.
                let kept = match computed.get(number) {
                    Some(&at) if at == i => {
                        number += 1;
                        body.reuses(number - 1)
                    }
                    _ => true,
                };
                match kept {
                    true => value.clone(),
                    false => value.take(),
                }
            });
            let arguments: SmallVec<[Tensor; 8]> = arguments.collect();
            body.call(arguments, &mut results)?;
            for (&at, result) in computed.iter().zip(&mut results) {
                std::mem::swap(&mut values[at], result);
            }
        }
        condition.end(true);
        body.end(true);
        let values = values
            .into_iter()
            .map(|v| v.ok_or(KernelError::Argument("a value")));
        values.collect()
    }
}

/// `true` if a plan for such an argument is right for this value.
fn fits(argument: &ArgumentKey, value: Option<&Tensor>) -> bool {
    let Some(value) = value else {
        return false;
    };
    match argument {
        ArgumentKey::Value(dtype, shape) => {
            let variable = *dtype == DType::Resource && value.object::<Variable>().is_some();
            value.dtype() == *dtype && shape.admits(value.dims()) && !variable
        }
        ArgumentKey::Holder(shape) => {
            let holder = value.object::<HolderHandle>();
            holder.is_some_and(|h| shape.common(&h.0.shape()) == *shape)
        }
        ArgumentKey::Variable(ByAddress(variable)) => {
            value.object().is_some_and(|v| Arc::ptr_eq(&v, variable))
        }
    }
}

/// The properties that arguments of two iterations have in common.
fn common(before: &ArgumentKey, now: ArgumentKey) -> ArgumentKey {
    match (before, &now) {
        (ArgumentKey::Value(a, before), ArgumentKey::Value(b, shape)) if a == b => {
            ArgumentKey::Value(*a, before.common(shape))
        }
        (ArgumentKey::Holder(before), ArgumentKey::Holder(shape)) => {
            ArgumentKey::Holder(before.common(shape))
        }
        _ => now,
    }
}
