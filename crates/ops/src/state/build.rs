//! Builder methods for variables.

use thalweg_graph::{Graph, Operation, Output, Value};

use super::group::group;
use super::partitioned::{PartitionedVariable, Split, partitioned};
use super::variable::{Variable, declare};
use crate::array::SourceOps;

/// Builder methods for variables.
pub trait StateOps {
    /// Creates a variable that an optimizer trains, with its initial value: a tensor, or an output (of
    /// random numbers, for example).
    fn variable<'g>(&'g self, name: &str, initial: impl Into<Value<'g>>) -> Variable<'g>;

    /// Creates a variable that no optimizer changes: a counter, a mean.
    fn untrained_variable<'g>(&'g self, name: &str, initial: impl Into<Value<'g>>) -> Variable<'g>;

    /// Creates a variable that an optimizer trains, in parts: each is a variable of its own, and can lie on
    /// a device of its own. `split` is a number of parts along the first dimension, or a [`Split`].
    fn partitioned_variable<'g>(
        &'g self,
        name: &str,
        initial: impl Into<Value<'g>>,
        split: impl Into<Split>,
    ) -> PartitionedVariable<'g>;

    /// The nodes that assign the initial values of all variables.
    fn initializers(&self) -> Vec<Operation<'_>>;

    /// A scalar bool: `true` if all variables have values.
    fn all_initialized(&self) -> Output<'_>;

    /// A scalar bool: `true` if all of these variables have values.
    fn initialized<'g>(&'g self, variables: &[Variable<'g>]) -> Output<'g>;

    /// The variables that an optimizer trains.
    fn trainable_variables(&self) -> Vec<Variable<'_>>;

    /// One node that runs after all of `nodes`, on their device. If these are requested on several
    /// devices, a node on each device comes before it.
    fn group<'g>(
        &'g self,
        name: &str,
        nodes: impl IntoIterator<Item = impl Into<Operation<'g>>>,
    ) -> Operation<'g>;
}

impl StateOps for Graph {
    #[track_caller]
    fn variable<'g>(&'g self, name: &str, initial: impl Into<Value<'g>>) -> Variable<'g> {
        declare(self, name, initial.into(), true)
    }

    #[track_caller]
    fn untrained_variable<'g>(&'g self, name: &str, initial: impl Into<Value<'g>>) -> Variable<'g> {
        declare(self, name, initial.into(), false)
    }

    #[track_caller]
    fn partitioned_variable<'g>(
        &'g self,
        name: &str,
        initial: impl Into<Value<'g>>,
        split: impl Into<Split>,
    ) -> PartitionedVariable<'g> {
        partitioned(self, name, initial.into(), split.into())
    }

    fn initializers(&self) -> Vec<Operation<'_>> {
        let all = self.variables();
        all.iter().map(|v| self.operation(v.initializer)).collect()
    }

    #[track_caller]
    fn all_initialized(&self) -> Output<'_> {
        let all = self.variables();
        let all: Vec<_> = all.iter().map(|v| Variable::of(self, v)).collect();
        self.at_caller(|| self.initialized(&all))
    }

    fn initialized<'g>(&'g self, variables: &[Variable<'g>]) -> Output<'g> {
        let build = || {
            let made = variables.iter().map(|v| v.is_initialized());
            made.fold(self.constant(true), |all, one| {
                self.op("LogicalAnd").input(all).input(one).output()
            })
        };
        self.at_caller(|| self.name_scope("all_initialized", build))
    }

    fn trainable_variables(&self) -> Vec<Variable<'_>> {
        let all = self.variables();
        let trained = all.iter().filter(|v| v.trainable);
        trained.map(|v| Variable::of(self, v)).collect()
    }

    #[track_caller]
    fn group<'g>(
        &'g self,
        name: &str,
        nodes: impl IntoIterator<Item = impl Into<Operation<'g>>>,
    ) -> Operation<'g> {
        group(self, name, nodes)
    }
}
