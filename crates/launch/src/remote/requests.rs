//! Requests on their way to an agent.

use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use crate::protocol::Request;

/// Queue of requests, until it is closed.
pub(super) struct Requests(Mutex<Option<Sender<Request>>>);

impl Requests {
    pub(super) fn new(sender: Sender<Request>) -> Requests {
        Requests(Mutex::new(Some(sender)))
    }

    /// Queues a request, which blocks nobody.
    pub(super) fn send(&self, request: Request) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            // An error is a connection that has ended, which is seen where answers are read.
            let _ = sender.send(request);
        }
    }

    /// Closes the queue. The agent sees the end of its input once the last request is written.
    pub(super) fn close(&self) {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sender.take();
    }
}
