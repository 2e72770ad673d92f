//! Collections, and extensions: typed values that other crates attach to a graph.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use thalweg_tensor::sync::Unpoisoned;

use crate::graph::Graph;
use crate::node::{NodeId, OutputId};
use crate::output::{Operation, Output};

/// The collections of a graph, by key.
#[derive(Default)]
pub(crate) struct Collections(BTreeMap<String, Collection>);

#[derive(Default)]
struct Collection {
    outputs: Vec<OutputId>,
    operations: Vec<NodeId>,
}

impl Collections {
    fn of(&mut self, key: &str) -> &mut Collection {
        self.0.entry(key.to_owned()).or_default()
    }

    /// Appends the collections of another graph.
    pub(crate) fn append(&mut self, others: Collections) {
        for (key, mut other) in others.0 {
            let own = self.0.entry(key).or_default();
            own.outputs.append(&mut other.outputs);
            own.operations.append(&mut other.operations);
        }
    }
}

/// One value per type, attached to a graph by another crate. Each value has its own lock, so that
/// its user may use the graph meanwhile.
pub(crate) type Extensions = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl Graph {
    /// Adds an output to the collection `key`.
    pub fn add_to_collection(&self, key: &str, item: Output<'_>) {
        self.state().collections.of(key).outputs.push(item.id());
    }

    /// The outputs in the collection `key`, in the order of adding.
    pub fn collection(&self, key: &str) -> Vec<Output<'_>> {
        let state = self.state();
        let items = state.collections.0.get(key).map(|c| &c.outputs[..]);
        let items = items.unwrap_or_default().iter();
        items.map(|&id| self.output(id)).collect()
    }

    /// Adds an operation to the collection `key`: a node to run, rather than its results.
    pub fn add_operation_to_collection(&self, key: &str, item: Operation<'_>) {
        self.state().collections.of(key).operations.push(item.id());
    }

    /// The operations in the collection `key`, in the order of adding.
    pub fn operations_in(&self, key: &str) -> Vec<Operation<'_>> {
        let state = self.state();
        let items = state.collections.0.get(key).map(|c| &c.operations[..]);
        let items = items.unwrap_or_default().iter();
        items.map(|&id| self.operation(id)).collect()
    }

    /// The keys of the collections that are not empty, in order.
    pub fn collection_keys(&self) -> Vec<String> {
        let state = self.state();
        let filled = |c: &Collection| !c.outputs.is_empty() || !c.operations.is_empty();
        let keys = state.collections.0.iter().filter(|(_, c)| filled(c));
        keys.map(|(key, _)| key.clone()).collect()
    }

    /// Calls `use_it` with the value of type `T` that is attached to this graph; the first time,
    /// with its default.
    ///
    /// `use_it` may build in the graph, but must not ask for the extension of the same type. The
    /// body of a function, and the copy of [`Graph::atomically`], have extensions of their own.
    ///
    /// ```
    /// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
    /// #[derive(Default)]
    /// struct Layers(u32);
    ///
    /// let g = ops::graph();
    /// let next = || g.extension(|layers: &mut Layers| {
    ///     layers.0 += 1;
    ///     layers.0
    /// });
    /// assert_eq!((next(), next()), (1, 2));
    /// ```
    pub fn extension<T: Any + Default + Send, R>(&self, use_it: impl FnOnce(&mut T) -> R) -> R {
        let kept = {
            let mut state = self.state();
            let kept = state.extensions.entry(TypeId::of::<T>());
            let new = || Arc::new(Mutex::new(T::default())) as Arc<dyn Any + Send + Sync>;
            kept.or_insert_with(new).clone()
        };
        match kept.downcast_ref::<Mutex<T>>() {
            Some(own) => use_it(&mut own.lock().unpoisoned()),
            // The key is the type, so the downcast always succeeds.
            None => use_it(&mut T::default()),
        }
    }
}
