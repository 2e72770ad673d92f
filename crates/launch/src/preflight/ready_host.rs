//! Host of a job that is about to start.

use std::sync::Arc;

use crate::remote::AgentLink;

/// Host of a job that is about to start.
pub(crate) struct ReadyHost {
    pub(crate) name: String,
    /// Agent; `None` on this host.
    pub(crate) link: Option<Arc<AgentLink>>,
}
