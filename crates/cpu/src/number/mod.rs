//! Arithmetic on elements of any numeric dtype, where the rules differ: integers wrap, halves
//! compute as `f32`.
//!
//! ```
//! use thalweg_cpu::number::{Arithmetic, Float};
//! use thalweg_tensor::half::f16;
//!
//! assert_eq!(Arithmetic::add(250u8, 10), 4);
//!
//! // A function for all floats: it computes in `f32` for halves.
//! fn root<T: Float>(x: T) -> T {
//!     use thalweg_cpu::number::Wide;
//!     T::narrow(x.widen().sqrt())
//! }
//! assert_eq!(root(f16::from_f32(9.0)).to_f32(), 3.0);
//! assert_eq!(root(9.0f64), 3.0);
//! ```

use half::{bf16, f16};
use thalweg_tensor::Element;
use thalweg_tensor::num_complex::Complex;

pub mod double;
pub mod single;

/// An element that can be added and multiplied: a real or a complex number.
pub trait Arithmetic: Element {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The sum; of integers, modulo their range.
    fn add(self, other: Self) -> Self;
    /// The difference; of integers, modulo their range.
    fn sub(self, other: Self) -> Self;
    /// The product; of integers, modulo their range.
    fn mul(self, other: Self) -> Self;
    /// This, divided by a count: rounded, and truncated to an integer, once.
    fn divided(self, count: usize) -> Self;
    /// The complex conjugate; of a real number, the number itself.
    #[inline(always)]
    fn conj(self) -> Self {
        self
    }
}

/// A real number.
pub trait Number: Arithmetic + PartialOrd {
    /// As an `f64`, rounded where it must be.
    fn to_f64(self) -> f64;
    /// From an `f64`, rounded to the nearest; integers truncate and saturate.
    fn from_f64(value: f64) -> Self;
}

/// `f32`, `f64`, and complex numbers of them: numbers with a division.
pub trait Field:
    Arithmetic
    + std::ops::Neg<Output = Self>
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
{
    /// The absolute value.
    fn magnitude(self) -> f64;
    /// The real part.
    fn real(self) -> f64;
    /// From a real number, rounded.
    fn from_real(value: f64) -> Self;
}

/// A floating-point element, computed in `f32` or `f64`.
pub trait Float: Number {
    /// The type to compute in: `f32` for halves, the type itself otherwise.
    type Wide: Wide;
    /// As the type to compute in.
    fn widen(self) -> Self::Wide;
    /// Rounded from the type that was computed in.
    fn narrow(wide: Self::Wide) -> Self;
}

/// `f32` and `f64`, with the functions that kernels use.
pub trait Wide: Float<Wide = Self> + Field {
    /// The smallest positive number that is not subnormal.
    const MIN_NORMAL: Self;
    /// The distance from 1 to the next larger number.
    const EPSILON: Self;
    /// This, or zero where it is subnormal, as TensorFlow's kernels have all such numbers. Processors take some hundred
    /// times as long for them; they come from decaying and from exponentially small numbers, and each makes more.
    #[inline(always)]
    fn normal(self) -> Self {
        if Wide::abs(self) < Self::MIN_NORMAL {
            Self::ZERO
        } else {
            self
        }
    }
    /// The square root.
    fn sqrt(self) -> Self;
    /// e to the power of this.
    fn exp(self) -> Self;
    /// e to the power of this, less 1.
    fn exp_m1(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The natural logarithm of 1 more than this.
    fn ln_1p(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// This to the power of `exponent`.
    fn powf(self, exponent: Self) -> Self;
    /// The largest integer not above this.
    fn floor(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// `true` if this is not a number.
    fn is_nan(self) -> bool;
    /// Negative infinity.
    const NEG_INFINITY: Self;
}

/// `1 / (1 + exp(-x))`, by the one of two forms whose exponential cannot overflow.
#[inline(always)]
pub fn sigmoid<W: Wide>(x: W) -> W {
    let e = Wide::exp(-Wide::abs(x));
    // One division for both forms.
    let above = if x < W::ZERO { e } else { W::ONE };
    above / (W::ONE + e)
}

macro_rules! ints {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            #[inline(always)]
            fn add(self, other: $t) -> $t { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: $t) -> $t { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: $t) -> $t { self.wrapping_mul(other) }
            #[inline(always)]
            fn divided(self, count: usize) -> $t { (self as f64 / count as f64) as $t }
        }
        impl Number for $t {
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn from_f64(value: f64) -> $t { value as $t }
        }
    )*};
}

