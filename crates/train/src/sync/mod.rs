//! Training in step: workers give gradients, and one update applies the mean of as many as are asked
//! for. As TensorFlow's SyncReplicasOptimizer, but for the barrier: a turn belongs to one worker, so
//! that one which dies takes nobody's with it.

use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::{SourceOps, StateOps, Variable};
use thalweg_tensor::{DType, Shape};

use crate::optimizers::Optimizer;

/// How workers train in step.
#[derive(Clone, Copy, Debug)]
pub struct SyncReplicas<O> {
    optimizer: O,
    workers: u32,
    aggregate: u32,
}

/// What was built for training in step. Every process that takes part builds it from the same graph,
/// and finds what the others have built by its names.
#[derive(Clone, Debug)]
pub struct Synchronized<'g> {
    /// How many gradients an update takes, at least.
    pub aggregate: u32,
    /// Fed to [`Synchronized::give`]: the global step that a worker's gradients begin from, a scalar
    /// `i64`.
    pub local_step: Output<'g>,
    /// Whether all variables of the graph have values, a scalar bool.
    pub ready: Output<'g>,
    /// Tells the accumulators which step it is: to be run before the first turn.
    pub begin: Operation<'g>,
    /// Computes gradients and gives them; those of a step that is over by then are dropped. One for each
    /// worker.
    pub give: Vec<Operation<'g>>,
    /// Waits for a turn of a worker, one for each; then gives the global step.
    pub turn: Vec<Output<'g>>,
    /// How many turns of a worker have not been taken, scalar `i32`s.
    pub turns: Vec<Output<'g>>,
    /// Gives a worker one more turn.
    pub grant: Vec<Operation<'g>>,
    /// No worker gets a turn any more: who waits for one hears that there is none.
    pub close: Operation<'g>,
    /// Waits for any worker to have given gradients, and tells which, a scalar `i64`.
    pub given: Output<'g>,
    /// How many gradients of each variable have come for the next update, scalar `i32`s.
    pub counts: Vec<Output<'g>>,
    /// Takes the mean of the gradients, updates the variables, and adds one to the global step. To be
    /// run when all counts suffice: it waits otherwise.
    pub update: Operation<'g>,
    /// The global step.
    pub global_step: Variable<'g>,
}

impl<O> SyncReplicas<O> {
    /// For so many workers, by an optimizer that updates with the mean of their gradients.
    pub fn new(optimizer: O, workers: u32) -> SyncReplicas<O> {
        SyncReplicas {
            optimizer,
            workers,
            aggregate: workers.max(1),
        }
    }

    /// How many gradients an update takes, at least 1: with fewer than there are workers, the slowest are
    /// not waited for; with more, workers give several.
    pub fn aggregate(self, gradients: u32) -> SyncReplicas<O> {
        SyncReplicas {
            aggregate: gradients.max(1),
            ..self
        }
    }

    /// Builds what trains `loss`. Accumulators stand beside their variables, and the turns beside the
    /// global step.
    #[track_caller]
    pub fn minimize<'g>(&self, loss: Output<'g>, global_step: Variable<'g>) -> Synchronized<'g>
    where
        O: Optimizer<'g>,
    {
        let g = loss.graph();
        let variables = g.trainable_variables();
        let found = self.optimizer.compute_gradients(loss, &variables);
        g.at_caller(|| g.name_scope("SyncReplicas", || self.build(g, &found, global_step)))
    }

