//! The sender's side of shared memory: grants co-located tasks access to buffers until they return them (a loan).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thalweg_tensor::Tensor;
use tokio::runtime::Handle;

use super::loan_table::LoanTable;
use super::socket::DescriptorServer;
use crate::transport::messages as wire;

/// Loans of a task, and the socket that serves their descriptors.
#[derive(Debug, Default)]
pub(crate) struct Lender {
    /// Socket of descriptors, from its first use on. `None` if the system has no such socket.
    socket: OnceLock<Option<DescriptorServer>>,
    pub(crate) loans: Arc<LoanTable>,
}

impl Lender {
    /// Returns the address of the socket of descriptors, which the first call opens. It listens on this runtime,
    /// serves `most` connections at a time, and waits `timeout` at most for a receiver to send or to read.
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

/// Loans of one stream. A drop freezes the buffers that the receiver has not returned
/// ([`Buffer::fix`](thalweg_tensor::Buffer::fix)): they are never written again, and later writes go elsewhere.
#[derive(Debug)]
pub(crate) struct Loans {
    lender: Arc<Lender>,
    tokens: Vec<u64>,
}

impl Loans {
    /// Returns no loans.
    pub(crate) fn new(lender: Arc<Lender>) -> Loans {
        Loans {
            lender,
            tokens: Vec::new(),
        }
    }

    /// Lends a tensor. `None` if it does not lie in a segment of this process.
    pub(crate) fn lend(&mut self, tensor: &Tensor) -> Option<wire::Loan> {
        let buffer = tensor.buffer()?;
        let segment = buffer.segment()?;
        let token = self.lender.loans.lend(buffer.clone());
        self.tokens.push(token);
        Some(wire::Loan { token, segment })
    }

    /// `true` if nothing was lent.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        for &token in &self.tokens {
            if let Some(buffer) = self.lender.loans.end_loan(token) {
                buffer.freeze();
            }
        }
    }
}
