//! Attention: scaled dot-product attention, and multi-head attention.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, LinalgOps, MathOps, NnOps, SourceOps, Variable};
use thalweg_tensor::DType;

use crate::dropout::Dropout;
use crate::layer::{
    Layer, WeightOptions, Weights, channels, report_mistake, report_unscoped_mistake,
};

/// Scaled dot-product attention: `softmax(queries keys^T / sqrt(width)) values` (Vaswani et al.,
/// 2017).
///
/// `queries` is `[..., targets, width]`, `keys` `[..., sources, width]`, and `values` `[...,
/// sources, depth]`; the result is `[..., targets, depth]`. A query ignores the sources for which
/// `mask`, bools that broadcast to `[..., targets, sources]`, is false; one without any sources
/// gets the mean of all values.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::attention;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let query = g.constant([[9.0f32, 0.0]]);
/// let keys = g.constant([[9.0f32, 0.0], [0.0, 9.0], [9.0, 0.0]]);
/// let values = g.constant([[1.0f32], [2.0], [3.0]]);
/// let all = attention(query, keys, values, None);
/// let first = attention(query, keys, values, Some(g.constant([[true, true, false]])));
///
/// let session = Session::new(&g)?;
/// assert_eq!(session.run::<Vec<f32>>(all, [])?, [2.0]);
/// assert_eq!(session.run::<Vec<f32>>(first, [])?, [1.0]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn attention<'g>(
    queries: impl Into<Output<'g>>,
    keys: impl Into<Output<'g>>,
    values: impl Into<Output<'g>>,
    mask: Option<Output<'g>>,
) -> Output<'g> {
    let queries = queries.into();
    let (keys, values) = (keys.into(), values.into());
    let graph = queries.graph();
    graph.at_caller(|| {
        graph.name_scope("attention", || match weights(queries, keys, mask) {
            Ok(weights) => weights.batch_matmul(values),
            Err(text) => report_unscoped_mistake(graph, "attention", text),
        })
    })
}

/// The weight of each source for each query: `[..., targets, sources]`.
fn weights<'g>(
    queries: Output<'g>,
    keys: Output<'g>,
    mask: Option<Output<'g>>,
) -> Result<Output<'g>, String> {
    if queries.is_invalid() || keys.is_invalid() {
        return Ok(queries);
    }
    let (_, width) = channels(queries, 2..=usize::MAX, |rank| rank - 1)?;
    let scaled = queries * (1.0 / (width as f64).sqrt());
    let scores = scaled.batch_matmul_t(keys, false, true);
    let Some(mask) = mask else {
        return Ok(scores.softmax());
    };
    if mask.dtype() != DType::Bool && !mask.is_invalid() {
        return Err(format!("its mask is {}, but must be bool", mask.dtype()));
    }
    // Small enough to vanish in the softmax, and within the range of the dtype.
    let least = match scores.dtype() {
        DType::F16 => -3e4,
        _ => -1e9,
    };
    Ok(mask.select(scores, scores.constant_like(least)).softmax())
}

/// A layer of attention with several heads: see [`multi_head_attention`].
#[derive(Clone, Debug)]
#[must_use = "a layer is put on a tensor by `on`"]
pub struct MultiHeadAttention<'g> {
    heads: usize,
    width: usize,
    causal: bool,
    mask: Option<Output<'g>>,
    dropout: Option<Dropout<'g>>,
    options: WeightOptions,
}

/// Attention with this many heads (Vaswani et al., 2017; `tf.keras.layers.MultiHeadAttention`):
/// each makes queries, keys and values of `width` numbers, and the outputs of all heads are
/// combined into one vector of features.
///
/// [`Layer::on`] computes the self-attention of `[batch, time, features]`,
/// [`between`](MultiHeadAttention::between) the attention to another sequence. The result has the
/// shape of the targets.
///
/// Its variables, in the scope `multi_head_attention`, are `query/kernel`, of shape
/// `[features, heads, width]`, and `query/bias`, of shape `[heads, width]`; `key` and `value` alike;
/// `attention_output/kernel`, of shape `[heads, width, features]`, and `attention_output/bias`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, multi_head_attention};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let words = g.placeholder("words", DType::F32, [-1, -1, 64]);
/// let read = multi_head_attention(4, 16).causal().on(words);
/// assert_eq!(read.shape(), Shape::from([-1, -1, 64]));
/// assert_eq!(g.variables()[0].name, "multi_head_attention/query/kernel");
/// assert!(g.errors().is_empty());
/// ```
pub fn multi_head_attention<'g>(heads: usize, width: usize) -> MultiHeadAttention<'g> {
    MultiHeadAttention {
        heads,
        width,
        causal: false,
        mask: None,
        dropout: None,
        options: WeightOptions::default(),
    }
}

