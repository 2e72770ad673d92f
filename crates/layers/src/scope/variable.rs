//! Lookup or creation of one variable of a variable scope.

use thalweg_graph::{Graph, Reason, VariableInfo};
use thalweg_ops::{StateOps, Variable};
use thalweg_tensor::{DType, Shape};

use super::stack::{Reuse, Scopes, VariableScope};
use crate::initializers::Initializer;
use crate::regularizers::{REGULARIZATION_LOSSES, Regularizer};

/// The description of a variable; [`NewVariable::build`] makes or finds it.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Initializer, Regularizer, VariableScopes};
/// use thalweg_ops::NewGraph;
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let mean = g.variable_scope("norm", || {
///     let mean = g.get_variable("mean", [8]).dtype(DType::F64).trainable(false);
///     mean.initializer(Initializer::Zeros).build()
/// });
/// assert_eq!(mean.handle().name(), "norm/mean:0");
/// assert_eq!((mean.value().dtype(), mean.value().shape()), (DType::F64, Shape::from([8])));
/// ```
#[derive(Clone)]
#[must_use = "a variable is made by `build`"]
pub struct NewVariable<'g> {
    graph: &'g Graph,
    name: String,
    shape: Shape,
    dtype: Option<DType>,
    initializer: Option<Initializer>,
    regularizer: Option<Regularizer>,
    /// The layer's regularizer, in addition.
    layers_regularizer: Option<Regularizer>,
    trainable: bool,
}

impl<'g> NewVariable<'g> {
    pub(super) fn new(graph: &'g Graph, name: &str, shape: Shape) -> NewVariable<'g> {
        NewVariable {
            graph,
            name: name.to_owned(),
            shape,
            dtype: None,
            initializer: None,
            regularizer: None,
            layers_regularizer: None,
            trainable: true,
        }
    }

    /// Sets its dtype; by default, that of an initial value that is a tensor, or else `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Sets its initializer; by default that of the scope, or else [`Initializer::glorot_uniform`]
    /// for floats and zeros for all other dtypes.
    pub fn initializer(mut self, initializer: Initializer) -> Self {
        self.initializer = Some(initializer);
        self
    }

    /// Sets the regularizer whose value is added to the collection `regularization_losses` when it
    /// is made; by default that of the scope.
    pub fn regularizer(mut self, regularizer: Regularizer) -> Self {
        self.regularizer = Some(regularizer);
        self
    }

    /// Sets a layer's regularizer, in addition to the scope's, as TensorFlow's layers do.
    pub(crate) fn layers_regularizer(mut self, regularizer: Option<Regularizer>) -> Self {
        self.layers_regularizer = regularizer;
        self
    }

    /// Sets whether optimizers train it; `true` by default.
    pub fn trainable(mut self, trainable: bool) -> Self {
        self.trainable = trainable;
        self
    }

    /// Returns the variable: made, or found if the scope [reuses](Reuse) its variables.
    ///
    /// The graph keeps a mistake if the variable exists and is not to be reused; if it is to be
    /// reused and does not exist; if it has another shape or dtype; if it would be made inside a
    /// branch or a loop, or with an unknown shape.
    #[track_caller]
    pub fn build(self) -> Variable<'g> {
        self.graph.at_caller(|| {
            let scope = self.graph.extension(|s: &mut Scopes| s.current());
            let name = scope.full_name(&self.name);
            let found = |s: &mut Scopes| s.variables.get(&name).cloned();
            let variable = match self.graph.extension(found) {
                Some(found) => self.shared(&scope, &found),
                None => self.made(&scope, &name),
            };
            match (variable, &scope.getter) {
                (Ok(variable), Some(getter)) => getter.get(variable),
                (Ok(variable), None) => variable,
                (Err(text), _) => {
                    let op = "get_variable";
                    let failed = self.graph.fail(&name, op, Reason::Argument(text));
                    self.graph.variable(&name, failed)
                }
            }
        })
    }

    /// The required dtype.
    fn wanted_dtype(&self) -> DType {
        match (self.dtype, &self.initializer) {
            (Some(dtype), _) => dtype,
            (None, Some(Initializer::Tensor(tensor))) => tensor.dtype(),
            (None, _) => DType::F32,
        }
    }

    /// The existing variable.
    fn shared(&self, scope: &VariableScope, found: &VariableInfo) -> Result<Variable<'g>, String> {
        let variable = Variable::of(self.graph, found);
        let data = self.graph.snapshot();
        let line = data.get(found.handle.node).map(|n| n.origin.to_string());
        let line = line.unwrap_or_default();
        let fact = variable.value().fact();
        let dtype = self.wanted_dtype();
        if scope.reuse == Reuse::No {
            return Err(format!(
                "it was made before, at {line}: to share it, enter its variable scope with \
                 Reuse::Yes or Reuse::Auto"
            ));
        }
        if self.shape.merge(&fact.shape).is_none() {
            return Err(format!(
                "it is asked for with shape {}, but was made with shape {}, at {line}",
                self.shape, fact.shape
            ));
        }
        if dtype != fact.dtype {
            return Err(format!(
                "it is asked for as {dtype}, but was made as {}, at {line}",
                fact.dtype
            ));
        }
        Ok(variable)
    }

    /// Makes the variable.
    fn made(&self, scope: &VariableScope, name: &str) -> Result<Variable<'g>, String> {
        let graph = self.graph;
        if graph.is_in_body() {
            let text = "variables are neither made nor found inside of a branch or a loop: get it \
                        before, and use its value there";
            return Err(text.to_owned());
        }
        if scope.reuse == Reuse::Yes {
            let text = "it is to be reused, but is not there: make it first, or use Reuse::Auto";
            return Err(text.to_owned());
        }
        let Some(dims) = self.shape.to_dims() else {
            return Err(format!(
                "it has shape {}, but a variable needs a known one",
                self.shape
            ));
        };
        let dtype = self.wanted_dtype();
        let initializer = self.initializer.clone().or(scope.initializer.clone());
        let initializer = initializer.unwrap_or_else(|| Initializer::default_of(dtype));
        let initial = graph.without_control_dependencies(|| {
            let value = || initializer.value(graph, &dims, dtype);
            graph.name_scope(&format!("{name}/Initializer/"), value)
        })?;
        // Its name is that of the variable scope, whatever the name scopes.
        let variable = graph.name_scope("", || match self.trainable {
            true => graph.variable(name, initial),
            false => graph.untrained_variable(name, initial),
        });
        if variable.handle().is_invalid() {
            return Ok(variable);
        }
        let info = VariableInfo {
            name: name.to_owned(),
            handle: variable.handle().id(),
            value: variable.value().id(),
            initializer: variable.initializer().id(),
            trainable: self.trainable,
            slice: None,
        };
        graph.extension(|s: &mut Scopes| s.variables.insert(name.to_owned(), info));
        let regularizers = [
            self.regularizer.or(scope.regularizer),
            self.layers_regularizer,
        ];
        for regularizer in regularizers.into_iter().flatten() {
            let loss = graph.without_control_dependencies(|| {
                graph.colocate_with(variable.handle(), || {
                    let loss = || regularizer.loss(variable);
                    graph.name_scope(&format!("{name}/Regularizer/"), loss)
                })
            });
            graph.add_to_collection(REGULARIZATION_LOSSES, loss);
        }
        Ok(variable)
    }
}
