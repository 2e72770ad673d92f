//! Items: the variables of a checkpoint.

use thalweg_checkpoint::{BundleReader, CheckpointError, SliceSpec, VariableNames};
use thalweg_graph::{Graph, OutputId, VariableInfo};
use thalweg_tensor::Tensor;

use super::write::Entry;
use crate::saver_nodes::SavedVariable;

/// A variable of a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) variable: SavedVariable,
    /// Slice of the whole, for a part of a partitioned variable.
    slice: Option<SliceSpec>,
    /// Its value.
    pub(super) value: OutputId,
}

impl Item {
    /// A variable under a name. A part of a partitioned one has the name of the whole, unless the program has given it
    /// another.
    pub(super) fn new(graph: &Graph, name: String, info: &VariableInfo) -> Item {
        let variable = match name == info.name {
            true => SavedVariable::of(info),
            false => SavedVariable {
                name,
                handle: info.handle,
                slice: None,
            },
        };
        let shape = graph.fact(info.value).map(|fact| fact.shape);
        let slice = shape.and_then(|shape| variable.slice_of(&shape)?);
        Item {
            variable,
            slice,
            value: info.value,
        }
    }

    /// Its name in the checkpoint.
    pub(super) fn name(&self) -> &str {
        &self.variable.name
    }

    /// Creates the entry of a checkpoint with this value.
    pub(super) fn entry(&self, value: Tensor) -> Entry {
        (self.name().to_owned(), self.slice.clone(), value)
    }

    /// Reads its value in a checkpoint; `objects` are the names of variables in TensorFlow 2's object graph.
    pub(super) fn read(
        &self,
        reader: &BundleReader,
        objects: Option<&VariableNames<'_>>,
    ) -> Result<Tensor, CheckpointError> {
        match objects {
            Some(objects) if self.slice.is_none() && !reader.contains(self.name()) => {
                objects.tensor(self.name())
            }
            _ => reader.part(self.name(), self.slice.as_ref()),
        }
    }

    /// Checks that a value fits the variable; the error is the reason.
    pub(super) fn misfit(&self, graph: &Graph, value: &Tensor) -> Option<String> {
        let fact = graph.fact(self.value)?;
        let fits = fact.dtype == value.dtype() && fact.shape.admits(value.dims());
        (!fits).then(|| {
            format!(
                "is a {}{}, and the variable takes a {fact}: build the graph as it was when it was saved, or leave the variable out with Saver::of",
                value.dtype(),
                value.shape()
            )
        })
    }
}
