//! Reader of a task's responses: values come over the connection or through shared memory.

use std::sync::Arc;

use thalweg_tensor::{Buffer, Tensor};

use super::frames::Frames;
use super::messages::Value;
use super::messages::header::Kind;
use super::peers::{Peer, ResponseFrames};
use crate::error::ClusterError;
use crate::transport::shared_memory::segments::{ColocatedTask, LentValue};

/// A response, and the values of it that are read in segments of the sender. A drop returns them.
pub(crate) struct ResponseReader {
    pub(crate) peer: Arc<Peer>,
    from: Option<Arc<ColocatedTask>>,
    answer: Option<ResponseFrames>,
    /// Buffers of lent values, by token.
    lent: Vec<(u64, Arc<Buffer>)>,
}

impl ResponseReader {
    /// Calls a task. Its values may come through shared memory if `from` gives access to its segments.
    ///
    /// # Errors
    /// The task is not reached.
    pub(crate) async fn call(
        peer: &Arc<Peer>,
        name: &str,
        request: Frames,
        from: Option<Arc<ColocatedTask>>,
    ) -> Result<ResponseReader, ClusterError> {
        let answer = peer.call(name, request).await?;
        Ok(ResponseReader::of(peer, answer, from))
    }

    /// Reads a response of this task.
    pub(crate) fn of(
        peer: &Arc<Peer>,
        answer: ResponseFrames,
        from: Option<Arc<ColocatedTask>>,
    ) -> ResponseReader {
        ResponseReader {
            peer: peer.clone(),
            from,
            answer: Some(answer),
            lent: Vec::new(),
        }
    }

    fn answer(&mut self) -> Result<&mut ResponseFrames, ClusterError> {
        let over = || ClusterError::invalid("the answer is over");
        self.answer.as_mut().ok_or_else(over)
    }

    /// Reads the next header.
    ///
    /// # Errors
    /// As [`Peer::next`].
    pub(crate) async fn next(&mut self) -> Result<Kind, ClusterError> {
        let peer = self.peer.clone();
        let answer = self.answer()?;
        peer.next(answer).await
    }

    /// Reads the tensor of this header, to be kept: its bytes come over the connection, or are copied from the
    /// sender's segment.
    ///
    /// # Errors
    /// The bytes do not match the header.
    pub(crate) async fn tensor(&mut self, header: &Value) -> Result<Tensor, ClusterError> {
        if header.loan.is_some() {
            let lent = self.lent(header).await?;
            return self.peer.copied(lent).await;
        }
        let peer = self.peer.clone();
        peer.tensor(self.answer()?, header).await
    }

    /// Returns the number of lent values.
    pub(crate) fn count(&self) -> usize {
        self.lent.len()
    }

    /// Maps the lent value of this header.
    ///
    /// # Errors
    /// It cannot be mapped, or no loan was requested.
    pub(crate) async fn lent(&mut self, header: &Value) -> Result<LentValue, ClusterError> {
        let lent = self.peer.lent(self.from.as_deref(), header).await?;
        if let Some(loan) = header.loan {
            self.lent.push((loan.token, lent.buffer.clone()));
        }
        Ok(lent)
    }
}

impl Drop for ResponseReader {
    fn drop(&mut self) {
        let Some(from) = &self.from else {
            return;
        };
        // Several values may lie in one buffer: it is released once.
        let mut buffers: Vec<(Arc<Buffer>, Vec<u64>)> = Vec::new();
        for (token, buffer) in self.lent.drain(..) {
            match buffers.iter_mut().find(|(b, _)| Arc::ptr_eq(b, &buffer)) {
                Some((_, tokens)) => tokens.push(token),
                None => buffers.push((buffer, vec![token])),
            }
        }
        // A buffer that is still in use is not returned: its bytes then stay unchanged.
        let free = |(buffer, tokens)| self.peer.release(from, buffer).then_some(tokens);
        let tokens: Vec<u64> = buffers.into_iter().filter_map(free).flatten().collect();
        if let (false, Some(answer)) = (tokens.is_empty(), self.answer.take()) {
            // A drop of the stream before the return would mean that nothing is returned.
            from.return_loans(tokens, Box::new(answer));
        }
    }
}
