//! The context of kernels that take and make tensors, and the environment that a step offers them.
//!
//! ```
//! use thalweg_device::{Environment, NoStep};
//!
//! // Outside of a step there is nothing to call.
//! let call = NoStep.call(&thalweg_graph::Func::named("f"), Vec::new(), None);
//! assert!(call.unwrap_err().to_string().contains("'f'"));
//! ```

mod truth;

use std::any::Any;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_graph::{Attrs, Func, Node};
use thalweg_tensor::{DType, Element, Memory, Shape, StringTensorBuilder, Strings, Tensor};

use crate::collectives::Collectives;
use crate::cpu::Cpu;
use crate::error::KernelError;
use crate::files::Files;
use crate::ticket::Ticket;
use crate::variable::Variable;
pub use truth::is_true;

/// An input of a node.
#[derive(Clone, Copy)]
pub enum Argument<'a> {
    /// A value.
    Value(&'a Tensor),
    /// The variable behind a handle.
    Variable(&'a Arc<Variable>),
}

/// A shared object that outlives steps, or that a value holds: a queue, a stack, a list of tensors.
pub type SharedObject = Arc<dyn Any + Send + Sync>;

/// A shared object that holds tensors: a stack, an array.
pub trait TensorHolder: Any + Send + Sync {
    /// The common part of the shapes of its tensors.
    fn shape(&self) -> Shape;
}

/// The object behind the handle of a [`TensorHolder`].
pub struct HolderHandle(pub Arc<dyn TensorHolder>);

/// Prints a line of a graph.
pub type Printer = Arc<dyn Fn(&str) + Send + Sync>;

/// Prints a line to standard error.
pub fn print_to_stderr(line: &str) {
    // `eprintln!` would panic where standard error is closed.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The environment that a step offers to its kernels beside their arguments.
pub trait Environment: Sync {
    /// Calls a function of the graph's library. Handles of variables are resource tensors that hold
    /// the [`Variable`]. With `live`, only the results of these numbers are computed; an empty tensor stands for each of
    /// the others.
    ///
    /// # Errors
    /// [`KernelError::Function`], with the error in it.
    fn call(
        &self,
        function: &Func,
        arguments: Vec<Tensor>,
        live: Option<&[i64]>,
    ) -> Result<Vec<Tensor>, KernelError>;

    /// Calls a function on its own results for as long as a condition function returns true, and returns the last
    /// values. With `live`, only the values of these numbers are computed; the others stay as they are.
    ///
    /// # Errors
    /// [`KernelError::Function`], with the error in it; [`KernelError::Invalid`] where the functions do not fit.
    fn repeat(
        &self,
        condition: &Func,
        body: &Func,
        values: Vec<Tensor>,
        live: Option<&[i64]>,
    ) -> Result<Vec<Tensor>, KernelError>;

    /// Returns the shared object of this container and name, made where there is none yet. Sessions share it.
    ///
    /// # Errors
    /// Those of `make`.
    fn object(
        &self,
        container: &str,
        name: &str,
        make: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError>;

    /// Returns the object of this name that belongs to the session, made where there is none yet. It ends with the
    /// session.
    ///
    /// # Errors
    /// Those of `make`.
    fn session_object(
        &self,
        name: &str,
        make: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError>;

    /// Returns the full name of the node's device.
    fn device(&self) -> String;

    /// Keeps an object until the step ends. A handle that something holds does not keep the resource behind it.
    fn keep(&self, object: SharedObject);

    /// Returns the node's ticket: the same each time it runs again in the step. A node that is blocked keeps the ticket
    /// and returns [`KernelError::Blocked`].
    fn ticket(&self) -> Ticket;

    /// Registers a callback for the case that the step ends while the node waits.
    fn on_abandon(&self, abandon: Box<dyn FnOnce() + Send>);

    /// `true` once the step is cancelled or out of time: a long kernel asks from time to time, and returns
    /// [`KernelError::Stopped`].
    fn is_stopped(&self) -> bool;

    /// Prints a line of a Print op.
    fn print(&self, line: &str);

    /// Returns the files that it may use.
    fn files(&self) -> &Files;

    /// Returns the transport between ranks; `None` where the session is no rank.
    fn collectives(&self) -> Option<&Arc<dyn Collectives>>;
}

/// The environment outside of steps: for folding of constants, and for a node that is run by itself.
pub struct NoStep;

impl Environment for NoStep {
    fn call(
        &self,
        function: &Func,
        _: Vec<Tensor>,
        _: Option<&[i64]>,
    ) -> Result<Vec<Tensor>, KernelError> {
        Err(outside(&format!("function '{}' is called", function.name)))
    }

    fn repeat(
        &self,
        _: &Func,
        body: &Func,
        _: Vec<Tensor>,
        _: Option<&[i64]>,
    ) -> Result<Vec<Tensor>, KernelError> {
        Err(outside(&format!("function '{}' is called", body.name)))
    }

    fn object(
        &self,
        _: &str,
        name: &str,
        _: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError> {
        Err(outside(&format!("'{name}' lives")))
    }

    fn session_object(
        &self,
        name: &str,
        _: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError> {
        Err(outside(&format!("'{name}' lives")))
    }

    fn device(&self) -> String {
        String::new()
    }

    fn keep(&self, _: SharedObject) {}

    fn ticket(&self) -> Ticket {
        Ticket::new(0, || {})
    }

    fn on_abandon(&self, abandon: Box<dyn FnOnce() + Send>) {
        // Nothing will run again.
        abandon();
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn print(&self, line: &str) {
        print_to_stderr(line);
    }

    fn files(&self) -> &Files {
        const { &Files::none() }
    }

    fn collectives(&self) -> Option<&Arc<dyn Collectives>> {
        None
    }
}

fn outside(what: &str) -> KernelError {
    KernelError::Invalid(format!(
        "{what} in a session: run the node in a step of one"
    ))
}

/// Number of elements between two checks of a [`StopCheck`]: their work is short beside the check.
const CHECK_INTERVAL: usize = 1024;

/// Checks in a long loop that the step goes on.
///
/// ```
/// use thalweg_device::{NoStep, StopCheck};
///
/// let mut stop = StopCheck::new(&NoStep);
/// assert!((0..5000).all(|_| stop.tick().is_ok()));
/// ```
pub struct StopCheck<'a> {
    environment: &'a dyn Environment,
    ticks: usize,
}

impl<'a> StopCheck<'a> {
    /// A check of the step that offers this environment.
    pub fn new(environment: &'a dyn Environment) -> StopCheck<'a> {
        StopCheck {
            environment,
            ticks: 0,
        }
    }

    /// Counts an element of work; once in many it checks the step.
    ///
    /// # Errors
    /// [`KernelError::Stopped`].
    #[inline]
    pub fn tick(&mut self) -> Result<(), KernelError> {
        self.ticks(1)
    }

    /// As [`StopCheck::tick`], for several elements, which are worked on without a check.
    ///
    /// # Errors
    /// [`KernelError::Stopped`].
    #[inline]
    pub fn ticks(&mut self, elements: usize) -> Result<(), KernelError> {
        self.ticks += elements;
        if self.ticks < CHECK_INTERVAL {
            return Ok(());
        }
        self.check()
    }

    #[cold]
    fn check(&mut self) -> Result<(), KernelError> {
        self.ticks = 0;
        match self.environment.is_stopped() {
            true => Err(KernelError::Stopped),
            false => Ok(()),
        }
    }
}

/// The context of a running kernel that takes tensors.
pub struct TensorCx<'a> {
    pub(crate) cpu: &'a Cpu,
    pub(crate) memory: &'a Arc<Memory>,
    /// Maximum of a kernel's estimate in nanoseconds.
    pub(crate) max_cost: u64,
    pub(crate) node: &'a Node,
    pub(crate) arguments: &'a [Argument<'a>],
    pub(crate) counter: Option<&'a AtomicU64>,
    pub(crate) environment: &'a dyn Environment,
}

impl<'a> TensorCx<'a> {
    /// The CPU that the kernel runs on.
    pub fn cpu(&self) -> &'a Cpu {
        self.cpu
    }

    /// A check for a long loop.
    pub fn stop_check(&self) -> StopCheck<'a> {
        StopCheck::new(self.environment)
    }

    /// The memory account of its results: the device's memory, or a part of that.
    pub fn memory(&self) -> &'a Arc<Memory> {
        self.memory
    }

    /// The node.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// The node's attributes.
    pub fn attrs(&self) -> &'a Attrs {
        &self.node.attrs
    }

    /// The step around it.
    pub fn environment(&self) -> &'a dyn Environment {
        self.environment
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.arguments.len()
    }

    /// The value of input `i`.
    ///
    /// # Errors
    /// [`KernelError::Argument`] where there is no such input, or it is the handle of a variable.
    pub fn tensor(&self, i: usize) -> Result<&'a Tensor, KernelError> {
        match self.arguments.get(i) {
            Some(Argument::Value(tensor)) => Ok(tensor),
            _ => Err(KernelError::Argument("the value of an input")),
        }
    }

    /// Input `i` as a value to pass on: of a variable's handle, a tensor that holds the variable.
    ///
    /// # Errors
    /// [`KernelError::Argument`] where there is no such input.
    pub fn value(&self, i: usize) -> Result<Tensor, KernelError> {
        match self.arguments.get(i) {
            Some(Argument::Value(tensor)) => Ok((*tensor).clone()),
            Some(Argument::Variable(v)) => Ok(Tensor::handle(
                DType::Resource,
                (*v).clone() as SharedObject,
            )?),
            None => Err(KernelError::Argument("an input")),
        }
    }

    /// Input `i` as a value that something may hold, be it another value, a queue or a stack: handles in it do not keep
    /// their resources, which could hold them in turn. The step does, until it ends.
    ///
    /// # Errors
    /// As [`TensorCx::value`].
    pub fn held(&self, i: usize) -> Result<Tensor, KernelError> {
        let environment = self.environment;
        Ok(self.value(i)?.into_weak(&mut |o| environment.keep(o))?)
    }

    /// The elements of input `i`.
    ///
    /// # Errors
    /// As [`TensorCx::tensor`], or where they are not `T`.
    pub fn slice<T: Element>(&self, i: usize) -> Result<&'a [T], KernelError> {
        Ok(self.tensor(i)?.as_slice::<T>()?)
    }

    /// The byte strings of input `i`.
    ///
    /// # Errors
    /// As [`TensorCx::tensor`], or where it holds none.
    pub fn strings(&self, i: usize) -> Result<Strings<'a>, KernelError> {
        Ok(self.tensor(i)?.as_strings()?)
    }

    /// The integers of input `i`, of i32 or i64.
    ///
    /// # Errors
    /// As [`TensorCx::tensor`], or where it holds others.
    pub fn ints(&self, i: usize) -> Result<Vec<i64>, KernelError> {
        let tensor = self.tensor(i)?;
        tensor.to_ints().ok_or(KernelError::DType(tensor.dtype()))
    }

    /// The only integer of input `i`, of i32 or i64.
    ///
    /// # Errors
    /// As [`TensorCx::ints`], or where it is not one.
    pub fn int(&self, i: usize) -> Result<i64, KernelError> {
        match self.ints(i)?[..] {
            [value] => Ok(value),
            _ => Err(KernelError::Invalid(format!(
                "input {i} must be one integer"
            ))),
        }
    }

    /// The variable behind input `i`.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] where the input is no variable's handle, [`KernelError::NotFound`] where the variable
    /// exists no more.
    pub fn variable(&self, i: usize) -> Result<&'a Variable, KernelError> {
        match self.arguments.get(i) {
            Some(Argument::Variable(variable)) => Ok(variable),
            Some(Argument::Value(other)) => Err(KernelError::handle(i, other)),
            None => Err(KernelError::Argument("a variable")),
        }
    }

    /// Returns the object that the resource or variant of input `i` holds.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] where it is something else, [`KernelError::NotFound`] where the object exists no more.
    pub fn object<T: Any + Send + Sync>(&self, i: usize) -> Result<Arc<T>, KernelError> {
        let tensor = match self.arguments.get(i) {
            Some(Argument::Value(tensor)) => tensor,
            Some(Argument::Variable(_)) => return Err(KernelError::another_handle(i)),
            None => return Err(KernelError::Argument("an input")),
        };
        // Only a resource may be behind a tensor of one dimension.
        let one = tensor.dtype() == DType::Resource || tensor.dims().is_empty();
        let object = tensor.object().filter(|_| one);
        object.ok_or_else(|| KernelError::handle(i, tensor))
    }

    /// Returns the stack or array behind the handle of input `i`.
    ///
    /// # Errors
    /// As [`TensorCx::object`].
    pub fn holder<T: TensorHolder>(&self, i: usize) -> Result<Arc<T>, KernelError> {
        let holder: Arc<dyn Any + Send + Sync> = self.object::<HolderHandle>(i)?.0.clone();
        holder
            .downcast()
            .map_err(|_| KernelError::another_handle(i))
    }

    /// The counter that a random op draws from: it outlives steps.
    ///
    /// # Errors
    /// [`KernelError::Argument`] where the op's effect is not `Random`.
    pub fn counter(&self) -> Result<&'a AtomicU64, KernelError> {
        self.counter.ok_or(KernelError::Argument("a counter"))
    }

    /// A tensor of zeros in the device's memory.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] where there is no memory for it.
    pub fn zeros(&self, dtype: DType, dims: &[usize]) -> Result<Tensor, KernelError> {
        Ok(Tensor::zeros_in(dtype, dims, self.memory)?)
    }

    /// A tensor of these elements in the device's memory.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] where there is no memory for it, or their number is not what `dims` needs.
    pub fn tensor_of<T: Element>(
        &self,
        dims: &[usize],
        elements: &[T],
    ) -> Result<Tensor, KernelError> {
        Ok(Tensor::new_in(dims, elements, Some(self.memory))?)
    }

    /// A tensor of strings in the device's memory, to be made one string after the other.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] where there is no memory for so many strings.
    pub fn string_tensor(&self, dims: &[usize]) -> Result<StringTensorBuilder, KernelError> {
        Ok(StringTensorBuilder::new(dims, Some(self.memory))?)
    }

    /// A tensor of these strings in the device's memory.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] where there is no memory for them, or their number is not what `dims` needs.
    pub fn strings_of<S: AsRef<[u8]>>(
        &self,
        dims: &[usize],
        strings: impl IntoIterator<Item = S>,
    ) -> Result<Tensor, KernelError> {
        let (mut all, mut stop) = (self.string_tensor(dims)?, self.stop_check());
        for string in strings {
            stop.tick()?;
            all.push(string.as_ref())?;
        }
        Ok(all.finish()?)
    }
}

#[cfg(test)]
mod tests;
