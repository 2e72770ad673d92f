//! Fused multiply-add of the dtypes that GEMMs sum in.

use bytemuck::Pod;

use crate::vector::Vectored;

/// The types in which GEMMs of few rows are summed.
pub trait FusedMulAdd: Pod + Vectored + std::ops::AddAssign {
    /// `self * x + sum`, rounded once where the machine does that.
    fn fused(self, x: Self, sum: Self) -> Self;
    /// `true` if it is neither infinite nor NaN.
    fn finite(self) -> bool;
}

impl FusedMulAdd for f32 {
    #[inline(always)]
    fn fused(self, x: f32, sum: f32) -> f32 {
        self.mul_add(x, sum)
    }

    #[inline(always)]
    fn finite(self) -> bool {
        self.is_finite()
    }
}

impl FusedMulAdd for f64 {
    #[inline(always)]
    fn fused(self, x: f64, sum: f64) -> f64 {
        self.mul_add(x, sum)
    }

    #[inline(always)]
    fn finite(self) -> bool {
        self.is_finite()
    }
}
