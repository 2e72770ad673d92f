//! Loops that are compiled for each function of elements.

use thalweg_cpu::{Isa, Vectorize};
use thalweg_tensor::{DType, Element};

use super::block::{BLOCK, Block};

/// A function of one element.
pub(super) trait Unary<A, B>: Send + Sync {
    /// `out[i] = f(a[i])`.
    fn run(&self, isa: Isa, a: &[A], out: &mut [B]);
}

/// A function of one element with a result of the same type.
pub(super) trait UnarySame<T>: Unary<T, T> {
    /// `all[i] = f(all[i])`.
    fn in_place(&self, isa: Isa, all: &mut [T]);
}

/// A function of two elements.
pub(super) trait Binary<T, C>: Send + Sync {
    /// `out[i] = f(a[i], b[i])`.
    fn run(&self, isa: Isa, a: &[T], b: &[T], out: &mut [C]);
}

/// A function of two elements with a result of their type.
pub(super) trait BinarySame<T>: Binary<T, T> {
    /// `all[i] = f(all[i], b[i])`.
    fn in_first(&self, isa: Isa, all: &mut [T], b: &[T]);
    /// `all[i] = f(a[i], all[i])`.
    fn in_second(&self, isa: Isa, a: &[T], all: &mut [T]);
}

/// A function of elements.
pub(super) struct Each<F>(pub(super) F);

/// A function that a loop calls. The compiler inlines a closure, and a function that is passed as a value, only if it is
/// short; a long one stays a call for each element. A type of its own, whose method is always inlined, has the vector
/// instructions of the loop.
pub(crate) trait Function<A, B>: Copy + Send + Sync {
    fn of(self, a: A) -> B;
}

impl<A, B, F: Fn(A) -> B + Copy + Send + Sync> Function<A, B> for F {
    #[inline(always)]
    fn of(self, a: A) -> B {
        self(a)
    }
}

/// A function of `f64`, for floats of less precision.
#[derive(Clone, Copy)]
pub(crate) struct InF64<F>(pub(crate) F);

impl<F: Function<f64, f64>> Function<f32, f32> for InF64<F> {
    #[inline(always)]
    fn of(self, a: f32) -> f32 {
        self.0.of(f64::from(a)) as f32
    }
}

/// A function of elements, and another one for exceptions.
pub(super) struct EachWithExceptions<F, G, H> {
    pub(super) f: F,
    pub(super) is_exception: G,
    pub(super) exact: H,
}

impl<T: Element, F, G, H> Unary<T, T> for EachWithExceptions<F, G, H>
where
    F: Function<T, T>,
    G: Fn(T) -> bool + Copy + Send + Sync,
    H: Fn(T) -> T + Copy + Send + Sync,
{
    fn run(&self, isa: Isa, a: &[T], out: &mut [T]) {
        isa.run_over::<T, _>(Map(a, out, self.f));
        if isa.run_over::<T, _>(Any(a, self.is_exception)) {
            for (out, &a) in out.iter_mut().zip(a) {
                if (self.is_exception)(a) {
                    *out = (self.exact)(a);
                }
            }
        }
    }
}

impl<T: Element, F, G, H> UnarySame<T> for EachWithExceptions<F, G, H>
where
    F: Function<T, T>,
    G: Fn(T) -> bool + Copy + Send + Sync,
    H: Fn(T) -> T + Copy + Send + Sync,
{
    fn in_place(&self, isa: Isa, all: &mut [T]) {
        by_blocks(self, isa, all);
    }
}

/// `true` if loops over `T` are compiled for each instruction set, and for outputs in place of inputs.
const fn is_vector<T: Element>() -> bool {
    matches!(T::DTYPE, DType::F32)
}

/// Runs a loop in place, from a copy of each block of `all`.
fn by_blocks<T: Element>(each: &dyn Unary<T, T>, isa: Isa, all: &mut [T]) {
    for new in all.chunks_mut(BLOCK) {
        each.run(isa, &Block::from_slice(new), new);
    }
}

