//! Runs the rounds of an elastic job.

use std::sync::{Arc, Mutex};

use thalweg_collective::elastic::Worker;
use thalweg_train::TrainError;

use super::round::{Elastic, ElasticState};
use crate::error::HvdError;

/// Runs `train` once for each round, until it is done or fails.
///
/// In a job that is not elastic, as without a launcher, there is one round.
///
/// # Errors
/// Errors of `train`, unless a lost rank or a new one caused them; the job is over, or its ranks do not meet.
pub fn run<T, E: From<TrainError>>(
    train: impl FnMut(&mut Elastic) -> Result<T, E>,
) -> Result<T, E> {
    let worker = Worker::from_env().map_err(|e| HvdError::from(e).into_train_error())?;
    run_as(worker, train)
}

/// Like [`run`], as this worker of a job.
///
/// # Errors
/// As for [`run`].
pub fn run_as<T, E: From<TrainError>>(
    worker: Option<Worker>,
    mut train: impl FnMut(&mut Elastic) -> Result<T, E>,
) -> Result<T, E> {
    let shared = Arc::new(ElasticState {
        worker,
        state: Mutex::default(),
    });
    loop {
        let mut job = Elastic::meet(&shared).map_err(HvdError::into_train_error)?;
        let result = train(&mut job);
        let interrupted = std::mem::take(&mut shared.state().interrupted);
        let again = interrupted || job.hvd().lost_others();
        drop(job);
        match result {
            Err(_) if again && shared.worker.is_some() => {}
            Ok(value) => {
                if let Some(worker) = &shared.worker {
                    worker.report_done();
                }
                return Ok(value);
            }
            error => return error,
        }
    }
}
