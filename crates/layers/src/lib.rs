//! Building blocks of models: variable scopes, initializers, regularizers, layers, losses, metrics.
//!
//! All of it builds nodes of a graph, with TensorFlow's names, so that checkpoints of one fit the
//! other. Nothing here executes.
//!
//! A network for images of 28 x 28 pixels:
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_layers::{Layer, Regularizer, Weights, conv2d, dense, dropout, max_pool};
//! use thalweg_ops::{ArrayOps, NewGraph, NnOps, SourceOps};
//! use thalweg_tensor::{DType, Shape};
//!
//! let g = Graph::new();
//! let images = g.placeholder("images", DType::F32, [-1, 28, 28, 1]);
//! let training = g.placeholder("training", DType::Bool, []);
//! let h = conv2d(32, 5).named("conv1").on(images).relu();
//! let h = max_pool(2, 2).on(h).reshape([-1, 12 * 12 * 32]);
//! let h = dropout(0.4).training(training).on(h);
//! let scores = dense(10).kernel_regularizer(Regularizer::L2(1e-4)).on(h);
//!
//! assert_eq!(scores.shape(), Shape::from([-1, 10]));
//! let names: Vec<_> = g.variables().into_iter().map(|v| v.name).collect();
//! assert_eq!(names, ["conv1/kernel", "conv1/bias", "dense/kernel", "dense/bias"]);
//! assert_eq!(g.collection("regularization_losses").len(), 1);
//! assert!(g.errors().is_empty());
//! ```

mod attention;
mod batch_norm;
mod conv;
mod dense;
mod dropout;
mod embedding;
pub mod initializers;
mod layer;
mod layer_norm;
pub mod losses;
pub mod metrics;
mod model_summary;
mod norm;
mod pool;
mod regularizers;
mod rnn;
pub mod scope;
mod shape_matching;
mod training;

pub use attention::{MultiHeadAttention, attention, multi_head_attention};
pub use batch_norm::{BatchNorm, batch_norm};
pub use conv::{Conv, conv2d, conv2d_transpose, depthwise_conv2d, separable_conv2d};
pub use dense::{Dense, dense};
pub use dropout::{Dropout, dropout};
pub use embedding::{Embedding, embedding};
pub use initializers::Initializer;
pub use layer::{Layer, Pair, WeightOptions, Weights, update_ops};
pub use layer_norm::{LayerNorm, layer_norm};
pub use model_summary::{LayerSummary, ModelSummary};
pub use pool::{Pool, avg_pool, max_pool};
pub use regularizers::Regularizer;
pub use rnn::{
    BasicCell, Cell, GruCell, LstmCell, Rnn, Sequence, gru_cell, lstm_cell, rnn, rnn_cell,
};
pub use scope::{NewVariable, Reuse, VariableScope, VariableScopes};
