//! Monitored sessions: they restore, save, run hooks, and recover from lost tasks.

mod builder;
mod global_step_estimate;
mod recovery;
mod role;
mod scaffold;
mod session;

pub use builder::MonitoredTrainingSession;
pub use role::Role;
pub use scaffold::Scaffold;
pub use session::MonitoredSession;
