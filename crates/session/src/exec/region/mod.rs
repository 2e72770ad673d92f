//! The interpreter of regions: TensorFlow 1's control flow, with its meaning.
//!
//! A value may be *dead*: the node that would have made it was on the side of a Switch that was not taken. A node with
//! a dead input does not run and gives dead values on; a Merge takes the one that is not. A loop runs in a *frame* of
//! its own, each turn of it an *iteration* with values of its own. The rules are those of TensorFlow's executor
//! ("Implementation of Control Flow in TensorFlow", 2017).

mod frames;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_device::{Argument, GateGuard, KernelError, SharedObject, Variable, evaluate_in};
use thalweg_tensor::{DType, Tensor};

use super::ProgramRun;
use super::step_environment::StepEnvironment;
use super::waiting::{WaiterId, Waiting};
use frames::{LoopFrames, LoopPlace, SlotValue};
use thalweg_plan::SessionError;
use thalweg_plan::failed;
use thalweg_plan::region::{Kind, Region, RegionNode};

/// The op that is never dead, whatever it waits for.
const CONTROL_TRIGGER: &str = "ControlTrigger";

/// Number of nodes that run between two checks of timeout and cancellation.
const NODES_PER_CHECK: usize = 64;

/// A node that can run.
#[derive(Clone)]
struct ReadyNode {
    /// Identifies it among the tasks of the region.
    number: WaiterId,
    node: u32,
    at: LoopPlace,
    /// `true` if it is dead.
    dead: bool,
    /// By input: its value. Of a Merge: the one that came, and which it is.
    inputs: SmallVec<[SlotValue; 4]>,
    merged: u32,
}

struct Interpreter<'a> {
    run: &'a ProgramRun<'a>,
    waiting: &'a Waiting,
    /// Number of tasks so far.
    tasks: WaiterId,
    /// Tasks that wait for other steps.
    blocked: FxHashMap<WaiterId, ReadyNode>,
    region: &'a Region,
    frames: LoopFrames,
    ready: VecDeque<ReadyNode>,
    /// By result: its value; none where nothing came yet.
    results: Vec<SlotValue>,
}

impl ProgramRun<'_> {
    /// Runs a region on these arguments.
    pub(super) fn region(
        &self,
        region: &Region,
        arguments: &[Tensor],
    ) -> Result<Vec<Tensor>, SessionError> {
        let waiting = Waiting::new(self.step.parker(), Vec::new());
        let mut interpreter = Interpreter {
            run: self,
            waiting: &waiting,
            tasks: 0,
            blocked: FxHashMap::default(),
            region,
            frames: LoopFrames::new(),
            ready: VecDeque::new(),
            results: vec![None; region.results.len()],
        };
        interpreter.start(arguments);
        let mut since = 0;
        loop {
            let Some(task) = interpreter.ready.pop_front() else {
                let Some(blocked) = interpreter.blocked.values().next() else {
                    break;
                };
                self.check_limits(&region.nodes[blocked.node as usize].node)?;
                for woken in waiting.wait(self.step.deadline) {
                    interpreter.ready.extend(interpreter.blocked.remove(&woken));
                }
                continue;
            };
            since += 1;
            if since == NODES_PER_CHECK {
                since = 0;
                self.check_limits(&region.nodes[task.node as usize].node)?;
            }
            interpreter.task(task)?;
        }
        let named = interpreter.results.into_iter().zip(&region.results);
        named
            .map(|(value, (node, _, name))| {
                value.ok_or_else(|| {
                    failed(
                        &region.nodes[*node as usize].node,
                        KernelError::Invalid(format!(
                            "'{name}' has no value: it is in a branch that was not taken, or in a \
                             loop; fetch what comes out of it, a Merge or an Exit"
                        )),
                    )
                })
            })
            .collect()
    }
}

