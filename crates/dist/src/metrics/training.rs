//! Loss and global step of a training, as gauges of a server.

use std::sync::{Arc, Mutex};

use thalweg_tensor::sync::Unpoisoned;

/// Loss and global step of a program's newest training step, which are among the metrics of its server.
///
/// [`Server::training`](crate::Server::training) returns those of a server. Clones share the two numbers, so that a
/// training loop may keep one. `TrainingRun::step` of `thalweg_parallel` records each step; a loop of another kind
/// calls [`TrainingGauges::record`].
///
/// ```
/// use thalweg_dist::{Server, ServerOptions};
///
/// # fn main() -> Result<(), thalweg_dist::ServerError> {
/// let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
/// let gauges = server.training();
/// assert_eq!(gauges.newest(), None);
/// gauges.record(0.25f32, 7);
/// assert!(server.metrics().contains("\nthalweg_loss 0.25\n"));
/// assert!(server.metrics().contains("\nthalweg_global_step 7\n"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TrainingGauges(Arc<Mutex<Option<(f64, i64)>>>);

impl TrainingGauges {
    /// Records a training step: its loss, which may be NaN, and the global step before its update.
    pub fn record(&self, loss: impl Into<f64>, global_step: i64) {
        *self.0.lock().unpoisoned() = Some((loss.into(), global_step));
    }

    /// Returns the loss and the global step of the newest training step; `None` before the first one.
    pub fn newest(&self) -> Option<(f64, i64)> {
        *self.0.lock().unpoisoned()
    }
}
