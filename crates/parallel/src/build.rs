//! `DataParallel::build`: builds the towers, the reduction of their gradients, and the update of the variables.

use thalweg_graph::{Graph, Output};
use thalweg_ops::Variable;
use thalweg_optim::{Optimizer, create_global_step};

use crate::build_towers::build_towers;
use crate::error::ParallelError;
use crate::loss_scale::Scale;
use crate::options::DataParallel;
use crate::placement::Placement;
use crate::tower::Tower;
use crate::training::Training;
use crate::update::Update;

impl DataParallel {
    /// Builds a tower of the model on each device of this process, and their training.
    ///
    /// `tower` builds the model once for each tower, and returns its loss, a scalar. Layers or
    /// [`thalweg_layers::VariableScopes::get_variable`] must create its variables, so that towers share them, or have
    /// copies. `optimizer` gets the global step, for a learning rate that follows it.
    ///
    /// # Errors
    /// Options contradict each other; towers have different variables. Mistakes of the model are kept in the graph.
    #[track_caller]
    pub fn build<'g, O: Optimizer<'g>>(
        &self,
        g: &'g Graph,
        optimizer: impl FnOnce(Variable<'g>) -> O,
        mut tower: impl FnMut(&Tower<'g>) -> Output<'g>,
    ) -> Result<Training<'g>, ParallelError> {
        let built = g.at_caller(|| self.build_with(g, optimizer, |t| (tower(t), ())));
        built.map(|(training, _)| training)
    }

    /// [`DataParallel::build`] of towers that have something beside their loss, such as logits, an accuracy or metrics:
    /// returns what the function gave for each tower, in order.
    ///
    /// # Errors
    /// As [`DataParallel::build`].
    ///
    /// ```
    /// use thalweg_graph::Graph;
    /// use thalweg_layers::{Layer, Weights, dense};
    /// use thalweg_ops::{MathOps, NewGraph, ReduceOps, SourceOps};
    /// use thalweg_optim::GradientDescent;
    /// use thalweg_parallel::{DataParallel, Process, VariableUpdate};
    /// use thalweg_session::{Feeding, SessionOptions};
    /// use thalweg_tensor::{DType, Tensor};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let process = Process::alone(SessionOptions::new().cpus(2));
    /// let g = Graph::new();
    /// let x = g.placeholder("x", DType::F32, [8, 3]);
    /// let (training, outputs) = DataParallel::new(VariableUpdate::Replicated)
    ///     .towers(2)
    ///     .on(&process)
    ///     .build_with(
    ///         &g,
    ///         |_step| GradientDescent::new(0.1),
    ///         |tower| {
    ///             let y = dense(1).on(tower.part(x));
    ///             (y.square().mean(), y)
    ///         },
    ///     )?;
    /// assert_eq!(outputs.len(), 2);
    /// let Some(mut run) = process.start(&g, &training, |s| s.quiet())? else { return Ok(()) };
    /// let batch = Tensor::zeros(DType::F32, &[8, 3])?;
    /// let fetches = (training.loss, outputs);
    /// let stepped = run.step::<(f32, Vec<Vec<f32>>)>(fetches, [x.feed(batch)])?;
    /// let ((_loss, outputs), _step) = stepped.ok_or("stopped")?;
    /// assert_eq!((outputs.len(), outputs[0].len()), (2, 4));
    /// # run.close()?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn build_with<'g, O: Optimizer<'g>, T>(
        &self,
        g: &'g Graph,
        optimizer: impl FnOnce(Variable<'g>) -> O,
        mut tower: impl FnMut(&Tower<'g>) -> (Output<'g>, T),
    ) -> Result<(Training<'g>, Vec<T>), ParallelError> {
        self.check()?;
        let mut beside = Vec::new();
        let tower = |t: &Tower<'g>| {
            let (loss, other) = tower(t);
            beside.push(other);
            loss
        };
        let training = g.at_caller(|| {
            let copies = self.update.has_copies();
            let shared = (!copies).then_some(self.parameter_device);
            let placement = Placement::new(self.towers, &self.device, self.task, shared)
                .with_servers(self.server_placement.clone());
            let (global_step, optimizer) = placement.on_step(g, || {
                let step = create_global_step(g);
                (step, optimizer(step))
            });
            let scale = Scale::new(g, &placement, self.loss_scale);
            let towers = build_towers(self, g, &placement, scale.as_ref(), tower)?;
            let updates = Update {
                options: self,
                g,
                placement: &placement,
                optimizer: &optimizer,
                global_step,
                scale,
                towers,
            };
            Ok::<_, ParallelError>(updates.build())
        })?;
        Ok((training, beside))
    }
}
