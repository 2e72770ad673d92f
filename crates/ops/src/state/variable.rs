//! Variables, and the nodes that declare one.

use thalweg_graph::{Graph, Operand, Operation, Output, Reason, Value, VariableInfo};
use thalweg_tensor::{DType, Shape};

/// A tensor that outlives steps, and is updated by them.
///
/// As an operand it stands for its value before any update of the same step.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let w = g.variable("w", [1.0f32, 2.0]);
/// let doubled = w * 2.0;
/// let add = w.assign_add([0.5f32, 0.5]);
/// // The value before the update is `w` itself; this is the value after it.
/// let after = g.control_dependencies([add], || w.read());
///
/// assert_eq!(doubled.shape(), Shape::from([2]));
/// assert_eq!(after.dtype(), DType::F32);
/// // Its initializer must run before anything else.
/// assert_eq!(g.initializers()[0].id(), w.initializer().id());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Variable<'g> {
    handle: Output<'g>,
    value: Output<'g>,
    initializer: Operation<'g>,
}

impl<'g> Variable<'g> {
    /// The variable that the graph declares by `info`.
    pub fn of(graph: &'g Graph, info: &VariableInfo) -> Variable<'g> {
        Variable {
            handle: graph.output(info.handle),
            value: graph.output(info.value),
            initializer: graph.operation(info.initializer),
        }
    }

    /// The same variable, read as `value`: a copy on another device, for example. Updates go to the variable itself, and
    /// its gradient is the one with respect to `value`.
    pub fn with_value(self, value: Output<'g>) -> Variable<'g> {
        Variable { value, ..self }
    }

    /// Handle of the variable, for ops that read or update it.
    pub fn handle(self) -> Output<'g> {
        self.handle
    }

    /// Name of the variable: that of its handle's node.
    pub fn name(self) -> String {
        self.handle.operation().name()
    }

    /// Dtype of its value.
    pub fn dtype(self) -> DType {
        self.value.dtype()
    }

    /// Shape of its value.
    pub fn shape(self) -> Shape {
        self.value.shape()
    }

    /// Value of the variable, as an output.
    pub fn value(self) -> Output<'g> {
        self.value
    }

