//! The context of kernels that take and make tensors, and the environment that a step offers them.
//!
//! ```
//! use thalweg_device::{Environment, NoStep};
//!
//! // Outside of a step there is nothing to call.
//! let call = NoStep.call(&thalweg_graph::Func::named("f"), Vec::new(), None);
//! assert!(call.unwrap_err().to_string().contains("'f'"));
//! ```

use std::any::Any;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_graph::{Attrs, Func, Node};
use thalweg_tensor::{DType, Element, Memory, StringTensorBuilder, Tensor};

use crate::collectives::Collectives;
use crate::cpu::Cpu;
use crate::error::KernelError;
use crate::files::Files;
use crate::ticket::Ticket;
use crate::variable::Variable;

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

    /// Returns the shared object of this container and name, made where there is none yet. It lives as long as the
    /// session.
    ///
    /// # Errors
    /// Those of `make`.
    fn object(
        &self,
        container: &str,
        name: &str,
        make: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError>;

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

    fn object(
        &self,
        _: &str,
        name: &str,
        _: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError> {
        Err(outside(&format!("'{name}' lives")))
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
const CHECK_INTERVAL: u32 = 1024;

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
    ticks: u32,
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
    pub fn tick(&mut self) -> Result<(), KernelError> {
        self.ticks = (self.ticks + 1) % CHECK_INTERVAL;
        match self.ticks == 0 && self.environment.is_stopped() {
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
    pub fn strings(&self, i: usize) -> Result<&'a [Box<[u8]>], KernelError> {
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
mod tests {
    use super::*;

    use std::sync::atomic::{AtomicBool, Ordering};

    use thalweg_graph::OpDef;
    use thalweg_tensor::{BUFFER_OVERHEAD, Shape};

    use crate::testing::bare_node;

    static OP: OpDef = OpDef {
        name: "Op",
        ..OpDef::EMPTY
    };

    /// Calls `test` with the context of a kernel that has these arguments and so many bytes of memory.
    fn with_cx(arguments: &[Argument<'_>], bytes: usize, test: impl FnOnce(&TensorCx<'_>)) {
        let cpu = Cpu::new(1);
        let node = bare_node(&OP);
        test(&TensorCx {
            cpu: &cpu,
            memory: &Arc::new(Memory::new(Some(bytes))),
            max_cost: u64::MAX,
            node: &node,
            arguments,
            counter: None,
            environment: &NoStep,
        });
    }

    fn missing<T>(found: Result<T, KernelError>, argument: &str) -> bool {
        matches!(found, Err(KernelError::Argument(a)) if a == argument)
    }

    #[test]
    fn outside_of_a_step_there_is_nothing_to_call_or_to_share() {
        let call = NoStep
            .call(&Func::named("body"), Vec::new(), None)
            .unwrap_err();
        let text = "function 'body' is called in a session: run the node in a step of one";
        assert_eq!(call.to_string(), text);
        let mut make = || -> Result<SharedObject, KernelError> { panic!("it is not made") };
        let object = NoStep.object("", "queue", &mut make).unwrap_err();
        let text = "'queue' lives in a session: run the node in a step of one";
        assert_eq!(object.to_string(), text);
        assert!(NoStep.files().resolve(b"/tmp/x").is_err());
        assert!(NoStep.collectives().is_none());
        assert_eq!(NoStep.ticket().number(), 0);
    }

    #[test]
    fn outside_of_a_step_a_wait_ends_at_once() {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        NoStep.on_abandon(Box::new(move || flag.store(true, Ordering::Relaxed)));
        assert!(ended.load(Ordering::Relaxed));
    }

    #[test]
    fn inputs_are_read_as_they_are_and_as_nothing_else() {
        let floats = Tensor::vector(&[1.0f32, 2.0]);
        let (number, numbers) = (Tensor::scalar(7i32), Tensor::vector(&[7i64, 8]));
        let strings = Tensor::from("text");
        let variable = Arc::new(Variable::new("v", DType::F32, Shape::scalar()));
        let arguments = [
            Argument::Value(&floats),
            Argument::Value(&number),
            Argument::Value(&numbers),
            Argument::Value(&strings),
            Argument::Variable(&variable),
        ];
        with_cx(&arguments, 0, |cx| {
            assert_eq!(cx.inputs(), 5);
            assert_eq!(cx.slice::<f32>(0).unwrap(), [1.0, 2.0]);
            assert_eq!(cx.strings(3).unwrap()[0][..], *b"text");
            assert_eq!((cx.int(1).unwrap(), cx.ints(2).unwrap()), (7, vec![7, 8]));
            assert_eq!(cx.variable(4).unwrap().name(), "v");
            // A handle as a value holds the variable.
            let held = cx.value(4).unwrap().object::<Variable>().unwrap();
            assert!(Arc::ptr_eq(&held, &variable));
            assert_eq!(cx.value(0).unwrap(), floats);

            assert!(cx.slice::<f64>(0).is_err() && cx.strings(0).is_err());
            assert!(matches!(cx.ints(0), Err(KernelError::DType(DType::F32))));
            let two = cx.int(2).unwrap_err().to_string();
            assert_eq!(two, "input 2 must be one integer");
            for i in [4, 9] {
                assert!(missing(cx.tensor(i), "the value of an input"));
            }
            assert!(missing(cx.value(9), "an input"));
            assert!(matches!(cx.variable(0), Err(KernelError::Invalid(_))));
            assert!(missing(cx.counter(), "a counter"));
        });
    }

    #[test]
    fn an_object_of_another_type_than_the_op_takes_is_an_error() {
        let queue = Tensor::handle(DType::Resource, Arc::new(7u32)).unwrap();
        with_cx(&[Argument::Value(&queue)], 0, |cx| {
            assert_eq!(*cx.object::<u32>(0).unwrap(), 7);
            let other = cx.object::<String>(0).unwrap_err().to_string();
            assert_eq!(
                other,
                "input 0 is a handle of another kind than the op takes"
            );
        });
    }

    #[test]
    fn results_count_against_the_memory_of_the_device() {
        with_cx(&[], 16 + BUFFER_OVERHEAD, |cx| {
            let zeros = cx.zeros(DType::F32, &[4]).unwrap();
            assert_eq!(cx.memory().used(), 16 + BUFFER_OVERHEAD);
            assert!(matches!(
                cx.tensor_of(&[1], &[1.0f32]),
                Err(KernelError::Tensor(_))
            ));
            drop(zeros);
            assert_eq!(
                cx.tensor_of(&[2], &[1.0f32, 2.0]).unwrap(),
                Tensor::vector(&[1.0f32, 2.0])
            );
            // As many elements as the dimensions need.
            assert!(cx.tensor_of(&[3], &[1.0f32]).is_err());
        });
        with_cx(&[], 1 << 10, |cx| {
            let strings = cx.strings_of(&[2], ["a", "bc"]).unwrap();
            assert_eq!(strings, Tensor::strings(&[2], &["a", "bc"]).unwrap());
            assert!(cx.strings_of(&[2], ["a"]).is_err());
            let long = "x".repeat(1 << 10);
            assert!(cx.strings_of(&[1], [&long]).is_err());
        });
    }
}
