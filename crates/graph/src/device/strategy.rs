//! Strategies that choose a parameter server for each variable: round-robin, greedy, balanced,
//! within memory limits.

use super::DeviceFnError;
use crate::node::Node;
use thalweg_tensor::dtype::DType;

/// A strategy that chooses the server of each variable, in the order in which variables are built.
pub trait PsStrategy: Send {
    /// Returns the task for this node.
    ///
    /// # Errors
    /// [`DeviceFnError`], if the node's load is not known or no server takes it.
    fn choose(&mut self, node: &Node) -> Result<u32, DeviceFnError>;
}

/// Round-robin: one server after the other.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    tasks: u32,
    next: u32,
}

impl RoundRobin {
    /// A strategy over this many servers.
    pub fn new(tasks: u32) -> RoundRobin {
        RoundRobin { tasks, next: 0 }
    }
}

impl PsStrategy for RoundRobin {
    fn choose(&mut self, _: &Node) -> Result<u32, DeviceFnError> {
        let task = self.next;
        self.next = (task + 1) % self.tasks.max(1);
        Ok(task)
    }
}

/// The load that a node puts on its server, in any unit: a finite number, 0 or more.
pub type LoadFn = Box<dyn Fn(&Node) -> Result<f64, DeviceFnError> + Send>;

/// Checks that a load can be added up.
fn checked(load: f64) -> Result<f64, DeviceFnError> {
    match load.is_finite() && load >= 0.0 {
        true => Ok(load),
        false => Err(DeviceFnError::Load { load }),
    }
}

/// The task that a node's own device names, if it is below `tasks`.
fn own_task(node: &Node, tasks: usize) -> Option<usize> {
    let task = node.device.task.map(|t| t as usize);
    task.filter(|&t| t < tasks)
}

/// The bytes of a node's value; for a variable, of the value behind its handle. TensorFlow's
/// `byte_size_load_fn` counts the handle itself there, which makes all variables equal.
///
/// # Errors
/// [`DeviceFnError::Outputs`], [`DeviceFnError::Shape`].
pub fn byte_size_load(node: &Node) -> Result<f64, DeviceFnError> {
    let [output] = &node.outputs[..] else {
        return Err(DeviceFnError::Outputs {
            found: node.outputs.len(),
        });
    };
    let (dtype, shape) = match (&output.variable, output.dtype) {
        (Some((dtype, shape)), DType::Resource) => (*dtype, shape),
        (_, dtype) => (dtype, &output.shape),
    };
    let declared = node.attrs.shape("shape");
    let elements = shape.elements().or_else(|| declared.elements());
    let elements = elements.ok_or_else(|| DeviceFnError::Shape {
        shape: shape.clone(),
    })?;
    Ok(elements as f64 * dtype.size() as f64)
}

/// The server with the least load so far, the first of equal ones: TensorFlow's
/// `GreedyLoadBalancingStrategy`, an online form of Graham's list scheduling (1966).
///
/// Variables of a model differ in size. This strategy balances the bytes on each server.
///
/// ```
/// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
/// use thalweg_graph::device::{Greedy, ReplicaDeviceSetter};
///
/// let g = ops::graph();
/// let setter = ReplicaDeviceSetter::new(2).strategy(Greedy::by_bytes(2));
/// g.device(setter, || {
///     ops::handle(&g, "large", [1000]);
///     ops::handle(&g, "small", [10]);
///     ops::handle(&g, "medium", [100]);
/// });
/// let data = g.snapshot();
/// let tasks: Vec<_> = data.nodes().map(|(_, node)| node.device.task).collect();
/// // The large one has a server of its own.
/// assert_eq!(tasks, [Some(0), Some(1), Some(1)]);
/// ```
pub struct Greedy {
    loads: Vec<f64>,
    load: LoadFn,
}

