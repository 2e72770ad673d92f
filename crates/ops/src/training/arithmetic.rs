//! Arithmetic shared by the rules of several optimizers.

use thalweg_device::Prepare;
use thalweg_tensor::DType;

use thalweg_cpu::number::Wide;

/// Dtype that a node computes in.
pub(super) fn dtype(p: &Prepare<'_>) -> DType {
    p.node.attrs.dtype("T").unwrap_or(DType::F32)
}

/// Returns -1, 0 or 1, or a NaN for NaN.
#[inline(always)]
pub(super) fn sign<W: Wide>(x: W) -> W {
    if x > W::ZERO {
        W::ONE
    } else if x < W::ZERO {
        -W::ONE
    } else {
        x
    }
}

/// Square of a gradient, or zero if that would be subnormal ([`Wide::normal`]). An element without another gradient or
/// epsilon is then divided by zero, as in TensorFlow, whose kernels flush such squares to zero too.
#[inline(always)]
pub(super) fn square<W: Wide>(g: W) -> W {
    let g = if Wide::abs(g) < W::MIN_NORMAL.sqrt() {
        W::ZERO
    } else {
        g
    };
    g * g
}

/// The larger of two values.
#[inline(always)]
pub(super) fn max<W: Wide>(a: W, b: W) -> W {
    if a < b { b } else { a }
}

/// Shrinks `x` at this rate, as FOBOS does: nearer to zero by `rate l1`, but not beyond it, and smaller by
/// a factor.
#[inline(always)]
pub(super) fn shrink<W: Wide>(x: W, rate: W, l1: W, l2: W) -> W {
    let nearer = match l1 > W::ZERO {
        true => sign(x) * max(Wide::abs(x) - rate * l1, W::ZERO),
        false => x,
    };
    nearer / (W::ONE + l2 * rate)
}
