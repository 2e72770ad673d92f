//! Loss functions: those of `tf.compat.v1.losses`, under their names.
//!
//! Each compares labels with predictions and returns a [`Loss`]: one number for each element or
//! example, before weighting and reduction. [`Loss::value`] builds the result and adds it to the
//! graph's collection [`LOSSES`]; [`total`] sums that collection and the penalties of regularizers.
//!
//! Losses are computed in `f32`, whatever the dtype of the predictions, as in TensorFlow; those of
//! `f64` predictions stay in `f64`, where TensorFlow goes through `f32`. The value has that dtype,
//! except for cross entropies and [`compute_weighted_loss`], whose value has the dtype of the
//! logits, or of the losses.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_layers::losses;
//! use thalweg_ops::{NewGraph, SourceOps};
//! use thalweg_session::{Feeding, Session};
//! use thalweg_tensor::DType;
//!
//! # fn main() -> Result<(), thalweg_session::SessionError> {
//! let g = Graph::new();
//! let labels = g.constant([1.0f32, 2.0, 3.0]);
//! let predictions = g.placeholder("predictions", DType::F32, [3]);
//! // The second example does not count: the mean is that of the two others.
//! let loss = losses::mean_squared_error(labels, predictions)
//!     .weights([1.0f32, 0.0, 1.0])
//!     .value();
//!
//! let session = Session::new(&g)?;
//! let step = session.step(loss, [predictions.feed([3.0f32, 9.0, 5.0])])?;
//! assert_eq!(step.scalar::<f32>(0)?, 4.0);
//! # Ok(())
//! # }
//! ```

mod collections;
mod cross_entropy;
mod elementwise;
mod loss;
mod pairwise;

pub use crate::regularizers::REGULARIZATION_LOSSES;
pub use collections::{LOSSES, regularization, total};
pub use cross_entropy::{
    CrossEntropy, sigmoid_cross_entropy, softmax_cross_entropy, sparse_softmax_cross_entropy,
};
pub use elementwise::{
    absolute_difference, cosine_distance, hinge_loss, huber_loss, log_loss, mean_squared_error,
};
pub use loss::{Loss, Reduction, compute_weighted_loss};
pub use pairwise::mean_pairwise_squared_error;
