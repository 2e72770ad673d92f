//! EarlyStopping: ends training that no longer improves a metric.
//!
//! ```
//! use thalweg_train::{EarlyStopping, Progress};
//!
//! let mut stopping = EarlyStopping::new(2).min_delta(0.01);
//! // The loss on data that the model is not trained on, every hundred steps.
//! let losses = [0.9, 0.5, 0.495, 0.6, 0.4];
//! let seen: Vec<Progress> = (1..).map(|i| 100 * i).zip(losses)
//!     .map(|(step, loss)| stopping.observe(step, loss))
//!     .take_while(|&progress| progress != Progress::Stop)
//!     .collect();
//! assert_eq!(seen, [Progress::Improved, Progress::Improved, Progress::Waiting(1)]);
//! assert_eq!(stopping.best(), Some((200, 0.5)));
//! ```

/// Observes a metric of a model, and reports when it has not improved for some time.
///
/// The rules are those of Keras (`tf.keras.callbacks.EarlyStopping`). Patience counts observations, not steps. A value
/// is better if it differs from the best one by more than `min_delta`. The best one is the last that was better, so
/// many small steps in one direction count once they add up.
#[derive(Clone, Debug)]
pub struct EarlyStopping {
    patience: usize,
    min_delta: f64,
    higher_is_better: bool,
    best: Option<(i64, f64)>,
    waited: usize,
}

/// Progress of training at an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This is the best value so far.
    Improved,
    /// No improvement for so many observations.
    Waiting(usize),
    /// No improvement for as many observations as the patience.
    Stop,
}

impl EarlyStopping {
    /// Stops at the `patience`-th observation after the best one. Lower values are better, by however little. A
    /// patience of 0 is the same as 1.
    pub fn new(patience: usize) -> EarlyStopping {
        EarlyStopping {
            patience,
            min_delta: 0.0,
            higher_is_better: false,
            best: None,
            waited: 0,
        }
    }

    /// Minimum difference of a better value; its sign does not matter.
    pub fn min_delta(self, min_delta: f64) -> EarlyStopping {
        let min_delta = min_delta.abs();
        EarlyStopping { min_delta, ..self }
    }

    /// Higher values are better: those of an accuracy, for example.
    pub fn higher_is_better(self) -> EarlyStopping {
        EarlyStopping {
            higher_is_better: true,
            ..self
        }
    }

    /// Records a value at a global step. A NaN is never better, and neither is an infinity in the wrong direction.
    #[must_use = "it says when to stop"]
    pub fn observe(&mut self, step: i64, value: impl Into<f64>) -> Progress {
        let value = value.into();
        let cost = |value: f64| if self.higher_is_better { -value } else { value };
        let least = self.best.map_or(f64::INFINITY, |(_, best)| cost(best));
        if cost(value) + self.min_delta < least {
            self.best = Some((step, value));
            self.waited = 0;
            return Progress::Improved;
        }
        self.waited += 1;
        match self.waited >= self.patience {
            true => Progress::Stop,
            false => Progress::Waiting(self.waited),
        }
    }

    /// Step and value of the best observation; `None` if all values were NaN.
    pub fn best(&self) -> Option<(i64, f64)> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_never_better() {
        let mut stopping = EarlyStopping::new(3);
        assert_eq!(stopping.observe(1, f32::NAN), Progress::Waiting(1));
        assert_eq!(stopping.best(), None);
        assert_eq!(stopping.observe(2, 5.0f32), Progress::Improved);
        assert_eq!(stopping.observe(3, f64::NAN), Progress::Waiting(1));
        assert_eq!(stopping.observe(4, f64::INFINITY), Progress::Waiting(2));
        assert_eq!(stopping.observe(5, f64::NAN), Progress::Stop);
        assert_eq!(stopping.best(), Some((2, 5.0)));
    }

    #[test]
    fn small_steps_count_once_they_add_up() {
        let mut stopping = EarlyStopping::new(10).min_delta(-0.25).higher_is_better();
        let seen = [1.0, 1.2, 1.25, 1.3].map(|value| stopping.observe(0, value));
        assert_eq!(
            seen,
            [
                Progress::Improved,
                Progress::Waiting(1),
                Progress::Waiting(2),
                Progress::Improved
            ]
        );
    }

    #[test]
    fn observations_after_a_stop_may_improve_again() {
        let mut stopping = EarlyStopping::new(1);
        let seen = [2.0, 3.0, 4.0, 1.0, 1.0].map(|value| stopping.observe(0, value));
        use Progress::{Improved, Stop};
        assert_eq!(seen, [Improved, Stop, Stop, Improved, Stop]);
    }
}
