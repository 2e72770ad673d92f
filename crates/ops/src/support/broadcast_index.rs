//! Elements of an operand of a broadcast, for kernels of strings.

use thalweg_tensor::Shape;

/// Maps elements of a broadcast result to elements of an operand.
pub(crate) struct BroadcastIndex {
    /// For each dimension of the result: its length, and the step in the operand.
    steps: Vec<(usize, usize)>,
}

impl BroadcastIndex {
    /// The map from a result of dimensions `dims`.
    pub(crate) fn new(operand: &Shape, dims: &[usize]) -> BroadcastIndex {
        let own = operand.to_dims().unwrap_or_default();
        let mut step = 1;
        let steps = dims.iter().rev().enumerate().map(|(i, &len)| {
            let own = own.len().checked_sub(i + 1).map_or(1, |at| own[at]);
            let walked = if own == 1 { 0 } else { step };
            step *= own;
            (len, walked)
        });
        BroadcastIndex {
            steps: steps.collect(),
        }
    }

    /// The element of the operand for element `i` of the result.
    pub(crate) fn index(&self, mut i: usize) -> usize {
        let mut at = 0;
        for &(len, step) in &self.steps {
            at += i % len.max(1) * step;
            i /= len.max(1);
        }
        at
    }
}