impl Interpreter<'_> {
    /// Delivers the arguments, and queues the nodes that wait for nothing.
    fn start(&mut self, arguments: &[Tensor]) {
        let root = LoopPlace::ROOT;
        // Nothing is over until all have been delivered.
        self.frames.hold(root);
        for (at, node) in self.region.nodes.iter().enumerate() {
            match node.kind {
                Kind::Argument(i) => {
                    let value = arguments.get(i).cloned();
                    self.deliver(at as u32, root, &[value], false);
                }
                _ if node.node.inputs.is_empty() && node.controls == 0 => {
                    self.push(ReadyNode {
                        number: 0,
                        node: at as u32,
                        at: root,
                        dead: false,
                        inputs: SmallVec::new(),
                        merged: 0,
                    });
                }
                _ => {}
            }
        }
    }

    fn push(&mut self, task: ReadyNode) {
        self.frames.hold(task.at);
        self.tasks += 1;
        let number = self.tasks;
        self.ready.push_back(ReadyNode { number, ..task });
    }

    /// Runs a node and delivers its outputs.
    fn task(&mut self, task: ReadyNode) -> Result<(), SessionError> {
        let node = &self.region.nodes[task.node as usize];
        let at = task.at;
        let mut outputs: SmallVec<[SlotValue; 4]> = SmallVec::new();
        let count = node.node.outputs.len();
        if task.dead {
            outputs.resize(count, None);
        } else {
            match self.compute(node, &task, &mut outputs) {
                Ok(()) => {}
                Err(KernelError::Blocked) => {
                    self.blocked.insert(task.number, task);
                    return Ok(());
                }
                Err(e) => return Err(self.run.error_of(&node.node, e)),
            }
            if node.node.op.effect.may_block() {
                self.waiting.done(task.number);
            }
        }
        match &node.kind {
            Kind::Enter { frame, constant } => {
                let inside = self.frames.enter(at, frame, &self.region.enters);
                if *constant && !task.dead {
                    self.frames
                        .keep_constant(inside, task.node, outputs[0].clone());
                }
                if task.dead {
                    self.frames.mark_dead(inside);
                }
                self.deliver(task.node, inside, &outputs, task.dead);
                if *constant {
                    // Iterations that have begun already need it too.
                    for later in self.frames.later(inside) {
                        self.deliver(task.node, later, &outputs, task.dead);
                    }
                }
                self.frames.entered(inside);
                self.remove_finished(inside);
            }
            Kind::Exit => {
                if let Some(outside) = self.frames.exit(at, task.node, task.dead) {
                    self.deliver(task.node, outside, &outputs, task.dead);
                }
            }
            Kind::Next if task.dead => {}
            Kind::Next => {
                let (next, begins) = self.frames.next(at);
                if begins {
                    for (node, value) in self.frames.constants(next) {
                        self.deliver(node, next, &[value], false);
                    }
                }
                self.deliver(task.node, next, &outputs, false);
            }
            _ => self.deliver(task.node, at, &outputs, task.dead),
        }
        self.frames.release(at);
        self.remove_finished(at);
        Ok(())
    }

    /// Removes finished iterations and frames, from an iteration on: exits of a finished frame that had no value are
    /// dead outside of it.
    fn remove_finished(&mut self, at: LoopPlace) {
        let mut over = self.frames.finish(at);
        while let Some(frame) = over {
            for exit in frame.dead {
                let count = self.region.nodes[exit as usize].node.outputs.len();
                let dead: SmallVec<[SlotValue; 4]> = SmallVec::from_elem(None, count);
                self.deliver(exit, frame.outside, &dead, true);
            }
            self.frames.release(frame.outside);
            over = self.frames.finish(frame.outside);
        }
    }

    /// Delivers the outputs of a node to their users and to the nodes that wait for it.
    fn deliver(&mut self, node: u32, at: LoopPlace, outputs: &[SlotValue], dead: bool) {
        if at.is_root() {
            for (i, (of, index, _)) in self.region.results.iter().enumerate() {
                if *of == node {
                    self.results[i] = outputs.get(*index as usize).cloned().flatten();
                }
            }
        }
        let region = self.region;
        let source = &region.nodes[node as usize];
        for &(index, user, input) in &source.users {
            let value = outputs.get(index as usize).cloned().flatten();
            self.arrive(user, at, Some((input, value)), false);
        }
        for &user in &source.waiting {
            self.arrive(user, at, None, dead);
        }
    }

    /// Records that an input, or a node that is waited for, has come; queues the node where it was the last.
    fn arrive(&mut self, node: u32, at: LoopPlace, input: Option<(u32, SlotValue)>, dead: bool) {
        let to = &self.region.nodes[node as usize];
        let Some(state) = self.frames.state(at, node, to) else {
            return;
        };
        let merge = match to.kind {
            Kind::Merge { looped } => Some(looped),
            _ => None,
        };
        match input {
            None => {
                state.controls = state.controls.saturating_sub(1);
                state.dead |= dead && merge.is_none();
            }
            Some((i, value)) => {
                // More than one comes where an Exit lets values out in several turns.
                state.values = state.values.saturating_sub(1);
                if merge.is_none() {
                    state.dead |= value.is_none();
                    state.inputs[i as usize] = value;
                } else if state.merged.is_none() && value.is_some() {
                    state.merged = Some(i);
                    state.inputs = SmallVec::from_elem(value, 1);
                }
            }
        }
        let came = match merge {
            // One value comes into each iteration: from outside, or from the one before.
            Some(true) => state.merged.is_some() || state.values < to.node.inputs.len() as u32,
            Some(false) => state.merged.is_some() || state.values == 0,
            None => state.values == 0,
        };
        if state.ran || state.controls > 0 || !came {
            return;
        }
        state.ran = true;
        let task = ReadyNode {
            number: 0,
            node,
            at,
            dead: match merge {
                Some(_) => state.merged.is_none(),
                None => state.dead && to.node.op.name != CONTROL_TRIGGER,
            },
            inputs: std::mem::take(&mut state.inputs),
            merged: state.merged.unwrap_or(0),
        };
        self.push(task);
    }

    fn compute(
        &self,
        node: &RegionNode,
        task: &ReadyNode,
        outputs: &mut SmallVec<[SlotValue; 4]>,
    ) -> Result<(), KernelError> {
        let input = |i: usize| task.inputs.get(i).cloned().flatten();
        match &node.kind {
            Kind::Nothing | Kind::Argument(_) => {}
            Kind::Constant => outputs.extend(node.node.outputs.iter().map(|f| f.value.clone())),
            Kind::Enter { .. } | Kind::Exit | Kind::Next | Kind::Pass => outputs.push(input(0)),
            Kind::Merge { .. } => {
                outputs.push(input(0));
                outputs.push(Some(Tensor::scalar(task.merged as i32)));
            }
            Kind::Switch => {
                let on = input(1).ok_or(KernelError::Argument("an input"))?;
                let taken = on.to_scalar::<bool>()?;
                outputs.push(input(0).filter(|_| !taken));
                outputs.push(input(0).filter(|_| taken));
            }
            Kind::Handle => {
                let node = &node.node;
                let known = node.outputs.first().and_then(|f| f.variable.clone());
                let (dtype, shape) = known.ok_or(KernelError::Argument("a variable"))?;
                let name = match node.attrs.str("shared_name") {
                    "" => &node.name,
                    shared => shared,
                };
                let step = self.run.step;
                let on = (self.run.program.device as u32, self.run.device);
                let container = node.attrs.str("container");
                let store = step.context.store;
                let variable = store.variable(on, container, name, dtype, &shape)?;
                outputs.push(Some(Tensor::handle(
                    DType::Resource,
                    variable as SharedObject,
                )?));
            }
            Kind::Kernel(op) => {
                let tensors = task.inputs.iter().flatten();
                let arguments: SmallVec<[Argument<'_>; 4]> = tensors.map(Argument::Value).collect();
                let run = self.run.waiting(self.waiting, task.number);
                let around = StepEnvironment {
                    run: &run,
                    node: &node.node,
                };
                let counter = node.counter.as_deref();
                let cpu = self.run.cpu;
                // Variables that loops and branches update are held, too.
                let variables: SmallVec<[Arc<Variable>; 2]> = match self.run.step.controls.channels
                {
                    Some(_) => {
                        let handles = task.inputs.iter().flatten();
                        let handles = handles.filter(|t| t.dtype() == DType::Resource);
                        handles.filter_map(Tensor::object).collect()
                    }
                    None => SmallVec::new(),
                };
                let _updating: SmallVec<[GateGuard<'_>; 2]> =
                    variables.iter().map(|v| v.gate().hold()).collect();
                let results = evaluate_in(cpu, op, &node.node, &arguments, counter, &around)?;
                outputs.extend(results.into_iter().map(Some));
            }
        }
        Ok(())
    }
}
