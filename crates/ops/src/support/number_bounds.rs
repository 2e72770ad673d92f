//! The lowest and the highest number of each dtype.

use thalweg_cpu::number::Number;

/// The lowest and the highest number of a dtype.
pub(crate) trait NumberBounds: Number {
    /// The lowest one.
    const LOWEST: Self;
    /// The highest one.
    const HIGHEST: Self;
}

macro_rules! bounds {
    ($($t:ty)*) => {$(impl NumberBounds for $t {
        const LOWEST: $t = <$t>::MIN;
        const HIGHEST: $t = <$t>::MAX;
    })*};
}

bounds! { half::f16 half::bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 }
