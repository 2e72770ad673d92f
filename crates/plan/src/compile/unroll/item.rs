//! Lists of tensors whose elements are outputs of a graph.

use std::rc::Rc;

use smallvec::SmallVec;
use thalweg_graph::{NodeId, OutputId};
use thalweg_tensor::{DType, Shape};

/// The outputs of a node.
pub(super) type Items = SmallVec<[Item; 2]>;
/// Nodes of the new graph.
pub(super) type Nodes = SmallVec<[NodeId; 2]>;

/// A value of a graph whose loops are unrolled.
#[derive(Clone)]
pub(super) enum Item {
    /// An output of the new graph.
    Output(OutputId),
    /// A list, for which the new graph has no node.
    List(Rc<List>),
    /// The handle of an array or a stack with this number.
    Holder(usize),
}

/// A list of tensors, of which each element is a value of the new graph.
#[derive(Clone)]
pub(super) struct List {
    pub(super) dtype: DType,
    /// Known part of the shape of the elements.
    pub(super) shape: Shape,
    /// Maximum number of elements; negative for no limit.
    pub(super) max_elements: i64,
    /// The elements; `None` for one that was never set, and is zeros.
    pub(super) items: Vec<Option<Item>>,
    /// Depth of lists in it.
    pub(super) depth: usize,
}

impl Item {
    pub(super) fn output(&self) -> Option<OutputId> {
        match self {
            Item::Output(output) => Some(*output),
            Item::List(_) | Item::Holder(_) => None,
        }
    }

    pub(super) fn list(&self) -> Option<&Rc<List>> {
        match self {
            Item::List(list) => Some(list),
            Item::Output(_) | Item::Holder(_) => None,
        }
    }
}
