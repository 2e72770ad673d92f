//! Micro-kernel: the register tile that GEMMs and convolutions are made of.
//!
//! A tile is a few rows and two vectors of columns of a GEMM `C = A B`, held in registers while it runs along the inner
//! dimension. A row of `B` is read as vectors, so `B` is packed into panels as wide as the tile; an element of `A` is
//! read as a scalar and spread over a vector, so `A` may lie anywhere, with any strides. So a convolution can read its
//! image where it lies: its `A` is the image seen through one offset per filter tap, and needs no matrix of patches.
//!
//! This is written here, and not left to a GEMM crate, because those take a matrix with two strides (a convolution would
//! have to write its patches out first), and because packing goes to scratch memory that the plan has laid out.

use super::epilogue::Epilogue;
use super::vector::{Lanes, Vector};
use crate::isa::{Isa, Level};

/// Vectors in a row of a tile.
const WIDTH: usize = 2;

/// A GEMM of `rows x cols` elements: `C[i][j] (+)= sum over s, p of A[offsets[s] + i a_row + p a_col] B[s len + p][j]`.
pub(super) struct Tile<'a, T> {
    /// Pointer to `A`.
    pub a: *const T,
    /// Offset of each stretch of the inner dimension in `A`, in elements.
    pub offsets: &'a [usize],
    /// The length of each stretch.
    pub len: usize,
    /// From a row of `A` to the next.
    pub a_row: usize,
    /// From an element of a stretch to the next.
    pub a_col: usize,
    /// Pointer to `B`; its rows are read in full vectors, also behind `cols`.
    pub b: *const T,
    /// From a row of `B` to the next.
    pub b_row: usize,
    /// Pointer to `C`.
    pub c: *mut T,
    /// From a row of `C` to the next.
    pub c_row: usize,
    /// Number of columns of `C` that are written; at least one, at most the tile's width.
    pub cols: usize,
    /// `true` if `C` is added to, `false` if it is overwritten.
    pub add: bool,
    /// The epilogue of the sums before they are stored. Its lists begin with the values of the first column, and are
    /// read in full vectors, also behind `cols`.
    pub epilogue: Epilogue<'a, T>,
    /// Cache lines to prefetch meanwhile.
    pub ahead: Ahead<T>,
}

/// Cache lines that will be needed soon, in runs, one for each `every` elements of a stretch. Fetching them while the tile
/// computes hides the memory's latency, and fetching few at a time leaves the tile's own operands their way into the
/// cache. Nothing is read, so that they may lie anywhere.
#[derive(Clone, Copy)]
pub(super) struct Ahead<T> {
    pub at: *const T,
    /// From one of a run to the next, in elements.
    pub step: usize,
    /// Number of lines in a run.
    pub run: usize,
    /// From the last of a run to the next run, in elements; it may wrap.
    pub next: usize,
    pub every: usize,
}

impl<T> Ahead<T> {
    /// None.
    pub(super) const NONE: Self = Ahead {
        at: std::ptr::null(),
        step: 0,
        run: 0,
        next: 0,
        every: 0,
    };

    /// A single run.
    pub(super) fn lines(at: *const T, step: usize, every: usize) -> Self {
        Ahead {
            at,
            step,
            run: usize::MAX,
            next: 0,
            every,
        }
    }
}

/// A tile's code for one number of rows and one number of vectors.
///
/// # Safety
/// The machine has the instructions it is compiled for, and the pointers of the tile are valid for the memory that it
/// describes.
type TileFn<T> = unsafe fn(&Tile<'_, T>);

/// The tiles of one instruction set and one type.
#[derive(Clone, Copy)]
pub(super) struct Tiles<T: 'static> {
    /// By rows, less one, and vectors, less one.
    code: &'static [[TileFn<T>; WIDTH]],
    lanes: usize,
}

impl<T> Tiles<T> {
    /// The most rows a tile has.
    pub(super) fn rows(&self) -> usize {
        self.code.len()
    }

    /// The numbers of a vector.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    /// The most columns a tile has: the width of a panel of `B`.
    pub(super) fn cols(&self) -> usize {
        self.lanes * WIDTH
    }

