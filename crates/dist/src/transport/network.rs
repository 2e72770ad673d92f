//! Network of a task: TCP, or a simulated one in tests.

use tonic::transport::{Channel, Endpoint};

use super::connections::dialer::Dialer;

/// Connects to other tasks.
pub(crate) trait Network: Send + Sync {
    /// Returns a channel that connects when it is first used.
    fn connect(&self, endpoint: &Endpoint, dial: &Dialer) -> Channel;
}

/// TCP, with TLS if the cluster is protected.
pub(crate) struct Tcp;

impl Network for Tcp {
    fn connect(&self, endpoint: &Endpoint, dial: &Dialer) -> Channel {
        endpoint.connect_with_connector_lazy(dial.clone())
    }
}
