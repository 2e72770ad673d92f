//! Metrics over all batches of a data set: functions of `tf.compat.v1.metrics`, under their names,
//! and [`top_k`] and confusion matrices, which TensorFlow has elsewhere.
//!
//! A [`Metric`] accumulates in variables. [`Metric::update`] adds a batch, [`Metric::value`] is the
//! result so far, and [`Metric::reset`] resets the variables.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_layers::metrics;
//! use thalweg_ops::{NewGraph, SourceOps, StateOps};
//! use thalweg_session::{Feeding, Session};
//! use thalweg_tensor::DType;
//!
//! # fn main() -> Result<(), thalweg_session::SessionError> {
//! let g = Graph::new();
//! let labels = g.placeholder("labels", DType::I64, [-1]);
//! let predictions = g.placeholder("predictions", DType::I64, [-1]);
//! let accuracy = metrics::accuracy(labels, predictions).build();
//!
//! let session = Session::new(&g)?;
//! session.run(g.initializers(), [])?;
//! for (label, prediction) in [([1i64, 2], [1i64, 2]), ([3, 4], [3, 5])] {
//!     session.run(accuracy.update(), [labels.feed(label), predictions.feed(prediction)])?;
//! }
//! assert_eq!(session.run::<f32>(accuracy.value(), [])?, 0.75);
//! session.run(accuracy.reset(), [])?;
//! assert_eq!(session.run::<f32>(accuracy.value(), [])?, 0.0);
//! # Ok(())
//! # }
//! ```

mod auc;
mod confusion;
mod means;
mod metric;
mod precision_recall;

pub use auc::{Curve, auc};
pub use confusion::{confusion_matrix, mean_iou, streaming_confusion_matrix};
pub use means::{accuracy, mean, mean_squared_error, top_k};
pub use metric::{METRIC_VARIABLES, Metric, MetricBuilder};
pub use precision_recall::{precision, recall};
