//! State that outlives steps: variables, shared objects such as queues, and the counters of random ops.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_device::gpu::{Gpu, GpuError};
use thalweg_device::{Device, KernelError, SharedObject, Variable};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Shape, Tensor};

use crate::gpu_program::Counter;

/// Variables by device, container and name, and shared objects by container and name. As in TensorFlow, two handles of
/// one name are one variable where they are on one device.
#[derive(Default)]
pub struct Store {
    variables: Mutex<HashMap<(u32, String, String), Arc<Variable>>>,
    /// Number of variables that were replaced.
    replacements: AtomicU64,
    objects: SharedObjects,
}

/// State of a session that outlives its steps, and ends with the session.
#[derive(Default)]
pub struct SessionState {
    /// The counters of random ops.
    pub counters: Counters,
    /// Shared objects that other sessions do not see.
    pub objects: SharedObjects,
}

/// Shared objects by container and name.
#[derive(Default)]
pub struct SharedObjects {
    by_name: Mutex<HashMap<(String, String), SharedObject>>,
}

impl SharedObjects {
    /// Returns the object of this name, made where there is none yet.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get(
        &self,
        container: &str,
        name: &str,
        make: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError> {
        let mut objects = self.by_name.lock().unpoisoned();
        let key = (container.to_owned(), name.to_owned());
        if let Some(object) = objects.get(&key) {
            return Ok(object.clone());
        }
        let object = make()?;
        objects.insert(key, object.clone());
        Ok(object)
    }
}

impl Store {
    /// Returns the variable of this name, made where there is none yet. One that exists keeps its dtype and shape.
    ///
    /// # Errors
    /// Of one on a GPU: its shape is not known, or there is no memory for it.
    pub fn variable(
        &self,
        (device, on): (u32, &Device),
        container: &str,
        name: &str,
        dtype: DType,
        shape: &Shape,
    ) -> Result<Arc<Variable>, KernelError> {
        let mut variables = self.variables.lock().unpoisoned();
        let key = (device, container.to_owned(), name.to_owned());
        if let Some(variable) = variables.get(&key) {
            return Ok(variable.clone());
        }
        let variable = Arc::new(match on {
            Device::Cpu(_) => Variable::new(name, dtype, shape.clone()),
            Device::Gpu(gpu) => resident(gpu, name, dtype, shape)?,
        });
        variables.insert(key, variable.clone());
        Ok(variable)
    }

    /// As [`Store::variable`], for a step that initializes it: one of another shape is replaced. Steps that use the
    /// replaced one fail from then on.
    ///
    /// # Errors
    /// As [`Store::variable`].
    pub fn replaced(
        &self,
        on: (u32, &Device),
        container: &str,
        name: &str,
        dtype: DType,
        shape: &Shape,
    ) -> Result<Arc<Variable>, KernelError> {
        let found = self.variable(on, container, name, dtype, shape)?;
        if found.dtype() != dtype || found.shape().merge(shape).is_some() {
            return Ok(found);
        }
        let mut variables = self.variables.lock().unpoisoned();
        let key = (on.0, container.to_owned(), name.to_owned());
        // Unless another step has replaced it meanwhile.
        if variables.get(&key).is_some_and(|v| Arc::ptr_eq(v, &found)) {
            variables.remove(&key);
            found.retire();
            self.replacements.fetch_add(1, Ordering::AcqRel);
        }
        drop(variables);
        self.variable(on, container, name, dtype, shape)
    }

