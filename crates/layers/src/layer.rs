//! The traits `Layer` and `Weights`, and helpers shared by layers.

use thalweg_graph::{Graph, Operation, Output, Reason, Value};
use thalweg_ops::{ArrayOps, SourceOps, Variable};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::initializers::Initializer;
use crate::regularizers::Regularizer;
use crate::scope::{VariableScope, VariableScopes};

/// A layer: it is described first, and then applied to a tensor.
///
/// A layer makes its variables in a variable scope of its own: one of the given name, or of its
/// default name, made unique (`dense`, `dense_1`). Layers that share variables get the same name,
/// in a scope that [reuses](crate::Reuse) variables.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, Reuse, VariableScope, VariableScopes, Weights, dense};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::DType;
///
/// let g = Graph::new();
/// let left = g.placeholder("left", DType::F32, [-1, 4]);
/// let right = g.placeholder("right", DType::F32, [-1, 4]);
/// let twins = g.variable_scope(VariableScope::new("twins").reuse(Reuse::Auto), || {
///     [left, right].map(|side| dense(8).named("encode").on(side))
/// });
/// assert_eq!(g.variables().len(), 2);
/// assert_eq!(twins[0].name(), "twins/encode/BiasAdd:0");
/// ```
pub trait Layer<'g> {
    /// Applies the layer to `x`.
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g>;
}

/// A layer with weights: a kernel, and a bias for each channel or unit.
pub trait Weights: Sized {
    /// The options of its weights.
    fn options(&mut self) -> &mut WeightOptions;

    /// Sets the name of its variable scope; by default the layer's usual name, made unique.
    fn named(mut self, name: &str) -> Self {
        self.options().name = Some(name.to_owned());
        self
    }

    /// Sets the initial value of the kernel.
    fn kernel_initializer(mut self, initializer: Initializer) -> Self {
        self.options().kernel_initializer = Some(initializer);
        self
    }

    /// Sets the initial value of the bias; 0 by default.
    fn bias_initializer(mut self, initializer: Initializer) -> Self {
        self.options().bias_initializer = Some(initializer);
        self
    }

    /// Sets the regularizer of the kernel, in addition to that of its variable scope: see
    /// [`Regularizer`].
    fn kernel_regularizer(mut self, regularizer: Regularizer) -> Self {
        self.options().kernel_regularizer = Some(regularizer);
        self
    }

    /// Sets the regularizer of the bias, in addition to that of its variable scope: see
    /// [`Regularizer`].
    fn bias_regularizer(mut self, regularizer: Regularizer) -> Self {
        self.options().bias_regularizer = Some(regularizer);
        self
    }

    /// Omits the bias.
    fn without_bias(mut self) -> Self {
        self.options().without_bias = true;
        self
    }

    /// Makes its weights non-trainable.
    fn frozen(mut self) -> Self {
        self.options().frozen = true;
        self
    }
}

/// The options set by [`Weights`].
///
/// A custom layer has it as a field:
///
/// ```
/// use thalweg_graph::{Graph, Output};
/// use thalweg_layers::{Initializer, Layer, WeightOptions, Weights};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::DType;
///
/// #[derive(Default)]
/// struct Scale(WeightOptions);
///
/// impl Weights for Scale {
///     fn options(&mut self) -> &mut WeightOptions {
///         &mut self.0
///     }
/// }
///
/// impl<'g> Layer<'g> for Scale {
///     #[track_caller]
///     fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
///         let x = x.into();
///         let graph = x.graph();
///         self.0.scope(graph, "scale", || x * self.0.kernel(graph, "factor", &[], x.dtype()))
///     }
/// }
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1]);
/// let y = Scale::default().kernel_initializer(Initializer::Ones).on(x);
/// assert_eq!(y.name(), "scale/Mul:0");
/// assert_eq!(g.variables()[0].name, "scale/factor");
/// ```
#[derive(Clone, Debug, Default)]
pub struct WeightOptions {
    name: Option<String>,
    kernel_initializer: Option<Initializer>,
    bias_initializer: Option<Initializer>,
    kernel_regularizer: Option<Regularizer>,
    bias_regularizer: Option<Regularizer>,
    without_bias: bool,
    frozen: bool,
}

impl Weights for WeightOptions {
    fn options(&mut self) -> &mut WeightOptions {
        self
    }
}

impl WeightOptions {
    /// Runs `build` in the variable scope of the layer; without a name of its own, the scope is
    /// `usual`, made unique.
    #[track_caller]
    pub fn scope<R>(&self, graph: &Graph, usual: &str, build: impl FnOnce() -> R) -> R {
        let scope = match &self.name {
            Some(name) => VariableScope::new(name),
            None => VariableScope::unique(usual),
        };
        graph.variable_scope(scope, build)
    }

