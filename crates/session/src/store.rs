//! What outlives steps: variables, and the counters of random ops.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_device::Variable;
use thalweg_graph::{DType, Shape};

/// Variables by device, container and name, and random ops' counters by node. As in TensorFlow, two
/// handles of one name are one variable where they are on one device.
#[derive(Default)]
pub struct Store {
    variables: Mutex<HashMap<(u32, String, String), Arc<Variable>>>,
    counters: Mutex<HashMap<String, Arc<AtomicU64>>>,
}

impl Store {
    /// The variable of this name, made where there is none yet. One that exists keeps its dtype
    /// and shape.
    pub fn variable(
        &self,
        device: u32,
        container: &str,
        name: &str,
        dtype: DType,
        shape: &Shape,
    ) -> Arc<Variable> {
        let mut variables = self
            .variables
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        variables
            .entry((device, container.to_owned(), name.to_owned()))
            .or_insert_with(|| Arc::new(Variable::new(name, dtype, shape.clone())))
            .clone()
    }

    /// The counter of a random op's node.
    pub fn counter(&self, node: &str) -> Arc<AtomicU64> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.entry(node.to_owned()).or_default().clone()
    }
}
