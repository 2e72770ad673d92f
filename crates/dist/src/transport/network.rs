//! How connections are made: over TCP, or on a simulated network.

use tonic::transport::{Channel, Endpoint};

use super::connections::dialer::Dialer;

/// Makes connections to other tasks.
pub(crate) trait Network: Send + Sync {
    /// A connection, which is made when it is first needed.
    fn connect(&self, endpoint: &Endpoint, dial: &Dialer) -> Channel;
}

/// TCP, with TLS where the cluster is protected.
pub(crate) struct Tcp;

impl Network for Tcp {
    fn connect(&self, endpoint: &Endpoint, dial: &Dialer) -> Channel {
        endpoint.connect_with_connector_lazy(dial.clone())
    }
}
