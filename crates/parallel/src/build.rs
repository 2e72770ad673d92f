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
        tower: impl FnMut(&Tower<'g>) -> Output<'g>,
    ) -> Result<Training<'g>, ParallelError> {
        self.check()?;
        g.at_caller(|| {
            let copies = self.update.has_copies();
            let shared = (!copies).then_some(self.parameter_device);
            let placement = Placement::new(self.towers, &self.device, self.task, shared);
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
            Ok(updates.build())
        })
    }
}