    /// Builds it in the scope of the caller.
    fn build<'g>(
        &self,
        g: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        global_step: Variable<'g>,
    ) -> Synchronized<'g>
    where
        O: Optimizer<'g>,
    {
        let local_step = g.placeholder("local_step", DType::I64, Shape::scalar());
        let sums: Vec<Accumulator<'g>> = gradients
            .iter()
            .map(|&(gradient, variable)| {
                g.colocate_with(variable.handle().operation(), || {
                    self.accumulator(gradient, variable, local_step, global_step)
                })
            })
            .collect();
        let means: Vec<(Output<'g>, Variable<'g>)> =
            sums.iter().map(|s| (s.mean, s.variable)).collect();
        let update = self.optimizer.apply_gradients(g, &means, Some(global_step));
        let applied = g.group("given", sums.iter().map(|s| s.apply));
        let begin = g.group("begin", sums.iter().map(|s| s.begin));
        let ready = g.all_initialized();
        g.colocate_with(global_step.handle().operation(), || {
            let done = queue(g, "sync/given".to_owned());
            let given = take(done);
            let workers: Vec<Worker<'g>> = (0..self.workers)
                .map(|number| worker(number, done, applied, global_step))
                .collect();
            Synchronized {
                aggregate: self.aggregate,
                local_step,
                ready,
                begin,
                give: workers.iter().map(|w| w.give).collect(),
                turn: workers.iter().map(|w| w.turn).collect(),
                turns: workers.iter().map(|w| w.turns).collect(),
                grant: workers.iter().map(|w| w.grant).collect(),
                close: g.group("close", workers.iter().map(|w| w.close)),
                given,
                counts: sums.iter().map(|s| s.count).collect(),
                update,
                global_step,
            }
        })
    }

    /// What adds up the gradients of a variable.
    fn accumulator<'g>(
        &self,
        gradient: Output<'g>,
        variable: Variable<'g>,
        local_step: Output<'g>,
        global_step: Variable<'g>,
    ) -> Accumulator<'g> {
        let g = gradient.graph();
        let (dtype, shape) = (gradient.dtype(), variable.value().shape());
        let name = variable.handle().operation().name();
        let accumulator = g
            .op("ResourceConditionalAccumulator")
            .attr("dtype", dtype)
            .attr("shape", shape.clone())
            .attr("shared_name", format!("sync/{name}"))
            .output();
        let apply = g
            .op("ResourceAccumulatorApplyGradient")
            .input(accumulator)
            .input(local_step)
            .input(gradient)
            .build();
        let begin = g
            .op("ResourceAccumulatorSetGlobalStep")
            .input(accumulator)
            .input(global_step.value())
            .build();
        let count = g
            .op("ResourceAccumulatorNumAccumulated")
            .input(accumulator)
            .output();
        let mean = g
            .op("ResourceAccumulatorTakeGradient")
            .input(accumulator)
            .input(g.constant(self.aggregate as i32))
            .attr("dtype", dtype)
            .output();
        // What an update relies on is the variable's shape.
        let mean = g.op("EnsureShape").input(mean).attr("shape", shape);
        Accumulator {
            variable,
            apply,
            begin,
            count,
            mean: mean.output(),
        }
    }
}

/// What adds up the gradients of a variable until there are enough.
struct Accumulator<'g> {
    variable: Variable<'g>,
    /// Gives it a gradient.
    apply: Operation<'g>,
    /// Tells it the global step.
    begin: Operation<'g>,
    /// How many gradients it has.
    count: Output<'g>,
    /// Takes the mean of them.
    mean: Output<'g>,
}

/// What one worker's part is made of; as [`Synchronized`] has it.
struct Worker<'g> {
    turn: Output<'g>,
    turns: Output<'g>,
    grant: Operation<'g>,
    give: Operation<'g>,
    /// Closes the queue of its turns.
    close: Operation<'g>,
}

/// A worker's turns, and what tells `done` that its gradients were applied.
fn worker<'g>(
    number: u32,
    done: Output<'g>,
    applied: Operation<'g>,
    global_step: Variable<'g>,
) -> Worker<'g> {
    let g = done.graph();
    let turns = queue(g, format!("sync/turns_{number}"));
    let token = take(turns).operation();
    Worker {
        turn: g.control_dependencies([token], || global_step.read()),
        turns: g.op("QueueSizeV2").input(turns).output(),
        grant: put(turns, 0),
        give: g.control_dependencies([applied], || put(done, i64::from(number))),
        close: g.op("QueueCloseV2").input(turns).build(),
    }
}

/// A queue of numbers.
fn queue(g: &Graph, name: String) -> Output<'_> {
    g.op("FIFOQueueV2")
        .attr("component_types", vec![DType::I64])
        .attr("shapes", vec![Shape::scalar()])
        .attr("shared_name", name)
        .output()
}

/// The next number of a queue.
fn take(queue: Output<'_>) -> Output<'_> {
    let node = queue.graph().op("QueueDequeueV2").input(queue);
    node.attr("component_types", vec![DType::I64]).output()
}

/// Puts a number on a queue.
fn put(queue: Output<'_>, value: i64) -> Operation<'_> {
    let g = queue.graph();
    let value = g.constant(value);
    g.op("QueueEnqueueV2").input(queue).input(value).build()
}
