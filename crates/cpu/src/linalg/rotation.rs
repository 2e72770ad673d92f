//! Rotations of two coordinates: Givens's and Jacobi's.

use crate::number::Wide;

/// The cosine and sine of a rotation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation<T> {
    pub c: T,
    pub s: T,
}

impl<T: Wide> Rotation<T> {
    /// The rotation with `s p + c q = 0`.
    #[inline(always)]
    pub fn zeroing(p: T, q: T) -> Self {
        let hypotenuse = |t: T, like: T| match like < T::ZERO {
            true => -(T::ONE + t * t).sqrt(),
            false => (T::ONE + t * t).sqrt(),
        };
        if q == T::ZERO {
            let c = if p < T::ZERO { -T::ONE } else { T::ONE };
            Rotation { c, s: T::ZERO }
        } else if Wide::abs(p) > Wide::abs(q) {
            let t = q / p;
            let c = T::ONE / hypotenuse(t, p);
            Rotation { c, s: -(t * c) }
        } else {
            let t = p / q;
            let s = -(T::ONE / hypotenuse(t, q));
            Rotation { c: -(t * s), s }
        }
    }

    /// The rotation `J` that makes `J' m J` diagonal, where `m` is the symmetric matrix `[[x, y], [y, z]]`.
    #[inline(always)]
    pub fn diagonalizing(x: T, y: T, z: T) -> Self {
        let two = T::ONE + T::ONE;
        let deno = two * Wide::abs(y);
        if deno < T::MIN_NORMAL {
            return Rotation {
                c: T::ONE,
                s: T::ZERO,
            };
        }
        let tau = (x - z) / deno;
        let w = (tau * tau + T::ONE).sqrt();
        let t = match tau > T::ZERO {
            true => T::ONE / (tau + w),
            false => T::ONE / (tau - w),
        };
        let c = T::ONE / (t * t + T::ONE).sqrt();
        let s = match y > T::ZERO {
            true => -(t * c),
            false => t * c,
        };
        Rotation { c, s }
    }

    /// This after the inverse of `other`.
    #[inline(always)]
    pub fn after_inverse(self, other: Self) -> Self {
        Rotation {
            c: self.c * other.c + self.s * other.s,
            s: self.s * other.c - self.c * other.s,
        }
    }

    /// The inverse.
    #[inline(always)]
    pub fn inverse(self) -> Self {
        Rotation { s: -self.s, ..self }
    }

    /// `c x + s y` and `c y - s x` of two numbers.
    #[inline(always)]
    pub fn of(self, x: T, y: T) -> (T, T) {
        (self.c * x + self.s * y, self.c * y - self.s * x)
    }

    /// [`Rotation::of`] each pair of elements of two rows.
    #[inline(always)]
    pub fn rows(self, (x, y): (&mut [T], &mut [T])) {
        for (x, y) in x.iter_mut().zip(y) {
            (*x, *y) = self.of(*x, *y);
        }
    }
}
