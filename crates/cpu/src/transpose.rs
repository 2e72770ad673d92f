//! Transposes of blocks: between the two layouts of an image, and into panels of a packed matrix.
//!
//! ```
//! use thalweg_cpu::Isa;
//! use thalweg_cpu::transpose::{Rows, transpose_to};
//!
//! // The two rows of a 2 x 3 matrix become the columns of a 3 x 2 matrix.
//! let from = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
//! let mut to = [0.0f32; 6];
//! let rows = Rows { start: 0, stride: 3 };
//! // SAFETY: `to` has room for three rows of two elements, two apart.
//! unsafe { transpose_to(Isa::detect(), (2, 3), (&from, rows), to.as_mut_ptr(), 2) };
//! assert_eq!(to, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
//! ```

use bytemuck::Pod;

use super::Cpu;
use super::scratch::for_chunks;
use crate::isa::{Isa, Level};

/// The side of the blocks that go through registers.
const SIDE: usize = 8;

/// A matrix inside a slice: its start, and the distance of its rows.
#[derive(Clone, Copy)]
pub struct Rows {
    /// Its first element's index.
    pub start: usize,
    /// From a row to the next, in elements.
    pub stride: usize,
}

/// Transposes matrices that lie one after the other, over threads.
pub(super) fn transpose_each<T: Pod + Send + Sync>(
    cpu: Cpu<'_>,
    [rows, cols]: [usize; 2],
    from: &[T],
    to: &mut [T],
) {
    for_chunks(cpu.pool, to, rows * cols, &|i, to| {
        let from_rows = Rows {
            start: i * rows * cols,
            stride: cols,
        };
        let to_rows = Rows {
            start: 0,
            stride: rows,
        };
        transpose(cpu.isa, (rows, cols), (from, from_rows), (to, to_rows));
    });
}

/// `to[to_rows][j][i] = from[from_rows][i][j]` for `i < rows`, `j < cols`; the rest of `to` is left alone.
pub(super) fn transpose<T: Pod>(
    isa: Isa,
    (rows, cols): (usize, usize),
    (from, from_rows): (&[T], Rows),
    (to, to_rows): (&mut [T], Rows),
) {
    assert!(rows * cols == 0 || to_rows.start + (cols - 1) * to_rows.stride + rows <= to.len());
    // SAFETY: the last element that is written was just checked to be inside.
    unsafe {
        let to = to.as_mut_ptr().wrapping_add(to_rows.start);
        transpose_to(isa, (rows, cols), (from, from_rows), to, to_rows.stride);
    }
}

/// As `transpose`, into rows between which other tasks may write.
///
/// # Safety
/// `to` is valid for writes of `cols` rows of `rows` elements, `to_stride` apart.
pub unsafe fn transpose_to<T: Pod>(
    isa: Isa,
    (rows, cols): (usize, usize),
    (from, from_rows): (&[T], Rows),
    to: *mut T,
    to_stride: usize,
) {
    if rows == 0 || cols == 0 {
        return;
    }
    // Once here, so that the blocks below need no checks of their own.
    assert!(from_rows.start + (rows - 1) * from_rows.stride + cols <= from.len());
    let from = from[from_rows.start..].as_ptr();
    if rows < SIDE || cols < SIDE {
        for i in 0..rows {
            for j in 0..cols {
                // SAFETY: inside both matrices.
                unsafe { *to.add(j * to_stride + i) = *from.add(i * from_rows.stride + j) }
            }
        }
        return;
    }
    // The last block of a row or column overlaps the one before it, and writes the same again.
    for i in (0..rows).step_by(SIDE).map(|i| i.min(rows - SIDE)) {
        for j in (0..cols).step_by(SIDE).map(|j| j.min(cols - SIDE)) {
            // SAFETY: the block lies inside both matrices.
            unsafe {
                let (from, to) = (
                    from.add(i * from_rows.stride + j),
                    to.add(j * to_stride + i),
                );
                block(isa, from, from_rows.stride, to, to_stride);
            }
        }
    }
}

/// Transposes a block of `SIDE x SIDE`.
///
/// # Safety
/// Both blocks are valid, and do not overlap.
#[inline]
unsafe fn block<T: Pod>(
    isa: Isa,
    from: *const T,
    from_stride: usize,
    to: *mut T,
    to_stride: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == 4 && isa.level() >= Level::Avx2 {
        // SAFETY: the instructions are there; only the bits move, so any type of this size may pass for a float.
        return unsafe { block_avx(from.cast(), from_stride, to.cast(), to_stride) };
    }
    let _ = (isa, Level::Portable);
    for i in 0..SIDE {
        for j in 0..SIDE {
            // SAFETY: inside the blocks.
            unsafe { *to.add(j * to_stride + i) = *from.add(i * from_stride + j) }
        }
    }
}

/// # Safety
/// As [`block`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn block_avx(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    use std::arch::x86_64::*;
    // SAFETY: rows of the blocks, eight elements each.
    let load = |i: usize| unsafe { _mm256_loadu_ps(from.add(i * from_stride)) };
    // SAFETY: as above.
    let store = |i: usize, row| unsafe { _mm256_storeu_ps(to.add(i * to_stride), row) };
    // Pairs of rows, then quarters, then halves.
    let pairs = |a: usize| {
        let (x, y) = (load(a), load(a + 1));
        (_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y))
    };
    let quads = |a: usize| {
        let ((l, h), (m, i)) = (pairs(a), pairs(a + 2));
        [
            _mm256_shuffle_ps::<0x44>(l, m),
            _mm256_shuffle_ps::<0xee>(l, m),
            _mm256_shuffle_ps::<0x44>(h, i),
            _mm256_shuffle_ps::<0xee>(h, i),
        ]
    };
    let (top, bottom) = (quads(0), quads(4));
    for i in 0..4 {
        store(i, _mm256_permute2f128_ps::<0x20>(top[i], bottom[i]));
        store(i + 4, _mm256_permute2f128_ps::<0x31>(top[i], bottom[i]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Pod + PartialEq + std::fmt::Debug>(isa: Isa, make: impl Fn(usize) -> T) {
        for (rows, cols) in [(0, 3), (1, 1), (3, 17), (8, 8), (16, 9), (25, 33)] {
            let (from_rows, to_rows) = (
                Rows {
                    start: 2,
                    stride: cols + 3,
                },
                Rows {
                    start: 1,
                    stride: rows + 5,
                },
            );
            let from: Vec<T> = (0..2 + rows * (cols + 3)).map(&make).collect();
            let untouched = make(12345);
            let mut to = vec![untouched; 1 + cols * (rows + 5)];
            transpose(isa, (rows, cols), (&from, from_rows), (&mut to, to_rows));
            for (at, got) in to.into_iter().enumerate() {
                let (j, i) = ((at.max(1) - 1) / (rows + 5), (at.max(1) - 1) % (rows + 5));
                let inside = at > 0 && i < rows && j < cols;
                let wanted = if inside {
                    from[2 + i * (cols + 3) + j]
                } else {
                    untouched
                };
                assert_eq!(got, wanted, "{isa:?}, {rows} x {cols}, {i}, {j}");
            }
        }
    }

    #[test]
    fn elements_of_every_size_move_and_nothing_else_does() {
        for isa in Isa::available() {
            check(isa, |i| i as f32);
            check(isa, |i| i as f64);
            check(isa, |i| i as u8);
        }
    }
}
