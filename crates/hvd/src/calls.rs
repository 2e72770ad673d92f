//! Collectives on tensors, outside of graphs.

use std::sync::atomic::Ordering;

use thalweg_collective::ALL_RANKS;
use thalweg_device::{Collective, CollectiveRequest, ReduceOp};
use thalweg_tensor::Tensor;

use crate::error::HvdError;
use crate::ranks::Hvd;

impl Hvd {
    /// Joins: this rank has no more data. Until all ranks have called this, it contributes zeros to the sums and
    /// averages of the others, and no rows to their gathers: an average still divides by the number of all ranks.
    /// Returns the rank that was the last to join.
    ///
    /// # Errors
    /// There are other ranks, and the job began without [`Hvd::init_negotiated`]. The error that ended the job: also if
    /// the others run a collective that needs a value of this rank.
    ///
    /// ```
    /// use thalweg_hvd::Hvd;
    ///
    /// let hvd = Hvd::init_negotiated()?;
    /// // Trains on the data that it has.
    /// assert_eq!(hvd.join()?, 0);
    /// # Ok::<(), thalweg_hvd::HvdError>(())
    /// ```
    pub fn join(&self) -> Result<usize, HvdError> {
        let last = self.progress.join()?;
        // Ranks have run different numbers of collectives.
        self.calls.store(0, Ordering::Relaxed);
        Ok(last)
    }

    /// Returns this rank with a name for its collectives outside of graphs: ranks that negotiate match collectives by
    /// name. Without a name they are numbered.
    ///
    /// ```
    /// use thalweg_hvd::{Hvd, ReduceOp};
    /// use thalweg_tensor::Tensor;
    ///
    /// let hvd = Hvd::init_negotiated()?;
    /// hvd.called("loss").allreduce(Tensor::scalar(1.0f32), ReduceOp::Average)?;
    /// # Ok::<(), thalweg_hvd::HvdError>(())
    /// ```
    pub fn called(&self, name: &str) -> Hvd {
        let mut named = self.clone();
        named.name = Some(name.into());
        named
    }

    /// Name of a collective: by default its number, as all ranks run the same ones.
    fn name(&self, op_name: &str) -> String {
        match &self.name {
            Some(name) => (**name).to_owned(),
            None => format!("{op_name}.{}", self.calls.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn call(
        &self,
        op_name: &str,
        kind: Collective,
        input: Tensor,
        set: i32,
    ) -> Result<Vec<Tensor>, HvdError> {
        let name = self.name(op_name);
        let request = CollectiveRequest {
            name,
            set,
            kind,
            input,
        };
        Ok(self.progress.call(request)?)
    }

    fn call_single(
        &self,
        op_name: &str,
        kind: Collective,
        input: Tensor,
    ) -> Result<Tensor, HvdError> {
        let mut all = self.call(op_name, kind, input, ALL_RANKS)?;
        Ok(all.swap_remove(0))
    }

    /// Reduces the values of all ranks, immediately and outside of any graph.
    ///
    /// # Errors
    /// The ranks' values do not match, or the error that ended the job.
    ///
    /// ```
    /// use thalweg_hvd::{Hvd, ReduceOp};
    /// use thalweg_tensor::Tensor;
    ///
    /// let hvd = Hvd::init()?;
    /// let mean = hvd.allreduce(Tensor::vector(&[1.0f32]), ReduceOp::Average)?;
    /// assert_eq!(mean, Tensor::vector(&[1.0f32]));
    /// # Ok::<(), thalweg_hvd::HvdError>(())
    /// ```
    pub fn allreduce(&self, tensor: Tensor, op: ReduceOp) -> Result<Tensor, HvdError> {
        let kind = Collective::Reduce(op.into());
        self.call_single("allreduce", kind, tensor)
    }

    /// Like [`Hvd::allreduce`] of each tensor, in one exchange for each dtype: all of them are reduced, or none.
    ///
    /// # Errors
    /// As for [`Hvd::allreduce`].
    ///
    /// ```
    /// use thalweg_hvd::{Hvd, ReduceOp};
    /// use thalweg_tensor::Tensor;
    ///
    /// let hvd = Hvd::init()?;
    /// let pair = [Tensor::vector(&[1.0f32, 2.0]), Tensor::scalar(3.0f32)];
    /// assert_eq!(hvd.grouped_allreduce(&pair, ReduceOp::Sum)?, pair);
    /// # Ok::<(), thalweg_hvd::HvdError>(())
    /// ```
    pub fn grouped_allreduce(
        &self,
        tensors: &[Tensor],
        op: ReduceOp,
    ) -> Result<Vec<Tensor>, HvdError> {
        crate::grouped::allreduce(tensors, op, |t| self.allreduce(t, op))
    }

    /// Concatenates the rows of all ranks, in rank order. Only the first dimension may differ.
    ///
    /// # Errors
    /// As for [`Hvd::allreduce`].
    pub fn allgather(&self, tensor: Tensor) -> Result<Tensor, HvdError> {
        self.call_single("allgather", Collective::Gather, tensor)
    }

    /// Returns the value of rank `root`.
    ///
    /// # Errors
    /// As for [`Hvd::allreduce`].
    pub fn broadcast(&self, tensor: Tensor, root: usize) -> Result<Tensor, HvdError> {
        self.call_single("broadcast", Collective::Broadcast { root }, tensor)
    }

    /// Exchanges rows: returns the rows that all ranks send to this one, and the number of rows from each. `splits` has
    /// the number of rows for each rank.
    ///
    /// # Errors
    /// As for [`Hvd::allreduce`].
    pub fn alltoall(&self, tensor: Tensor, splits: &[usize]) -> Result<(Tensor, Tensor), HvdError> {
        let splits = splits.to_vec();
        let mut all = self.call(
            "alltoall",
            Collective::Exchange { splits },
            tensor,
            ALL_RANKS,
        )?;
        let received = all.swap_remove(1);
        Ok((all.swap_remove(0), received))
    }

    /// This rank's rows of the result of [`Hvd::allreduce`].
    ///
    /// # Errors
    /// As for [`Hvd::allreduce`].
    pub fn reducescatter(&self, tensor: Tensor, op: ReduceOp) -> Result<Tensor, HvdError> {
        let kind = Collective::Scatter(op.into());
        self.call_single("reducescatter", kind, tensor)
    }

    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// As for [`Hvd::allreduce`].
    pub fn barrier(&self) -> Result<(), HvdError> {
        let nothing = Tensor::vector::<f32>(&[]);
        self.call("barrier", Collective::Barrier, nothing, ALL_RANKS)
            .map(|_| ())
    }
}