ints! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! wide {
    ($($t:ident: $exp:path, $exp_m1:path, $ln:path, $ln_1p:path, $tanh:path;)*) => {$(
        impl Arithmetic for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            #[inline(always)]
            fn add(self, other: $t) -> $t { self + other }
            #[inline(always)]
            fn sub(self, other: $t) -> $t { self - other }
            #[inline(always)]
            fn mul(self, other: $t) -> $t { self * other }
            #[inline(always)]
            fn divided(self, count: usize) -> $t { (f64::from(self) / count as f64) as $t }
        }
        impl Number for $t {
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn from_f64(value: f64) -> $t { value as $t }
        }
        impl Field for $t {
            #[inline(always)]
            fn magnitude(self) -> f64 { f64::from(self).abs() }
            #[inline(always)]
            fn real(self) -> f64 { self.into() }
            #[inline(always)]
            fn from_real(value: f64) -> $t { value as $t }
        }
        impl Float for $t {
            type Wide = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(wide: $t) -> $t { wide }
        }
        impl Wide for $t {
            const MIN_NORMAL: $t = $t::MIN_POSITIVE;
            const EPSILON: $t = $t::EPSILON;
            #[inline(always)]
            fn sqrt(self) -> $t { $t::sqrt(self) }
            #[inline(always)]
            fn exp(self) -> $t { $exp(self) }
            #[inline(always)]
            fn exp_m1(self) -> $t { $exp_m1(self) }
            #[inline(always)]
            fn ln(self) -> $t { $ln(self) }
            #[inline(always)]
            fn ln_1p(self) -> $t { $ln_1p(self) }
            #[inline(always)]
            fn tanh(self) -> $t { $tanh(self) }
            #[inline(always)]
            fn powf(self, exponent: $t) -> $t { $t::powf(self, exponent) }
            #[inline(always)]
            fn floor(self) -> $t { $t::floor(self) }
            #[inline(always)]
            fn abs(self) -> $t { $t::abs(self) }
            #[inline(always)]
            fn is_nan(self) -> bool { $t::is_nan(self) }
            const NEG_INFINITY: $t = $t::NEG_INFINITY;
        }
    )*};
}

wide! {
    f32: single::exp, single::exp_m1, single::ln, single::ln_1p, single::tanh;
    f64: double::exp, double::exp_m1, double::ln, double::ln_1p, double::tanh;
}

macro_rules! halves {
    ($($t:ident)*) => {$(
        impl Arithmetic for $t {
            const ZERO: $t = $t::ZERO;
            const ONE: $t = $t::ONE;
            #[inline(always)]
            fn add(self, other: $t) -> $t { $t::from_f32(self.to_f32() + other.to_f32()) }
            #[inline(always)]
            fn sub(self, other: $t) -> $t { $t::from_f32(self.to_f32() - other.to_f32()) }
            #[inline(always)]
            fn mul(self, other: $t) -> $t { $t::from_f32(self.to_f32() * other.to_f32()) }
            #[inline(always)]
            fn divided(self, count: usize) -> $t { $t::from_f64(self.to_f64() / count as f64) }
        }
        impl Number for $t {
            #[inline(always)]
            fn to_f64(self) -> f64 { $t::to_f64(self) }
            #[inline(always)]
            fn from_f64(value: f64) -> $t { $t::from_f64(value) }
        }
        impl Float for $t {
            type Wide = f32;
            #[inline(always)]
            fn widen(self) -> f32 { self.to_f32() }
            #[inline(always)]
            fn narrow(wide: f32) -> $t { $t::from_f32(wide) }
        }
    )*};
}

halves! { f16 bf16 }

macro_rules! complex {
    ($($t:ident)*) => {$(
        impl Arithmetic for Complex<$t> {
            const ZERO: Self = Complex::new(0.0, 0.0);
            const ONE: Self = Complex::new(1.0, 0.0);
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn divided(self, count: usize) -> Self { self / count as $t }
            #[inline(always)]
            fn conj(self) -> Self { Complex::conj(&self) }
        }
        impl Field for Complex<$t> {
            #[inline(always)]
            fn magnitude(self) -> f64 { self.norm().into() }
            #[inline(always)]
            fn real(self) -> f64 { self.re.into() }
            #[inline(always)]
            fn from_real(value: f64) -> Self { Complex::from(value as $t) }
        }
    )*};
}

complex! { f32 f64 }