    /// Number of variables that were replaced so far: a plan made at another number may use one of them.
    pub fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::Acquire)
    }

    /// Returns the shared object of this name (a queue, a staging area), made where there is none yet.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn object(
        &self,
        container: &str,
        name: &str,
        make: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError> {
        self.objects.get(container, name, make)
    }

    /// Returns the values of the variables on CPUs, in the order of their names. Those of a container that is not the
    /// default have its name before theirs. Variables that were never assigned are left out, and so are those on GPUs.
    /// Of several of one name, that on the first device counts.
    pub fn values(&self) -> Vec<(String, Tensor)> {
        let variables = self.variables.lock().unpoisoned();
        let named = variables
            .iter()
            .filter_map(|((device, container, name), v)| {
                let name = match &**container {
                    "" => name.clone(),
                    container => format!("{container}/{name}"),
                };
                Some((name, *device, v.value()?))
            });
        let mut values: Vec<_> = named.collect();
        values.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        values.dedup_by(|a, b| a.0 == b.0);
        values
            .into_iter()
            .map(|(name, _, value)| (name, value))
            .collect()
    }

    /// Frees the memory that variables keep for later updates.
    pub fn release_spares(&self) {
        let variables = self.variables.lock().unpoisoned();
        variables.values().for_each(|v| v.release_spare());
    }

    /// Removes the variables and shared objects of a container; holders of one keep it.
    pub fn clear(&self, container: &str) {
        let mut variables = self.variables.lock().unpoisoned();
        variables.retain(|(_, own, _), _| own != container);
        drop(variables);
        let mut objects = self.objects.by_name.lock().unpoisoned();
        objects.retain(|(own, _), _| own != container);
    }
}

/// Counters of the random ops of a session, by node: how many numbers each has drawn.
#[derive(Default)]
pub struct Counters {
    by_node: Mutex<HashMap<String, Arc<AtomicU64>>>,
    on_gpus: Mutex<HashMap<(u32, String), Arc<Counter>>>,
}

impl Counters {
    /// Returns the counter of a random op's node on a GPU.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn on_gpu(&self, device: u32, gpu: &Gpu, node: &str) -> Result<Arc<Counter>, GpuError> {
        let mut counters = self.on_gpus.lock().unpoisoned();
        let key = (device, node.to_owned());
        if let Some(counter) = counters.get(&key) {
            return Ok(counter.clone());
        }
        let counter = Arc::new(Counter {
            block: gpu.allocate(size_of::<u64>())?,
            started: AtomicBool::new(false),
        });
        counters.insert(key, counter.clone());
        Ok(counter)
    }

    /// Returns the counter of a random op's node.
    pub fn of(&self, node: &str) -> Arc<AtomicU64> {
        let mut counters = self.by_node.lock().unpoisoned();
        counters.entry(node.to_owned()).or_default().clone()
    }

    /// Returns the counter of each random op on a CPU, in the order of names.
    pub fn state(&self) -> Vec<(String, u64)> {
        let counters = self.by_node.lock().unpoisoned();
        let state = counters.iter();
        let mut state: Vec<_> = state
            .map(|(node, count)| (node.clone(), count.load(Ordering::Relaxed)))
            .collect();
        state.sort();
        state
    }

    /// Sets the counters of random ops on a CPU.
    pub fn set(&self, state: &[(String, u64)]) {
        for (node, count) in state {
            self.of(node).store(*count, Ordering::Relaxed);
        }
    }
}

/// A variable in a GPU's memory.
fn resident(gpu: &Gpu, name: &str, dtype: DType, shape: &Shape) -> Result<Variable, KernelError> {
    let dims = shape.to_dims().filter(|_| dtype != DType::String);
    let dims = dims.ok_or_else(|| {
        KernelError::Invalid(format!(
            "a variable on a GPU needs a known shape, and this one is {dtype}{shape}: place it on a \
             CPU"
        ))
    })?;
    let bytes = checked_elements(&dims).and_then(|n| n.checked_mul(dtype.size()));
    let bytes = bytes.ok_or_else(|| {
        KernelError::Invalid(format!("no memory holds a variable {dtype}{shape}"))
    })?;
    let block = gpu.allocate(bytes)?;
    Ok(Variable::on_gpu(name, dtype, shape.clone(), block))
}

#[cfg(test)]
mod tests;
