//! Activations: functions that end an epilogue.

use crate::number::{Number, Wide};
use crate::vector::Vector;

/// A function that is applied to each output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The number itself.
    #[default]
    None,
    /// `max(x, 0)`; NaN stays.
    Relu,
    /// `min(max(x, 0), 6)`; NaN stays.
    Relu6,
    /// `x` if it is not negative, otherwise `exp(x) - 1`.
    Elu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x sigmoid(x)`.
    Swish,
    /// `x (Relu6(x + 3) / 6)`, with a product by the rounded sixth.
    HardSwish,
}

impl Activation {
    /// All of them.
    pub const ALL: &[Activation] = &[
        Activation::None,
        Activation::Relu,
        Activation::Relu6,
        Activation::Elu,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Swish,
        Activation::HardSwish,
    ];

    /// `true` if it is a few instructions, so that each of a tile's registers may have its own copy of them.
    #[inline(always)]
    pub(super) fn is_short(self) -> bool {
        matches!(
            self,
            Activation::None | Activation::Relu | Activation::Relu6
        )
    }

    /// Applies the activation to a vector of any width: this is all there is of its arithmetic.
    ///
    /// # Safety
    /// As [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn apply<V: Vector>(self, x: V) -> V {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Activation::Elu => x.map(elu),
                Activation::Sigmoid => x.sigmoid(),
                Activation::Tanh => x.map(Wide::tanh),
                Activation::Swish => x.mul(x.sigmoid()),
                Activation::HardSwish => {
                    let three = V::splat(V::Elem::from_f64(3.0));
                    let sixth = V::splat(V::Elem::from_f64(SIXTH));
                    let gate = Activation::Relu6.apply_short(x.add(three));
                    x.mul(gate.mul(sixth))
                }
                short => short.apply_short(x),
            }
        }
    }

    /// Applies a [short](Activation::is_short) activation; others leave the vector as it is.
    ///
    /// # Safety
    /// As [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn apply_short<V: Vector>(self, x: V) -> V {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Activation::Relu => x.at_least(V::zero()),
                Activation::Relu6 => {
                    let six = V::splat(V::Elem::from_f64(6.0));
                    x.at_least(V::zero()).at_most(six)
                }
                _ => x,
            }
        }
    }
}

/// The factor of [`Activation::HardSwish`].
const SIXTH: f64 = 1.0 / 6.0;

#[inline(always)]
fn elu<W: Wide>(x: W) -> W {
    if x < W::ZERO { Wide::exp_m1(x) } else { x }
}

#[cfg(test)]
impl Activation {
    /// Applies the activation by its definition: tests compare with this.
    pub(crate) fn of(self, x: f64) -> f64 {
        match self {
            Activation::None => x,
            Activation::Relu | Activation::Relu6 if x < 0.0 => 0.0,
            Activation::Relu6 if x > 6.0 => 6.0,
            Activation::Relu | Activation::Relu6 => x,
            Activation::Elu if x < 0.0 => x.exp() - 1.0,
            Activation::Elu => x,
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Tanh => x.tanh(),
            Activation::Swish => x * (1.0 / (1.0 + (-x).exp())),
            Activation::HardSwish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        }
    }

    /// `true` if this is the activation's result: exactly where it is of a comparison, and up to some units of the last
    /// place where it has more arithmetic.
    pub(crate) fn gives<T: Wide>(self, x: T, found: T) -> bool {
        let (wanted, found) = (self.of(x.to_f64()), found.to_f64());
        let near = match self.is_short() {
            true => 0.0,
            // exp(x) - 1 loses places of its own near zero.
            false => 8.0 * T::EPSILON.to_f64() * wanted.abs().max(f64::EPSILON),
        };
        let same = found == wanted || found.is_nan() && wanted.is_nan();
        same || (found - wanted).abs() <= near
    }
}
