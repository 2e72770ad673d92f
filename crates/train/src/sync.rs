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
        let beside_step = global_step.handle().operation();
        let mut applied = Vec::new();
        let mut counts = Vec::new();
        let mut means = Vec::new();
        let mut begins = Vec::new();
        for &(gradient, variable) in gradients {
            let dtype = gradient.dtype();
            let name = variable.handle().operation().name();
            g.colocate_with(variable.handle().operation(), || {
                let accumulator = g
                    .op("ResourceConditionalAccumulator")
                    .attr("dtype", dtype)
                    .attr("shape", variable.value().shape())
                    .attr("shared_name", format!("sync/{name}"))
                    .output();
                applied.push(
                    g.op("ResourceAccumulatorApplyGradient")
                        .input(accumulator)
                        .input(local_step)
                        .input(gradient)
                        .build(),
                );
                begins.push(
                    g.op("ResourceAccumulatorSetGlobalStep")
                        .input(accumulator)
                        .input(global_step.value())
                        .build(),
                );
                let count = g.op("ResourceAccumulatorNumAccumulated").input(accumulator);
                counts.push(count.output());
                let mean = g
                    .op("ResourceAccumulatorTakeGradient")
                    .input(accumulator)
                    .input(g.constant(self.aggregate as i32))
                    .attr("dtype", dtype)
                    .output();
                // What an update relies on is the variable's shape.
                let mean = g
                    .op("EnsureShape")
                    .input(mean)
                    .attr("shape", variable.value().shape());
                means.push((mean.output(), variable));
            });
        }
        let update = self.optimizer.apply_gradients(g, &means, Some(global_step));
        let all = g.group("given", applied);
        let begin = g.group("begin", begins);
        let ready = g.all_initialized();
        g.colocate_with(beside_step, || {
            let queue = |name: String| {
                g.op("FIFOQueueV2")
                    .attr("component_types", vec![DType::I64])
                    .attr("shapes", vec![Shape::scalar()])
                    .attr("shared_name", name)
                    .output()
            };
            let take = |queue: Output<'g>| {
                g.op("QueueDequeueV2")
                    .input(queue)
                    .attr("component_types", vec![DType::I64])
                    .output()
            };
            let put = |queue: Output<'g>, value: i64| {
                let value = g.constant(value);
                g.op("QueueEnqueueV2").input(queue).input(value).build()
            };
            let done = queue("sync/given".to_owned());
            let mut built = Synchronized {
                aggregate: self.aggregate,
                local_step,
                ready,
                begin,
                give: Vec::new(),
                turn: Vec::new(),
                turns: Vec::new(),
                grant: Vec::new(),
                close: all,
                given: take(done),
                counts,
                update,
                global_step,
            };
            let mut closes = Vec::new();
            for worker in 0..self.workers {
                let turns = queue(format!("sync/turns_{worker}"));
                let token = take(turns).operation();
                let step = g.control_dependencies([token], || global_step.read());
                built.turn.push(step);
                built.turns.push(g.op("QueueSizeV2").input(turns).output());
                built.grant.push(put(turns, 0));
                let told = g.control_dependencies([all], || put(done, i64::from(worker)));
                built.give.push(told);
                closes.push(g.op("QueueCloseV2").input(turns).build());
            }
            built.close = g.group("close", closes);
            built
        })
    }
}
