//! SavedVariable: a variable, and its name in a checkpoint.

use thalweg_checkpoint::SliceSpec;
use thalweg_graph::{OutputId, VariableInfo, VariableSlice};
use thalweg_tensor::Shape;

/// A variable of a graph, and its name in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedVariable {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its handle: the output of a `VarHandleOp`, or of a `VariableV2`.
    pub handle: OutputId,
    /// The slice of the checkpoint's tensor, if it is not the whole.
    pub slice: Option<VariableSlice>,
}

impl SavedVariable {
    /// Saves a variable under its own name; a part of a partitioned one as a slice of the whole.
    pub fn of(info: &VariableInfo) -> SavedVariable {
        let whole = info.slice.as_ref().map(|s| &s.of);
        SavedVariable {
            name: whole.unwrap_or(&info.name).clone(),
            handle: info.handle,
            slice: info.slice.clone(),
        }
    }

    /// The slice of the whole for a variable of this shape: `Some(None)` for a whole variable, and `None` if the shape
    /// is unknown or no part of the whole.
    pub(crate) fn slice_of(&self, shape: &Shape) -> Option<Option<SliceSpec>> {
        let Some(VariableSlice { dims, begin, .. }) = &self.slice else {
            return Some(None);
        };
        let own = shape.to_dims()?;
        if [begin.len(), own.len()] != [dims.len(); 2] {
            return None;
        }
        let extents = dims.iter().zip(begin).zip(&own);
        let extents: Vec<_> = extents
            .map(|((&dim, &start), &len)| (start > 0 || len != dim).then_some((start, len)))
            .collect();
        SliceSpec::new(dims, &extents).ok().map(Some)
    }

    /// The slice in TensorFlow's notation; empty for a whole variable. See [`SavedVariable::slice_of`].
    pub(crate) fn slice_text(&self, shape: &Shape) -> Option<String> {
        let slice = self.slice_of(shape)?;
        Some(slice.map_or_else(String::new, |slice| slice.to_string()))
    }
}
