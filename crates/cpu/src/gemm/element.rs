//! The element types of GEMMs.

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::fused::FusedMulAdd;
use crate::micro_kernel::Tiled;

/// A floating-point type of matrices, with the type that its GEMMs are summed in.
pub trait Element: Pod + Send + Sync {
    /// The type of the sums.
    type Sum: Tiled + FusedMulAdd;
    #[doc(hidden)]
    fn widen(from: &[Self], to: &mut [Self::Sum]);
    #[doc(hidden)]
    fn narrow(from: &[Self::Sum], to: &mut [Self]);
    /// The slice itself, where sums have its own type.
    #[doc(hidden)]
    fn as_sums(slice: &[Self]) -> Option<&[Self::Sum]>;
    /// As [`Element::as_sums`], to write.
    #[doc(hidden)]
    fn as_sums_mut(slice: &mut [Self]) -> Option<&mut [Self::Sum]>;
}

macro_rules! element {
    ($($own:ty),*; $($half:ty),*) => {
        $(impl Element for $own {
            type Sum = $own;
            fn widen(from: &[Self], to: &mut [$own]) {
                to.copy_from_slice(from);
            }
            fn narrow(from: &[$own], to: &mut [Self]) {
                to.copy_from_slice(from);
            }
            fn as_sums(slice: &[Self]) -> Option<&[$own]> {
                Some(slice)
            }
            fn as_sums_mut(slice: &mut [Self]) -> Option<&mut [$own]> {
                Some(slice)
            }
        })*
        $(impl Element for $half {
            type Sum = f32;
            fn widen(from: &[Self], to: &mut [f32]) {
                from.convert_to_f32_slice(to);
            }
            fn narrow(from: &[f32], to: &mut [Self]) {
                to.convert_from_f32_slice(from);
            }
            fn as_sums(_: &[Self]) -> Option<&[f32]> {
                None
            }
            fn as_sums_mut(_: &mut [Self]) -> Option<&mut [f32]> {
                None
            }
        })*
    };
}
element!(f32, f64; f16, bf16);
