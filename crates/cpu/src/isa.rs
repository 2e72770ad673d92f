//! Instruction sets: found once when the process starts a device, then passed along.
//!
//! A loop is written once, as a [`Vectorize`], and compiled for each of them:
//!
//! ```
//! use thalweg_cpu::{Isa, Vectorize};
//!
//! struct Double<'a>(&'a mut [f32]);
//!
//! impl Vectorize for Double<'_> {
//!     type Out = ();
//!     #[inline(always)]
//!     fn run(self) {
//!         self.0.iter_mut().for_each(|x| *x *= 2.0);
//!     }
//! }
//!
//! for isa in Isa::available() {
//!     let mut x = [1.0, 2.0, 3.0];
//!     isa.run(Double(&mut x));
//!     assert_eq!(x, [2.0, 4.0, 6.0]);
//! }
//! ```

use thalweg_tensor::{DType, Element};

/// The vector instructions that a kernel may use. A value other than [`Isa::portable`] exists only on a machine that
/// has them, so that calls of code compiled for them are safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Level);

/// The levels that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Level {
    /// The baseline of the architecture.
    Portable,
    /// AVX2 with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, VL, DQ and BW.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// A loop to be compiled for each instruction set: see [`Isa::run`].
pub trait Vectorize {
    /// The result of the loop.
    type Out;
    /// The loop. Must be `#[inline(always)]`, or it is compiled for the baseline only.
    fn run(self) -> Self::Out;
}

/// A closure that writes a slice. It must be `#[inline(always)]`. It gets the slice as an argument, since a closure that
/// writes what it captures is called through a function that is not always inlined.
pub struct Writer<'a, T, F>(pub &'a mut [T], pub F);

impl<T, F: Fn(&mut [T])> Vectorize for Writer<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        (self.1)(self.0);
    }
}

impl Isa {
    /// The baseline of this architecture.
    pub fn portable() -> Self {
        Isa(Level::Portable)
    }

    /// The widest instructions of this machine.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::portable())
    }

    /// All that this machine has, from narrow to wide.
    pub fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let levels = {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw");
            [
                (Level::Portable, true),
                (Level::Avx2, avx2),
                (Level::Avx512, avx512),
            ]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let levels = [(Level::Portable, true)];
        levels.into_iter().filter(|l| l.1).map(|l| Isa(l.0))
    }

    /// Returns the level of these instructions, for code that is written for some of them by hand.
    pub fn level(self) -> Level {
        self.0
    }

    /// Runs a loop over elements of `T`: as [`Isa::run`] where `T` is `f32` or `f64`; loops over wide
    /// integers, and `i32`, are compiled for the baseline and for AVX2, and those over other elements once, for every machine.
    #[inline(always)]
    pub fn run_over<T: Element, K: Vectorize>(self, kernel: K) -> K::Out {
        match const { T::DTYPE } {
            DType::F32 | DType::F64 => self.run(kernel),
            DType::I32 | DType::I64 | DType::U64 => self.run_up_to_avx2(kernel),
            _ => kernel.run(),
        }
    }

    /// As [`Isa::run`], for loops that are not worth code of their own for AVX-512.
    #[inline]
    pub fn run_up_to_avx2<K: Vectorize>(self, kernel: K) -> K::Out {
        match self.0 {
            Level::Portable => kernel.run(),
            // SAFETY: a value with one of these levels is only made on a machine that has AVX2 and FMA.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => unsafe { run_avx2(kernel) },
        }
    }

    /// Runs `kernel` as compiled for these instructions. Its loops are vectorised by the compiler; as it contracts no
    /// multiplications and additions by itself, an elementwise kernel gives the same bits on each of them.
    #[inline]
    pub fn run<K: Vectorize>(self, kernel: K) -> K::Out {
        match self.0 {
            Level::Portable => kernel.run(),
            // SAFETY: a value with this level is only made on a machine that has these features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { run_avx512(kernel) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<K: Vectorize>(kernel: K) -> K::Out {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
fn run_avx512<K: Vectorize>(kernel: K) -> K::Out {
    kernel.run()
}
