//! What the rules of several optimizers share.

use thalweg_device::Prepare;
use thalweg_tensor::DType;

use thalweg_cpu::number::Wide;

/// The dtype that a node computes.
pub(super) fn dtype(p: &Prepare<'_>) -> DType {
    p.node.attrs.dtype("T").unwrap_or(DType::F32)
}

/// -1, 0 or 1; a NaN stays.
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

/// The square of a gradient, or zero where that would be subnormal ([`Wide::normal`]): what has no other gradient, and no
/// epsilon, is then divided by zero, as in TensorFlow, whose kernels have such squares zero too.
#[inline(always)]
pub(super) fn square<W: Wide>(g: W) -> W {
    let g = if Wide::abs(g) < W::LEAST.sqrt() {
        W::ZERO
    } else {
        g
    };
    g * g
}

/// The larger one of two.
#[inline(always)]
pub(super) fn larger<W: Wide>(a: W, b: W) -> W {
    if a < b { b } else { a }
}

/// What FOBOS makes of `x` at this rate: nearer to zero by `rate l1`, but not beyond it, and less by
/// a factor.
#[inline(always)]
pub(super) fn shrunk<W: Wide>(x: W, rate: W, l1: W, l2: W) -> W {
    let nearer = match l1 > W::ZERO {
        true => sign(x) * larger(Wide::abs(x) - rate * l1, W::ZERO),
        false => x,
    };
    nearer / (W::ONE + l2 * rate)
}
