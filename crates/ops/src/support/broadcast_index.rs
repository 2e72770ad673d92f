//! Elements of an operand of a broadcast, for kernels of strings.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::Shape;

/// Maps elements of a broadcast result to elements of an operand.
pub(crate) struct BroadcastIndex {
    /// For each dimension of the result, innermost first: its length, and the step in the operand. Dimensions that the
    /// operand walks as one are one.
    steps: Vec<(usize, usize)>,
}

impl BroadcastIndex {
    /// The map from a result of dimensions `dims`.
    pub(crate) fn new(operand: &Shape, dims: &[usize]) -> BroadcastIndex {
        let own = operand.to_dims().unwrap_or_default();
        let mut stride = 1;
        let mut steps: Vec<(usize, usize)> = Vec::new();
        for (i, &len) in dims.iter().rev().enumerate() {
            let own = own.len().checked_sub(i + 1).map_or(1, |at| own[at]);
            let step = if own == 1 { 0 } else { stride };
            // Only an empty tensor has dimensions whose product overflows, and it is not iterated.
            stride = usize::wrapping_mul(stride, own);
            match steps.last_mut() {
                _ if len == 1 => {}
                Some((inner, inner_step)) if step == inner.wrapping_mul(*inner_step) => {
                    *inner = inner.wrapping_mul(len);
                }
                _ => steps.push((len, step)),
            }
        }
        BroadcastIndex { steps }
    }

    /// The dimensions of the result of inputs `a` and `b`, which are broadcast to each other, and the map to each of them.
    pub(crate) fn of_inputs(
        cx: &TensorCx<'_>,
        [a, b]: [usize; 2],
    ) -> Result<(Vec<usize>, [BroadcastIndex; 2]), KernelError> {
        let (a, b) = (cx.tensor(a)?.shape(), cx.tensor(b)?.shape());
        let dims = a.broadcast(&b).and_then(|s| s.to_dims());
        let dims = dims.ok_or(KernelError::Argument("shapes that go together"))?;
        let maps = [a, b].map(|shape| BroadcastIndex::new(&shape, &dims));
        Ok((dims.to_vec(), maps))
    }

    /// The element of the operand for element `i` of the result.
    #[inline]
    pub(crate) fn index(&self, mut i: usize) -> usize {
        let Some(((_, outermost), inner)) = self.steps.split_last() else {
            return 0;
        };
        let mut at = 0;
        for &(len, step) in inner {
            at += i % len * step;
            i /= len;
        }
        at + i * outermost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_numpys_broadcasting() {
        for (own, dims, expected) in [
            (&[2, 3][..], &[2, 3][..], &[0, 1, 2, 3, 4, 5][..]),
            (&[], &[2, 2], &[0, 0, 0, 0]),
            (&[3], &[2, 3], &[0, 1, 2, 0, 1, 2]),
            (&[2, 1], &[2, 3], &[0, 0, 0, 1, 1, 1]),
            (&[2, 1, 2], &[2, 2, 2], &[0, 1, 0, 1, 2, 3, 2, 3]),
            (&[1, 2, 1], &[2, 2, 1], &[0, 1, 0, 1]),
        ] {
            let map = BroadcastIndex::new(&Shape::known(own), dims);
            let found: Vec<usize> = (0..expected.len()).map(|i| map.index(i)).collect();
            assert_eq!(found, expected, "{own:?} {dims:?}");
        }
        // A result without elements.
        BroadcastIndex::new(&Shape::known(&[0, 4]), &[0, 4]);
        let long = [0, 1 << 40, 1 << 40];
        BroadcastIndex::new(&Shape::known(&long), &long);
    }
}