impl Greedy {
    /// A strategy over this many servers, by bytes.
    pub fn by_bytes(tasks: u32) -> Greedy {
        Greedy::by(tasks, byte_size_load)
    }

    /// A strategy over this many servers, by the result of `load` for each node.
    pub fn by(
        tasks: u32,
        load: impl Fn(&Node) -> Result<f64, DeviceFnError> + Send + 'static,
    ) -> Greedy {
        Greedy {
            loads: vec![0.0; tasks.max(1) as usize],
            load: Box::new(load),
        }
    }
}

impl PsStrategy for Greedy {
    fn choose(&mut self, node: &Node) -> Result<u32, DeviceFnError> {
        let load = checked((self.load)(node)?)?;
        let task = least(self.loads.iter().copied());
        self.loads[task] += load;
        Ok(task as u32)
    }
}

/// Balances bytes and the cost of an update at once: the server on which the larger of both shares,
/// each of its total so far, stays smallest. A variable that names its server itself counts there.
/// This is list scheduling with two resources (Chekuri and Khanna, "On multidimensional packing
/// problems", 2004).
pub struct Balanced {
    loads: Vec<[f64; 2]>,
    totals: [f64; 2],
    cost: LoadFn,
}

impl Balanced {
    /// A strategy over this many servers; `cost` returns the measured time of an update of a node,
    /// in any unit.
    pub fn new(
        tasks: u32,
        cost: impl Fn(&Node) -> Result<f64, DeviceFnError> + Send + 'static,
    ) -> Balanced {
        Balanced {
            loads: vec![[0.0; 2]; tasks.max(1) as usize],
            totals: [0.0; 2],
            cost: Box::new(cost),
        }
    }
}

impl PsStrategy for Balanced {
    fn choose(&mut self, node: &Node) -> Result<u32, DeviceFnError> {
        let load = [byte_size_load(node)?, checked((self.cost)(node)?)?];
        let share = |server: &[f64; 2]| {
            let of = |i: usize| match self.totals[i] + load[i] {
                total if total > 0.0 => (server[i] + load[i]) / total,
                _ => 0.0,
            };
            of(0).max(of(1))
        };
        let task = own_task(node, self.loads.len());
        let task = task.unwrap_or_else(|| least(self.loads.iter().map(share)));
        for (i, load) in load.into_iter().enumerate() {
            self.loads[task][i] += load;
            self.totals[i] += load;
        }
        Ok(task as u32)
    }
}

/// As [`Greedy::by_bytes`] among the servers that have memory left for the variable. A variable
/// that names its server itself takes memory there.
pub struct WithinMemory {
    limits: Vec<u64>,
    used: Vec<u64>,
}

impl WithinMemory {
    /// A strategy over servers with this many bytes each.
    pub fn new(limits: impl IntoIterator<Item = u64>) -> WithinMemory {
        let limits: Vec<u64> = limits.into_iter().collect();
        WithinMemory {
            used: vec![0; limits.len()],
            limits,
        }
    }
}

impl PsStrategy for WithinMemory {
    fn choose(&mut self, node: &Node) -> Result<u32, DeviceFnError> {
        let bytes = byte_size_load(node)? as u64;
        let free = |i: usize| self.limits[i] - self.used[i];
        let fitting = (0..self.limits.len()).filter(|&i| free(i) >= bytes);
        let task = match own_task(node, self.limits.len()) {
            Some(own) => Some(own).filter(|&own| free(own) >= bytes),
            None => fitting.min_by_key(|&i| self.used[i]),
        };
        let Some(task) = task else {
            return Err(DeviceFnError::Memory {
                bytes,
                free: (0..self.limits.len()).map(free).collect(),
            });
        };
        self.used[task] += bytes;
        Ok(task as u32)
    }
}

/// The index of the least value, the first of equal ones.
fn least(values: impl Iterator<Item = f64>) -> usize {
    let smaller = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
    values.enumerate().min_by(smaller).map_or(0, |(i, _)| i)
}
