//! Stubs of shared memory for systems without abstract Unix sockets: values go over the connection.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::loan_table::LoanTable;
use crate::transport::messages as wire;
use crate::transport::wire_error::WireError;

/// There is none.
#[derive(Debug)]
pub(super) struct DescriptorServer(Infallible);

impl DescriptorServer {
    /// # Errors
    /// Always.
    pub(super) fn listen(
        _: &Arc<LoanTable>,
        _: &Handle,
        _: usize,
        _: Duration,
    ) -> io::Result<DescriptorServer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn message(&self) -> wire::Colocation {
        match self.0 {}
    }
}

/// There is none.
#[derive(Debug)]
pub(super) struct DescriptorClient(Infallible);

impl DescriptorClient {
    pub(super) async fn connect(
        _: wire::Colocation,
        _: &Handle,
        _: Duration,
    ) -> Option<DescriptorClient> {
        None
    }

    pub(super) fn is_closed(&self) -> bool {
        match self.0 {}
    }

    pub(super) async fn descriptor(&self, _: u64) -> Result<File, WireError> {
        match self.0 {}
    }

    pub(super) fn return_loans(&self, _: Vec<u64>, _: Box<dyn Send>) {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_without_such_sockets_report_it() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let (table, handle) = (Arc::default(), runtime.handle());
        let server = DescriptorServer::listen(&table, handle, 1, Duration::ZERO);
        assert_eq!(server.unwrap_err().kind(), io::ErrorKind::Unsupported);
        let client = DescriptorClient::connect(wire::Colocation::default(), handle, Duration::ZERO);
        assert!(runtime.block_on(client).is_none());
        // The calls of a server and a client that cannot be made.
        let _ = (DescriptorServer::message, DescriptorClient::is_closed);
        let _ = (DescriptorClient::descriptor, DescriptorClient::return_loans);
    }
}
