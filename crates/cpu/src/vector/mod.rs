//! Vectors of numbers, one type for each instruction set, for code that chooses its registers.

#[cfg(target_arch = "x86_64")]
mod logistic;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::marker::PhantomData;

use crate::Vectorize;
use crate::isa::{Isa, Level};
use crate::number::{Arithmetic, Wide, sigmoid};

/// A vector register's worth of numbers.
///
/// # Safety
/// All functions need the machine to have the vector's instructions; pointers are valid for the lanes they touch, and
/// need no alignment. Implementations are `#[inline(always)]`, so that they become code of a caller that is compiled for
/// those instructions.
pub(super) trait Vector: Copy {
    type Elem: Wide;
    const LANES: usize;

    unsafe fn zero() -> Self;
    unsafe fn splat(x: Self::Elem) -> Self;
    unsafe fn load(from: *const Self::Elem) -> Self;
    /// The first `n` lanes, `0 < n <= LANES`; nothing behind them is read.
    unsafe fn load_first(from: *const Self::Elem, n: usize) -> Self;
    unsafe fn store(self, to: *mut Self::Elem);
    /// The first `n` lanes, `0 < n <= LANES`; nothing behind them is written.
    unsafe fn store_first(self, to: *mut Self::Elem, n: usize);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// Prefetches the cache line of an address, valid or not.
    unsafe fn prefetch(_address: *const Self::Elem) {}
    /// `floor` where the number is below it; keeps NaN.
    unsafe fn at_least(self, floor: Self) -> Self;
    /// `ceiling` where the number is above it; keeps NaN.
    unsafe fn at_most(self, ceiling: Self) -> Self;
    /// `self * factor + term`, fused where the instructions are.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// A function of each lane: straight lines of arithmetic, which the compiler makes vectors of.
    #[inline(always)]
    unsafe fn map(self, f: impl Fn(Self::Elem) -> Self::Elem) -> Self {
        let mut lanes = [Self::Elem::ZERO; MAX_LANES];
        // SAFETY: there are no vectors of more lanes; the rest is the caller's promise.
        unsafe {
            self.store(lanes.as_mut_ptr());
            let mut i = 0;
            while i < Self::LANES {
                lanes[i] = f(lanes[i]);
                i += 1;
            }
            Self::load(lanes.as_ptr())
        }
    }
    /// `1 / (1 + exp(-x))`.
    #[inline(always)]
    unsafe fn sigmoid(self) -> Self {
        // SAFETY: by the caller's promise.
        unsafe { self.map(sigmoid) }
    }
}

/// The most lanes that a vector has.
const MAX_LANES: usize = 16;

/// Numbers that have a vector for each instruction set: `f32` and `f64`.
#[allow(private_bounds)]
pub trait Vectored: Wide {
    #[doc(hidden)]
    type Portable: Vector<Elem = Self>;
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    type Avx2: Vector<Elem = Self>;
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    type Avx512: Vector<Elem = Self>;
}

/// Code that is written once, for every vector of `T`.
pub(super) trait VectorCode<T> {
    /// Runs it. Must be `#[inline(always)]`, or it is compiled for the baseline only.
    ///
    /// # Safety
    /// As [`Vector`].
    unsafe fn run<V: Vector<Elem = T>>(self);
}

/// Runs code in the vectors of these instructions.
pub(super) fn run_in_vectors<T: Vectored>(isa: Isa, code: impl VectorCode<T>) {
    match isa.level() {
        Level::Portable => isa.run(Chosen::<_, T::Portable>(code, PhantomData)),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => isa.run(Chosen::<_, T::Avx2>(code, PhantomData)),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => isa.run(Chosen::<_, T::Avx512>(code, PhantomData)),
    }
}

/// Code with the vector that [`run_in_vectors`] has chosen for it.
struct Chosen<C, V>(C, PhantomData<V>);

impl<V: Vector, C: VectorCode<V::Elem>> Vectorize for Chosen<C, V> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        // SAFETY: an `Isa` exists only where its instructions do, and they are those of the vector.
        unsafe { self.0.run::<V>() }
    }
}

/// A few numbers that the compiler keeps in a vector register where the architecture has one.
#[derive(Clone, Copy)]
pub struct Lanes<T, const N: usize>(pub [T; N]);

impl<T: Wide, const N: usize> Vector for Lanes<T, N> {
    type Elem = T;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Lanes([T::ZERO; N])
    }
    #[inline(always)]
    unsafe fn splat(x: T) -> Self {
        Lanes([x; N])
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller's pointer is valid for `N` elements.
        Lanes(unsafe { from.cast::<[T; N]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_first(from: *const T, n: usize) -> Self {
        let mut lanes = [T::ZERO; N];
        for (i, lane) in lanes.iter_mut().enumerate().take(n) {
            // SAFETY: the caller's pointer is valid for `n` elements.
            *lane = unsafe { *from.add(i) };
        }
        Lanes(lanes)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller's pointer is valid for `N` elements.
        unsafe { to.cast::<[T; N]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, n: usize) {
        for (i, x) in self.0.into_iter().enumerate().take(n) {
            // SAFETY: the caller's pointer is valid for `n` elements.
            unsafe { *to.add(i) = x }
        }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Lanes(std::array::from_fn(|i| {
            Arithmetic::add(self.0[i], other.0[i])
        }))
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Lanes(std::array::from_fn(|i| {
            Arithmetic::mul(self.0[i], other.0[i])
        }))
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        Lanes(std::array::from_fn(|i| {
            if self.0[i] < floor.0[i] {
                floor.0[i]
            } else {
                self.0[i]
            }
        }))
    }
    #[inline(always)]
    unsafe fn at_most(self, ceiling: Self) -> Self {
        Lanes(std::array::from_fn(|i| {
            if self.0[i] > ceiling.0[i] {
                ceiling.0[i]
            } else {
                self.0[i]
            }
        }))
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        Lanes(std::array::from_fn(|i| {
            Arithmetic::add(Arithmetic::mul(self.0[i], factor.0[i]), term.0[i])
        }))
    }
}

impl Vectored for f32 {
    type Portable = Lanes<f32, 4>;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = std::arch::x86_64::__m256;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = std::arch::x86_64::__m512;
}

impl Vectored for f64 {
    type Portable = Lanes<f64, 2>;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = std::arch::x86_64::__m256d;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = std::arch::x86_64::__m512d;
}
