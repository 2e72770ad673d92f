//! ElasticHook: restores and commits in a monitored session.

use thalweg_train::TrainError;
use thalweg_train::hooks::{AfterRun, Context, SessionRunHook};

use super::round::Elastic;

/// Restores variables from the last commit, and commits after every `n` steps.
pub struct ElasticHook {
    job: Elastic,
    every: u64,
    steps: u64,
}

impl ElasticHook {
    pub(super) fn new(job: Elastic, every: u64) -> ElasticHook {
        ElasticHook {
            job,
            every: every.max(1),
            steps: 0,
        }
    }
}

impl Elastic {
    /// Creates a hook that restores the variables from the last commit when a session was created, and commits after
    /// every `n` steps.
    pub fn hook(&self, every: u64) -> ElasticHook {
        ElasticHook::new(self.part(), every)
    }
}

impl SessionRunHook for ElasticHook {
    fn after_create_session(&mut self, context: &Context<'_>) -> Result<(), TrainError> {
        self.job.begin(context.session())
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        self.steps += 1;
        match self.steps % self.every {
            0 => self.job.commit(run.context().session()),
            _ => Ok(()),
        }
    }

    fn needs_step_from(&self) -> i64 {
        i64::MAX
    }
}
