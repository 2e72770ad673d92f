//! Dropout.

use thalweg_graph::{Output, Value};
use thalweg_ops::DropoutOps;

use crate::layer::{Layer, report_unscoped_mistake};
use crate::training::Training;

/// A dropout layer: see [`dropout`].
#[derive(Clone, Debug)]
#[must_use = "a layer is put on a tensor by `on`"]
pub struct Dropout<'g> {
    rate: f64,
    training: Training<'g>,
    seed: Option<i64>,
}

/// Drops elements with a probability of `rate` during training, and divides the others by `1 -
/// rate`, so that the sum stays the same on average (`tf.compat.v1.layers.dropout`).
///
/// The rate is 0 or more, and below 1. Without [`Dropout::training`] the layer changes nothing.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, dropout};
/// use thalweg_ops::{NewGraph, ReduceOps, SourceOps};
/// use thalweg_session::{Feeding, Session};
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let training = g.placeholder("training", DType::Bool, []);
/// let h = dropout(0.5).seed(1).training(training).on(g.constant([1.0f32; 100]));
///
/// let session = Session::new(&g)?;
/// let used = session.run::<f32>(h.sum(), [training.feed(false)])?;
/// let learning = session.run::<f32>(h.sum(), [training.feed(true)])?;
/// assert_eq!(used, 100.0);
/// assert!(learning != 100.0 && learning % 2.0 == 0.0);
/// # Ok(())
/// # }
/// ```
pub fn dropout<'g>(rate: f64) -> Dropout<'g> {
    Dropout {
        rate,
        training: Training::default(),
        seed: None,
    }
}

impl<'g> Dropout<'g> {
    /// Sets the training flag: a bool, or a scalar output, which may be fed. `false` by default.
    pub fn training(mut self, training: impl Into<Value<'g>>) -> Self {
        self.training = Training::new(training.into());
        self
    }

    /// Sets the op's seed, which is combined with the graph's by the rule of
    /// [`Graph::seeds`](thalweg_graph::Graph::seeds).
    pub fn seed(mut self, seed: i64) -> Self {
        self.seed = Some(seed);
        self
    }
}

impl<'g> Layer<'g> for Dropout<'g> {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        let x = x.into();
        let graph = x.graph();
        if x.is_invalid() {
            return x;
        }
        graph.at_caller(|| {
            let apply = || {
                let made = self.apply(x);
                made.unwrap_or_else(|text| report_unscoped_mistake(graph, "dropout", text))
            };
            graph.name_scope("dropout", apply)
        })
    }
}

impl<'g> Dropout<'g> {
    fn apply(&self, x: Output<'g>) -> Result<Output<'g>, String> {
        if !(0.0..1.0).contains(&self.rate) {
            return Err(format!(
                "its rate is {}: it must be 0 or more, and below 1",
                self.rate
            ));
        }
        let learning = || vec![x.dropout(1.0 - self.rate, self.seed)];
        Ok(self.training.choose(x.graph(), learning, || vec![x])?[0])
    }
}