/// Runs a loop of two inputs in place of the first (`FIRST`) or the second one, from a copy of each block.
fn by_blocks_of_two<T: Element, const FIRST: bool>(
    each: &dyn Binary<T, T>,
    isa: Isa,
    other: &[T],
    all: &mut [T],
) {
    for (other, new) in other.chunks(BLOCK).zip(all.chunks_mut(BLOCK)) {
        let old = Block::from_slice(new);
        match FIRST {
            true => each.run(isa, &old, other, new),
            false => each.run(isa, other, &old, new),
        }
    }
}

impl<A: Element, B: Element, F: Function<A, B>> Unary<A, B> for Each<F> {
    fn run(&self, isa: Isa, a: &[A], out: &mut [B]) {
        isa.run_over::<A, _>(Map(a, out, self.0));
    }
}

impl<T: Element, F: Function<T, T>> UnarySame<T> for Each<F> {
    fn in_place(&self, isa: Isa, all: &mut [T]) {
        if const { is_vector::<T>() } {
            isa.run(MapSame(all, self.0));
        } else {
            by_blocks(self, isa, all);
        }
    }
}

impl<T: Element, C: Element, F: Fn(T, T) -> C + Copy + Send + Sync> Binary<T, C> for Each<F> {
    fn run(&self, isa: Isa, a: &[T], b: &[T], out: &mut [C]) {
        isa.run_over::<T, _>(Zip(a, b, out, self.0));
    }
}

impl<T: Element, F: Fn(T, T) -> T + Copy + Send + Sync> BinarySame<T> for Each<F> {
    fn in_first(&self, isa: Isa, all: &mut [T], b: &[T]) {
        if const { is_vector::<T>() } {
            isa.run(ZipSame::<_, _, true>(b, all, self.0));
        } else {
            by_blocks_of_two::<T, true>(self, isa, b, all);
        }
    }

    fn in_second(&self, isa: Isa, a: &[T], all: &mut [T]) {
        if const { is_vector::<T>() } {
            isa.run(ZipSame::<_, _, false>(a, all, self.0));
        } else {
            by_blocks_of_two::<T, false>(self, isa, a, all);
        }
    }
}

/// `out[i] = f(a[i])`.
pub(super) struct Map<'a, A, B, F>(pub(super) &'a [A], pub(super) &'a mut [B], pub(super) F);

impl<A: Copy, B, F: Function<A, B>> Vectorize for Map<'_, A, B, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (out, &a) in self.1.iter_mut().zip(self.0) {
            *out = self.2.of(a);
        }
    }
}

/// `true` if a condition holds for an element; all are looked at.
pub(crate) struct Any<'a, T, F>(pub(crate) &'a [T], pub(crate) F);

impl<T: Copy, F: Fn(T) -> bool> Vectorize for Any<'_, T, F> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        self.0.iter().fold(false, |any, &x| any | (self.1)(x))
    }
}

struct MapSame<'a, T, F>(&'a mut [T], F);

impl<T: Copy, F: Function<T, T>> Vectorize for MapSame<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for out in self.0 {
            *out = self.1.of(*out);
        }
    }
}

struct Zip<'a, A, B, C, F>(&'a [A], &'a [B], &'a mut [C], F);

impl<A: Copy, B: Copy, C, F: Fn(A, B) -> C> Vectorize for Zip<'_, A, B, C, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for ((out, &a), &b) in self.2.iter_mut().zip(self.0).zip(self.1) {
            *out = (self.3)(a, b);
        }
    }
}

/// Loop of two inputs in place of the first (`FIRST`) or the second one.
struct ZipSame<'a, T, F, const FIRST: bool>(&'a [T], &'a mut [T], F);

impl<T: Copy, F: Fn(T, T) -> T, const FIRST: bool> Vectorize for ZipSame<'_, T, F, FIRST> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (out, &other) in self.1.iter_mut().zip(self.0) {
            *out = match FIRST {
                true => (self.2)(*out, other),
                false => (self.2)(other, *out),
            };
        }
    }
}