    /// Computes the tile with this number of rows.
    ///
    /// # Safety
    /// The pointers of the tile are valid for the memory that it describes, and nothing else touches its `C` meanwhile.
    #[inline]
    pub(super) unsafe fn run(&self, rows: usize, tile: &Tile<'_, T>) {
        debug_assert!((1..=self.cols()).contains(&tile.cols));
        let read = tile.cols.next_multiple_of(self.lanes);
        let Epilogue { scale, bias, .. } = tile.epilogue;
        debug_assert!([scale, bias].into_iter().flatten().all(|l| l.len() >= read));
        // SAFETY: a `Tiles` comes from an `Isa`, which exists only where its instructions do; the rest is as promised.
        unsafe { self.code[rows - 1][usize::from(tile.cols > self.lanes)](tile) }
    }
}

/// The types that have tiles.
pub trait Tiled: bytemuck::Pod {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn tiles(isa: Isa) -> Tiles<Self>;
}

/// The tile itself, as plain code over a vector type.
///
/// # Safety
/// As [`TileFn`].
#[inline(always)]
unsafe fn body<V: Vector, const ROWS: usize, const VECTORS: usize>(t: &Tile<'_, V::Elem>) {
    // SAFETY: every pointer stays within the memory that the tile describes, which the caller vouches for.
    unsafe {
        let mut sum = [[V::zero(); VECTORS]; ROWS];
        // Its rows may be far apart, and are fetched to be written too: they come while the GEMMs are computed.
        for i in 0..ROWS {
            for v in 0..VECTORS {
                V::prefetch(t.c.wrapping_add(i * t.c_row + v * V::LANES));
            }
        }
        let mut b = t.b;
        let (mut ahead, mut due) = (t.ahead.at, if t.ahead.every == 0 { usize::MAX } else { 0 });
        let mut left = t.ahead.run;
        for &offset in t.offsets {
            let mut a = t.a.add(offset);
            for p in 0..t.len {
                if p == due {
                    V::prefetch(ahead);
                    due += t.ahead.every;
                    left -= 1;
                    if left == 0 {
                        ahead = ahead.wrapping_add(t.ahead.next);
                        left = t.ahead.run;
                    } else {
                        ahead = ahead.wrapping_add(t.ahead.step);
                    }
                }
                let mut b_row = [V::zero(); VECTORS];
                for (v, part) in b_row.iter_mut().enumerate() {
                    *part = V::load(b.add(v * V::LANES));
                }
                for (i, sums) in sum.iter_mut().enumerate() {
                    let x = V::splat(*a.add(i * t.a_row));
                    for (s, part) in sums.iter_mut().zip(b_row) {
                        *s = x.mul_add(part, *s);
                    }
                }
                a = a.add(t.a_col);
                b = b.add(t.b_row);
            }
        }
        let last = t.cols - (VECTORS - 1) * V::LANES;
        let short = t.epilogue.before_store();
        for (i, sums) in sum.into_iter().enumerate() {
            for (v, mut s) in sums.into_iter().enumerate() {
                let c = t.c.add(i * t.c_row + v * V::LANES);
                let whole = v + 1 < VECTORS || last == V::LANES;
                if t.add {
                    s = if whole {
                        V::load(c)
                    } else {
                        V::load_first(c, last)
                    }
                    .add(s);
                }
                if let Some(scale) = t.epilogue.scale {
                    s = s.mul(V::load(scale.as_ptr().add(v * V::LANES)));
                }
                if let Some(bias) = t.epilogue.bias {
                    s = s.add(V::load(bias.as_ptr().add(v * V::LANES)));
                }
                s = short.apply_short(s);
                if whole {
                    s.store(c)
                } else {
                    s.store_first(c, last)
                }
            }
        }
        if t.epilogue.has_end() {
            for i in 0..ROWS {
                let row = std::slice::from_raw_parts_mut(t.c.wrapping_add(i * t.c_row), t.cols);
                t.epilogue.end::<V>(row);
            }
        }
    }
}

/// # Safety
/// As [`TileFn`].
unsafe fn portable<V: Vector, const R: usize, const N: usize>(t: &Tile<'_, V::Elem>) {
    // SAFETY: by the caller's promise.
    unsafe { body::<V, R, N>(t) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Tile, Vector, body};

    /// # Safety
    /// As [`TileFn`](super::TileFn).
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2<V: Vector, const R: usize, const N: usize>(t: &Tile<'_, V::Elem>) {
        // SAFETY: by the caller's promise.
        unsafe { body::<V, R, N>(t) }
    }

    /// # Safety
    /// As [`TileFn`](super::TileFn).
    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
    pub(super) unsafe fn avx512<V: Vector, const R: usize, const N: usize>(t: &Tile<'_, V::Elem>) {
        // SAFETY: by the caller's promise.
        unsafe { body::<V, R, N>(t) }
    }
}