impl Weights for MultiHeadAttention<'_> {
    fn options(&mut self) -> &mut WeightOptions {
        &mut self.options
    }
}

impl<'g> MultiHeadAttention<'g> {
    /// Masks later steps: each step attends only to itself and those before it.
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// Sets the mask, which selects the sources of each target: bools that broadcast to `[batch,
    /// targets, sources]`, the same for all heads. With four dimensions, `[batch, heads, targets,
    /// sources]`, each head has its own.
    pub fn mask(mut self, mask: impl Into<Output<'g>>) -> Self {
        self.mask = Some(mask.into());
        self
    }

    /// Drops sources at random during training: each weight goes through this layer.
    pub fn dropout(mut self, dropout: Dropout<'g>) -> Self {
        self.dropout = Some(dropout);
        self
    }

    /// The attention of `targets`, `[batch, targets, features]`, to `sources`, `[batch, sources,
    /// features]`, which may have another number of features.
    #[track_caller]
    pub fn between(
        self,
        targets: impl Into<Output<'g>>,
        sources: impl Into<Output<'g>>,
    ) -> Output<'g> {
        let (targets, sources) = (targets.into(), sources.into());
        let graph = targets.graph();
        if targets.is_invalid() || sources.is_invalid() {
            return graph.invalid();
        }
        graph.at_caller(|| {
            let usual = "multi_head_attention";
            self.options.scope(graph, usual, || {
                let made = self.build(graph, targets, sources);
                made.unwrap_or_else(|text| report_mistake(graph, usual, text))
            })
        })
    }

    fn build(
        &self,
        graph: &'g Graph,
        targets: Output<'g>,
        sources: Output<'g>,
    ) -> Result<Output<'g>, String> {
        let (_, features) = channels(targets, 3..=3, |_| 2)?;
        channels(sources, 3..=3, |_| 2)?;
        let queries = self.heads_of(targets, "query")?;
        let keys = self.heads_of(sources, "key")?;
        let values = self.heads_of(sources, "value")?;
        let mut weights = weights(queries, keys, self.seen(targets, sources))?;
        if let Some(dropout) = &self.dropout {
            weights = dropout.clone().on(weights);
        }
        let read = weights.batch_matmul(values);
        let (kernel, bias) = self.part(
            graph,
            "attention_output",
            &[self.heads, self.width, features],
            1,
            targets.dtype(),
        );
        let y = einsum("bnth,nhf->btf", read, kernel);
        Ok(bias.map_or(y, |bias| y + bias))
    }

    /// Kernel and bias of a part; the bias has the last `n` dimensions of the kernel.
    fn part(
        &self,
        graph: &'g Graph,
        name: &str,
        dims: &[usize],
        bias_dims: usize,
        dtype: DType,
    ) -> (Variable<'g>, Option<Variable<'g>>) {
        let options = &self.options;
        let kernel = options.kernel(graph, &format!("{name}/kernel"), dims, dtype);
        let bias = &dims[dims.len() - bias_dims..];
        let bias = options.bias(graph, &format!("{name}/bias"), bias, dtype);
        (kernel, bias)
    }

    /// The projection of `x` for each head: `[batch, heads, time, width]`.
    fn heads_of(&self, x: Output<'g>, name: &str) -> Result<Output<'g>, String> {
        let (_, features) = channels(x, 3..=3, |_| 2)?;
        let dims = [features, self.heads, self.width];
        let (kernel, bias) = self.part(x.graph(), name, &dims, 2, x.dtype());
        let y = einsum("btf,fnh->bnth", x, kernel);
        Ok(bias.map_or(y, |bias| y + bias.value().expand_dims(1)))
    }

    /// The combined mask, in a shape that broadcasts to `[batch, heads, targets, sources]`.
    fn seen(&self, targets: Output<'g>, sources: Output<'g>) -> Option<Output<'g>> {
        let graph = targets.graph();
        let given = self
            .mask
            .map(|mask| match mask.shape().dims().map(<[_]>::len) {
                Some(3) => mask.expand_dims(1),
                _ => mask,
            });
        if !self.causal {
            return given;
        }
        let steps = |x: Output<'g>| {
            let time = x.shape_tensor().slice([1], [1]);
            graph.range(0i32, time.reshape(Vec::<i32>::new()), 1i32)
        };
        let past = steps(targets).expand_dims(1).greater_equal(steps(sources));
        Some(given.map_or(past, |given| given.logical_and(past)))
    }
}

impl<'g> Layer<'g> for MultiHeadAttention<'g> {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        let x = x.into();
        self.between(x, x)
    }
}

/// An einsum: a sum of products of elements, by the letters of their indices.
#[track_caller]
fn einsum<'g>(equation: &str, left: Output<'g>, right: Variable<'g>) -> Output<'g> {
    let node = left.graph().op("Einsum").input(left).input(right);
    node.attr("equation", equation).output()
}