    /// The variable `name`, a kernel, of the current variable scope.
    #[track_caller]
    pub fn kernel<'g>(
        &self,
        graph: &'g Graph,
        name: &str,
        dims: &[usize],
        dtype: DType,
    ) -> Variable<'g> {
        let mut kernel = graph.get_variable(name, dims).dtype(dtype);
        if let Some(initializer) = &self.kernel_initializer {
            kernel = kernel.initializer(initializer.clone());
        }
        kernel = kernel.layers_regularizer(self.kernel_regularizer);
        kernel.trainable(!self.frozen).build()
    }

    /// The variable `name`, a bias, of the current variable scope; `None` if it is omitted.
    #[track_caller]
    pub fn bias<'g>(
        &self,
        graph: &'g Graph,
        name: &str,
        dims: &[usize],
        dtype: DType,
    ) -> Option<Variable<'g>> {
        if self.without_bias {
            return None;
        }
        let initializer = self.bias_initializer.clone().unwrap_or(Initializer::Zeros);
        let mut bias = graph.get_variable(name, dims).dtype(dtype);
        bias = bias.initializer(initializer);
        bias = bias.layers_regularizer(self.bias_regularizer);
        Some(bias.trainable(!self.frozen).build())
    }
}

/// A height and a width, such as the size of a window. A single number stands for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(pub [usize; 2]);

impl From<usize> for Pair {
    fn from(both: usize) -> Pair {
        Pair([both; 2])
    }
}

impl From<[usize; 2]> for Pair {
    fn from(pair: [usize; 2]) -> Pair {
        Pair(pair)
    }
}

/// The updates that layers require (of moving averages): a training step runs them too.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, batch_norm, update_ops};
/// use thalweg_ops::{NewGraph, SourceOps, StateOps};
/// use thalweg_tensor::DType;
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1, 8, 8, 3]);
/// batch_norm().training(true).on(x);
/// let updates = update_ops(&g);
/// assert_eq!(updates.len(), 2);
/// // With an optimizer's update: `g.group("train", updates.into_iter().chain([minimize]))`.
/// g.group("train", updates);
/// ```
pub fn update_ops(graph: &Graph) -> Vec<Operation<'_>> {
    graph.operations_in(UPDATE_OPS)
}

/// The collection of the updates.
pub(crate) const UPDATE_OPS: &str = "update_ops";

/// Records the mistake of a layer, by the name of its variable scope.
#[track_caller]
pub(crate) fn report_mistake<'g>(graph: &'g Graph, layer: &str, text: String) -> Output<'g> {
    let scope = graph.current_variable_scope();
    let name = match scope.name() {
        "" => layer,
        name => name,
    };
    graph.fail(name, layer, Reason::Argument(text))
}

/// As [`report_mistake`], for a layer without variables, which has no variable scope of its own.
#[track_caller]
pub(crate) fn report_unscoped_mistake<'g>(
    graph: &'g Graph,
    layer: &str,
    text: String,
) -> Output<'g> {
    let scope = graph.current_variable_scope();
    let name = match scope.name() {
        "" => layer.to_owned(),
        around => format!("{around}/{layer}"),
    };
    graph.fail(&name, layer, Reason::Argument(text))
}

/// The dimensions of `x` if its rank is known, and the length of its channel dimension, whose index
/// `channel` returns for a rank; otherwise the text of the mistake.
pub(crate) fn channels(
    x: Output<'_>,
    ranks: std::ops::RangeInclusive<usize>,
    channel: impl FnOnce(usize) -> usize,
) -> Result<(Vec<Option<usize>>, usize), String> {
    let shape = x.shape();
    let dims = shape.dims().filter(|d| ranks.contains(&d.len()));
    let Some(dims) = dims else {
        let rank = match (ranks.start(), ranks.end()) {
            (least, most) if least == most => format!("{least} dimensions"),
            (least, _) => format!("{least} dimensions or more"),
        };
        return Err(format!("its input has shape {shape}, but must have {rank}"));
    };
    match dims.get(channel(dims.len())).copied().flatten() {
        Some(channels) => Ok((dims.to_vec(), channels)),
        None => Err(format!(
            "its input has shape {shape}: the number of channels must be known to make its weights"
        )),
    }
}

/// `x`, with the additional knowledge of `shape`.
#[track_caller]
pub(crate) fn of_shape(x: Output<'_>, shape: Shape) -> Output<'_> {
    if x.is_invalid() || x.shape().merge(&shape).as_ref() == Some(&x.shape()) {
        return x;
    }
    x.graph()
        .op("EnsureShape")
        .input(x)
        .attr("shape", shape)
        .output()
}

/// The dimensions `dims` as a tensor. `unknown` computes an unknown one from the dimensions of `x`,
/// as a vector of one element.
pub(crate) fn sizes<'g>(
    x: Output<'g>,
    dims: &[Option<usize>],
    unknown: impl Fn(usize, Output<'g>) -> Output<'g>,
) -> Value<'g> {
    // Sizes beyond an i32 are refused by the op that takes them.
    let size = |d: usize| i32::try_from(d).unwrap_or(i32::MAX);
    let known: Option<Vec<i32>> = dims.iter().map(|d| d.map(size)).collect();
    if let Some(known) = known {
        return Value::Tensor(Tensor::from(known));
    }
    let graph = x.graph();
    let own = x.shape_tensor();
    let each = dims.iter().enumerate().map(|(i, d)| match d {
        Some(d) => graph.constant([size(*d)]),
        None => unknown(i, own.slice([i as i32], [1])),
    });
    Value::Output(graph.concat(&each.collect::<Vec<_>>(), 0))
}