    /// A new read, which waits for the control dependencies in scope: it gives the value
    /// after an update, if it waits for that update.
    #[track_caller]
    pub fn read(self) -> Output<'g> {
        let dtype = self.value.dtype();
        self.handle
            .graph()
            .op("ReadVariableOp")
            .input(self.handle)
            .attr("dtype", dtype)
            .output()
    }

    /// Runs `build` with its nodes colocated with the variable.
    #[track_caller]
    pub fn colocate<R>(self, build: impl FnOnce() -> R) -> R {
        match self.handle.is_invalid() {
            true => build(),
            false => {
                let graph = self.handle.graph();
                graph.colocate_with(self.handle.operation(), build)
            }
        }
    }

    /// The node that assigns its initial value.
    pub fn initializer(self) -> Operation<'g> {
        self.initializer
    }

    /// Assigns another value.
    #[track_caller]
    pub fn assign(self, value: impl Into<Value<'g>>) -> Operation<'g> {
        self.update("AssignVariableOp", value.into())
    }

    /// Adds to its value.
    #[track_caller]
    pub fn assign_add(self, value: impl Into<Value<'g>>) -> Operation<'g> {
        self.update("AssignAddVariableOp", value.into())
    }

    /// Subtracts from its value.
    #[track_caller]
    pub fn assign_sub(self, value: impl Into<Value<'g>>) -> Operation<'g> {
        self.update("AssignSubVariableOp", value.into())
    }

    #[track_caller]
    fn update(self, op: &str, value: Value<'g>) -> Operation<'g> {
        let graph = self.handle.graph();
        let value = value.beside(self.value);
        graph.op(op).input(self.handle).input(value).build()
    }

    /// A scalar bool: `true` if it has a value.
    #[track_caller]
    pub fn is_initialized(self) -> Output<'g> {
        self.handle
            .graph()
            .op("VarIsInitializedOp")
            .input(self.handle)
            .output()
    }
}

impl<'g> From<Variable<'g>> for Output<'g> {
    fn from(variable: Variable<'g>) -> Output<'g> {
        variable.value
    }
}

impl<'g> Operand<'g> for Variable<'g> {
    fn beside(self, _: Output<'g>) -> Output<'g> {
        self.value
    }
}

/// A variable stands for its value: `w.square()` is `w.value().square()`.
impl<'g> std::ops::Deref for Variable<'g> {
    type Target = Output<'g>;

    fn deref(&self) -> &Output<'g> {
        &self.value
    }
}

macro_rules! numbers_on_the_left {
    ($Trait:ident $method:ident $op:tt $($number:ty)*) => {$(
        impl<'g> std::ops::$Trait<Variable<'g>> for $number {
            type Output = Output<'g>;
            #[track_caller]
            fn $method(self, rhs: Variable<'g>) -> Output<'g> {
                self $op rhs.value
            }
        }
    )*};
}

// The four operators with a variable on either side; a trait's method cannot be generic over them.
macro_rules! operators {
    ($($Trait:ident $method:ident $op:tt;)*) => {$(
        impl<'g, R> std::ops::$Trait<R> for Variable<'g>
        where
            Output<'g>: std::ops::$Trait<R, Output = Output<'g>>,
        {
            type Output = Output<'g>;
            #[track_caller]
            fn $method(self, rhs: R) -> Output<'g> {
                self.value $op rhs
            }
        }
        numbers_on_the_left! { $Trait $method $op f64 i32 }
    )*};
}

operators! {
    Add add +;
    Sub sub -;
    Mul mul *;
    Div div /;
}

#[track_caller]
pub(super) fn declare<'g>(
    graph: &'g Graph,
    name: &str,
    initial: Value<'g>,
    trainable: bool,
) -> Variable<'g> {
    graph.at_caller(|| make(graph, name, initial, trainable))
}

fn make<'g>(graph: &'g Graph, name: &str, initial: Value<'g>, trainable: bool) -> Variable<'g> {
    // A variable ignores the control dependencies in scope: it is created once, and read often.
    let handle = graph.without_control_dependencies(|| {
        // A tensor as initial value is added first, for its dtype and shape.
        let (dtype, shape) = match &initial {
            Value::Tensor(t) => (t.dtype(), t.shape()),
            Value::Output(o) => (o.dtype(), o.shape()),
        };
        if let Value::Output(o) = &initial
            && o.is_invalid()
        {
            return graph.invalid();
        }
        if !shape.is_known() {
            let text = format!("the initial value has shape {shape}: a variable needs a known one");
            return graph.fail(name, "VarHandleOp", Reason::Argument(text));
        }
        graph
            .op("VarHandleOp")
            .attr("dtype", dtype)
            .attr("shape", shape)
            .name(name)
            .output()
    });
    let unique = handle.operation().name();
    let scope = format!("{unique}/");
    if handle.is_invalid() {
        return Variable {
            handle,
            value: handle,
            initializer: handle.operation(),
        };
    }
    let (value, initializer) = graph.without_control_dependencies(|| {
        graph.name_scope(&scope, || {
            let dtype = match &initial {
                Value::Tensor(t) => t.dtype(),
                Value::Output(o) => o.dtype(),
            };
            let initial = match initial {
                Value::Tensor(_) => initial.on(graph).named("initial_value"),
                Value::Output(o) => o,
            };
            let assign = graph.op("AssignVariableOp").name("Assign");
            let initializer = assign.input(handle).input(initial).build();
            let read = graph.op("ReadVariableOp").name("Read/ReadVariableOp");
            (
                read.input(handle).attr("dtype", dtype).output(),
                initializer,
            )
        })
    });
    graph.declare_variable(VariableInfo {
        name: unique,
        handle: handle.id(),
        value: value.id(),
        initializer: initializer.id(),
        trainable,
        slice: None,
    });
    Variable {
        handle,
        value,
        initializer,
    }
}
