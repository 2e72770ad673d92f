//! Regularizers: penalties of large weights.

use thalweg_graph::Output;
use thalweg_ops::{MathOps, ReduceOps};

/// The collection of the penalties of regularizers: TensorFlow's `GraphKeys.REGULARIZATION_LOSSES`.
pub const REGULARIZATION_LOSSES: &str = "regularization_losses";

/// A function of a variable's value that is added to the loss, so that weights stay small.
///
/// The formulas are those of `tf.keras.regularizers`. `tf.contrib.layers.l2_regularizer(s)` of
/// TensorFlow 1 is half as much: `Regularizer::L2(s / 2.0)`.
///
/// The value for each new variable goes to the collection `regularization_losses`; a program adds
/// its sum to the loss.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Initializer, Regularizer, VariableScopes};
/// use thalweg_ops::NewGraph;
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.get_variable("w", [4]).initializer(Initializer::Constant(-3.0));
/// let w = w.regularizer(Regularizer::L2(0.5)).build();
/// let loss = g.collection("regularization_losses")[0];
///
/// let session = Session::new(&g)?;
/// session.run(w.initializer(), [])?;
/// assert_eq!(session.run::<f32>(loss, [])?, 18.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Regularizer {
    /// `s * sum(|w|)`, for a number `s`.
    L1(f64),
    /// `s * sum(w * w)`, for a number `s`.
    L2(f64),
    /// The sum of both.
    L1L2 {
        /// The factor of `sum(|w|)`.
        l1: f64,
        /// The factor of `sum(w * w)`.
        l2: f64,
    },
}

impl Regularizer {
    /// Its value for `w`: a scalar.
    #[track_caller]
    pub fn loss<'g>(self, w: impl Into<Output<'g>>) -> Output<'g> {
        let w = w.into();
        match self {
            Regularizer::L1(l1) => w.abs().sum() * l1,
            Regularizer::L2(l2) => w.l2_loss() * (2.0 * l2),
            Regularizer::L1L2 { l1, l2 } => w.abs().sum() * l1 + w.l2_loss() * (2.0 * l2),
        }
    }
}
