//! Elements of images.

/// An element of an image that is computed with as `f32`, as TensorFlow does.
pub trait Pixel: Copy + Send + Sync {
    /// The number as `f32`, rounded to the nearest.
    fn to_f32(self) -> f32;
}

/// Implements [`Pixel`] by `as`.
macro_rules! pixel {
    ($($t:ty)*) => {$(
        impl Pixel for $t {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
        }
    )*};
}

pixel!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);