impl Tiled for f32 {
    #[allow(private_interfaces)]
    fn tiles(isa: Isa) -> Tiles<Self> {
        match isa.level() {
            Level::Portable => Tiles {
                code: &[
                    [
                        portable::<Lanes<f32, 4>, 1, 1>,
                        portable::<Lanes<f32, 4>, 1, 2>,
                    ],
                    [
                        portable::<Lanes<f32, 4>, 2, 1>,
                        portable::<Lanes<f32, 4>, 2, 2>,
                    ],
                    [
                        portable::<Lanes<f32, 4>, 3, 1>,
                        portable::<Lanes<f32, 4>, 3, 2>,
                    ],
                    [
                        portable::<Lanes<f32, 4>, 4, 1>,
                        portable::<Lanes<f32, 4>, 4, 2>,
                    ],
                ],
                lanes: 4,
            },
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Tiles {
                code: &[
                    [
                        x86::avx2::<std::arch::x86_64::__m256, 1, 1>,
                        x86::avx2::<std::arch::x86_64::__m256, 1, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256, 2, 1>,
                        x86::avx2::<std::arch::x86_64::__m256, 2, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256, 3, 1>,
                        x86::avx2::<std::arch::x86_64::__m256, 3, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256, 4, 1>,
                        x86::avx2::<std::arch::x86_64::__m256, 4, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256, 5, 1>,
                        x86::avx2::<std::arch::x86_64::__m256, 5, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256, 6, 1>,
                        x86::avx2::<std::arch::x86_64::__m256, 6, 2>,
                    ],
                ],
                lanes: 8,
            },
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Tiles {
                code: &[
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 1, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 1, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 2, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 2, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 3, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 3, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 4, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 4, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 5, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 5, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 6, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 6, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 7, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 7, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 8, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 8, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 9, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 9, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 10, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 10, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 11, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 11, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 12, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 12, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 13, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 13, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512, 14, 1>,
                        x86::avx512::<std::arch::x86_64::__m512, 14, 2>,
                    ],
                ],
                lanes: 16,
            },
        }
    }
}

impl Tiled for f64 {
    #[allow(private_interfaces)]
    fn tiles(isa: Isa) -> Tiles<Self> {
        match isa.level() {
            Level::Portable => Tiles {
                code: &[
                    [
                        portable::<Lanes<f64, 2>, 1, 1>,
                        portable::<Lanes<f64, 2>, 1, 2>,
                    ],
                    [
                        portable::<Lanes<f64, 2>, 2, 1>,
                        portable::<Lanes<f64, 2>, 2, 2>,
                    ],
                    [
                        portable::<Lanes<f64, 2>, 3, 1>,
                        portable::<Lanes<f64, 2>, 3, 2>,
                    ],
                    [
                        portable::<Lanes<f64, 2>, 4, 1>,
                        portable::<Lanes<f64, 2>, 4, 2>,
                    ],
                ],
                lanes: 2,
            },
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Tiles {
                code: &[
                    [
                        x86::avx2::<std::arch::x86_64::__m256d, 1, 1>,
                        x86::avx2::<std::arch::x86_64::__m256d, 1, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256d, 2, 1>,
                        x86::avx2::<std::arch::x86_64::__m256d, 2, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256d, 3, 1>,
                        x86::avx2::<std::arch::x86_64::__m256d, 3, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256d, 4, 1>,
                        x86::avx2::<std::arch::x86_64::__m256d, 4, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256d, 5, 1>,
                        x86::avx2::<std::arch::x86_64::__m256d, 5, 2>,
                    ],
                    [
                        x86::avx2::<std::arch::x86_64::__m256d, 6, 1>,
                        x86::avx2::<std::arch::x86_64::__m256d, 6, 2>,
                    ],
                ],
                lanes: 4,
            },
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Tiles {
                code: &[
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 1, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 1, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 2, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 2, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 3, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 3, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 4, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 4, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 5, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 5, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 6, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 6, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 7, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 7, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 8, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 8, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 9, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 9, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 10, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 10, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 11, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 11, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 12, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 12, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 13, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 13, 2>,
                    ],
                    [
                        x86::avx512::<std::arch::x86_64::__m512d, 14, 1>,
                        x86::avx512::<std::arch::x86_64::__m512d, 14, 2>,
                    ],
                ],
                lanes: 8,
            },
        }
    }
}
