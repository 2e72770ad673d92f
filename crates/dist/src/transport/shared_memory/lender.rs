//! What this process lends to others.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thalweg_tensor::Tensor;
use tokio::runtime::Handle;

use super::loan_table::LoanTable;
use super::socket::DescriptorServer;
use crate::transport::messages as wire;

/// All that a task lends, and where receivers get descriptors of it.
#[derive(Debug, Default)]
pub(crate) struct Lender {
    /// Where receivers get descriptors, from the first that asks on; none where the system has no such
    /// socket.
    socket: OnceLock<Option<DescriptorServer>>,
    pub(crate) loans: Arc<LoanTable>,
}

impl Lender {
    /// Where receivers get descriptors. It listens on this runtime, has `most` connections at a time, and
    /// waits no longer than `timeout` for what a receiver has to say or to take.
    pub(crate) fn socket(
        &self,
        runtime: &Handle,
        most: usize,
        timeout: Duration,
    ) -> Option<wire::Colocation> {
        let listen = || DescriptorServer::listen(&self.loans, runtime, most, timeout).ok();
        self.socket
            .get_or_init(listen)
            .as_ref()
            .map(DescriptorServer::message)
    }
}

/// What is lent on one stream. What the receiver has not given back when this is dropped stays as it is for
/// good ([`Buffer::fix`]), and what would have been written there goes elsewhere.
#[derive(Debug)]
pub(crate) struct Loans {
    lender: Arc<Lender>,
    tokens: Vec<u64>,
}

impl Loans {
    /// None yet.
    pub(crate) fn new(lender: Arc<Lender>) -> Loans {
        Loans {
            lender,
            tokens: Vec::new(),
        }
    }

    /// Lends a tensor; none where it does not lie in a segment of this process.
    pub(crate) fn lend(&mut self, tensor: &Tensor) -> Option<wire::Loan> {
        let buffer = tensor.buffer()?;
        let segment = buffer.segment()?;
        let token = self.lender.loans.lend(buffer.clone());
        self.tokens.push(token);
        Some(wire::Loan { token, segment })
    }

    /// Whether nothing was lent.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        for &token in &self.tokens {
            if let Some(buffer) = self.lender.loans.back(token) {
                buffer.freeze();
            }
        }
    }
}
