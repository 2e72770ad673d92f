//! Convolutions with filters of one pixel: GEMMs, of images and filter as they lie.
//!
//! With channels last, the pixels of all images are the rows of one matrix. With channels first, each image is a matrix
//! of its own, with a channel a row; where its pixels would fill the vectors of a row badly, it is turned first. Where a
//! stride leaves pixels out, those that are seen are gathered first.

use super::geometry::Pass;
use super::{ConvGeometry, Real};
use crate::gemm::{Gemm, GemmBatch, gemm_many, gemm_many_scratch};
use crate::scratch::{Scratch, for_chunks};
use crate::transpose::transpose_each;
use crate::{Cpu, Epilogue, Isa, Layout};

/// Numbers of a filter from which on its gradient is computed as a GEMM, by layout. The operands of a smaller one are
/// much longer than wide: tasks that share the pixels, and not the filter, read them once. With channels first, that
/// takes a transpose, which a GEMM does without.
fn gemm_from(layout: Layout) -> usize {
    match layout {
        Layout::Nhwc => 3 << 15,
        Layout::Nchw => 1 << 15,
    }
}

/// A convolution with a filter of one pixel.
#[derive(Clone, Copy)]
pub(super) struct Pointwise<'a> {
    g: &'a ConvGeometry,
    pass: Pass,
    /// Pixels of an image that are seen.
    pixels: usize,
    /// `true` if the channels, which are first, are brought to be last.
    turned: bool,
}

impl<'a> Pointwise<'a> {
    /// `None` where another algorithm is better for the pass.
    pub(super) fn of<T: Real>(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        let pixels = g.out_h * g.out_w;
        let is_one = [g.k_h, g.k_w, g.pad_top, g.pad_left] == [1, 1, 0, 0];
        let inside = (g.out_h - 1) * g.stride[0] < g.in_h && (g.out_w - 1) * g.stride[1] < g.in_w;
        let small = pass == Pass::ToFilter && g.filter_len() < gemm_from(g.layout);
        // A row of pixels takes whole vectors.
        let wide = pixels.next_multiple_of(T::tiles(isa).cols() / 2);
        let turned = g.layout == Layout::Nchw && pass != Pass::ToFilter && wide * 20 > pixels * 23;
        (is_one && inside && !small).then_some(Pointwise {
            g,
            pass,
            pixels,
            turned,
        })
    }

    /// `true` if some pixels are not seen.
    fn leaves_out(&self) -> bool {
        self.pixels != self.g.in_h * self.g.in_w
    }

    fn gemm(&self) -> (Gemm, GemmBatch) {
        let &ConvGeometry {
            batch, in_c, out_c, ..
        } = self.g;
        let (rows, pixels) = (batch * self.pixels, self.pixels);
        let gemm = |m, n, k, transpose_a, transpose_b| Gemm {
            m,
            n,
            k,
            transpose_a,
            transpose_b,
        };
        if self.g.layout == Layout::Nhwc || self.turned {
            let one = match self.pass {
                Pass::Forward => gemm(rows, out_c, in_c, false, false),
                Pass::ToInput => gemm(rows, in_c, out_c, false, true),
                Pass::ToFilter => gemm(in_c, out_c, rows, true, false),
            };
            return (one, GemmBatch::ONE);
        }
        let (each, steps) = match self.pass {
            Pass::Forward => (
                gemm(out_c, pixels, in_c, true, false),
                [0, in_c * pixels, out_c * pixels],
            ),
            Pass::ToInput => (
                gemm(in_c, pixels, out_c, false, false),
                [0, out_c * pixels, in_c * pixels],
            ),
            Pass::ToFilter => (
                gemm(in_c, out_c, pixels, false, true),
                [in_c * pixels, out_c * pixels, 0],
            ),
        };
        let many = GemmBatch {
            gemms: batch,
            steps,
        };
        (each, many)
    }

    /// Numbers of the pixels that are seen where they are gathered, and of transposed pixels: with the channels of the
    /// input, and of the output.
    fn lens(&self) -> [usize; 3] {
        let pixels = self.g.batch * self.pixels;
        let (gathered, turned) = (usize::from(self.leaves_out()), usize::from(self.turned));
        [
            gathered * pixels * self.g.in_c,
            turned * pixels * self.g.in_c,
            turned * pixels * self.g.out_c,
        ]
    }

    pub(super) fn scratch<T: Real>(&self, isa: Isa, threads: usize) -> usize {
        let (gemm, many) = self.gemm();
        let own: usize = self.lens().map(Scratch::bytes::<T>).iter().sum();
        own + gemm_many_scratch::<T>(isa, threads, &gemm, many)
    }

    /// Computes it, with the epilogue of a forward pass; operands as the pass's function takes them.
    pub(super) fn run<T: Real>(
        &self,
        cpu: Cpu<'_>,
        [a, b]: [&[T]; 2],
        epilogue: Epilogue<'_, T>,
        to: &mut [T],
        scratch: &mut [u8],
    ) {
        let (gemm, many) = self.gemm();
        let (in_c, out_c, pixels) = (self.g.in_c, self.g.out_c, self.pixels);
        let mut scratch = Scratch::new(scratch);
        let [seen, turned_in, turned_out] = self.lens().map(|len| scratch.take::<T>(len));
        let (rest, nothing) = (scratch.rest(), Epilogue::default());
        if self.pass == Pass::ToInput {
            let (filter, grad) = (a, b);
            let to_seen = if self.leaves_out() {
                &mut *seen
            } else {
                &mut *to
            };
            if self.turned {
                transpose_each(cpu, [out_c, pixels], grad, turned_out);
                gemm_many(
                    cpu,
                    &gemm,
                    many,
                    [turned_out, filter],
                    nothing,
                    turned_in,
                    rest,
                );
                transpose_each(cpu, [pixels, in_c], turned_in, to_seen);
            } else if self.g.layout == Layout::Nhwc {
                gemm_many(cpu, &gemm, many, [grad, filter], nothing, to_seen, rest);
            } else {
                gemm_many(cpu, &gemm, many, [filter, grad], nothing, to_seen, rest);
            }
            if self.leaves_out() {
                self.scatter(cpu, seen, to);
            }
            return;
        }
        let images = if self.leaves_out() {
            self.gather(cpu, a, seen);
            &*seen
        } else {
            a
        };
        if self.turned {
            transpose_each(cpu, [in_c, pixels], images, turned_in);
            gemm_many(cpu, &gemm, many, [turned_in, b], epilogue, turned_out, rest);
            transpose_each(cpu, [pixels, out_c], turned_out, to);
        } else if self.g.layout == Layout::Nhwc || self.pass == Pass::ToFilter {
            gemm_many(cpu, &gemm, many, [images, b], epilogue, to, rest);
        } else {
            // Channels are rows here.
            gemm_many(cpu, &gemm, many, [b, images], nothing, to, rest);
            epilogue.apply(cpu, out_c, pixels, to);
        }
    }

    /// A line of an image, or a plane: its number of pixels, and of a pixel's numbers in it.
    fn lines(&self, h: usize, w: usize) -> (usize, usize) {
        match self.g.layout {
            Layout::Nhwc => (w, self.g.in_c),
            Layout::Nchw => (h * w, 1),
        }
    }

    /// Copies the pixels that are seen.
    fn gather<T: Real>(&self, cpu: Cpu<'_>, input: &[T], seen: &mut [T]) {
        let g = self.g;
        let (pixels, numbers) = self.lines(g.out_h, g.out_w);
        for_chunks(cpu.pool, seen, pixels * numbers, &|i, to| match g.layout {
            Layout::Nhwc => {
                let (image, y) = (i / g.out_h, i % g.out_h);
                let line = &input[(image * g.in_h + y * g.stride[0]) * g.in_w * numbers..];
                let from = line.chunks(numbers).step_by(g.stride[1]);
                for (to, from) in to.chunks_exact_mut(numbers).zip(from) {
                    to.copy_from_slice(from);
                }
            }
            Layout::Nchw => {
                let plane = &input[i * g.in_h * g.in_w..][..g.in_h * g.in_w];
                let lines = plane.chunks_exact(g.in_w).step_by(g.stride[0]);
                for (to, line) in to.chunks_exact_mut(g.out_w).zip(lines) {
                    for (to, from) in to.iter_mut().zip(line.iter().step_by(g.stride[1])) {
                        *to = *from;
                    }
                }
            }
        });
    }

    /// Puts the pixels that are seen back; others are zero.
    fn scatter<T: Real>(&self, cpu: Cpu<'_>, seen: &[T], input: &mut [T]) {
        let g = self.g;
        let (pixels, numbers) = self.lines(g.in_h, g.in_w);
        for_chunks(cpu.pool, input, pixels * numbers, &|i, to| {
            to.fill(T::zeroed());
            match g.layout {
                Layout::Nhwc => {
                    let (image, y) = (i / g.in_h, i % g.in_h);
                    if y % g.stride[0] != 0 || y / g.stride[0] >= g.out_h {
                        return;
                    }
                    let line = (image * g.out_h + y / g.stride[0]) * g.out_w * numbers;
                    let from = seen[line..][..g.out_w * numbers].chunks_exact(numbers);
                    for (to, from) in to.chunks_mut(numbers).step_by(g.stride[1]).zip(from) {
                        to.copy_from_slice(from);
                    }
                }
                Layout::Nchw => {
                    let plane = &seen[i * self.pixels..][..self.pixels];
                    let lines = to.chunks_exact_mut(g.in_w).step_by(g.stride[0]);
                    for (line, from) in lines.zip(plane.chunks_exact(g.out_w)) {
                        for (to, from) in line.iter_mut().step_by(g.stride[1]).zip(from) {
                            *to = *from;
                        }
                    }
                }
            }
        });
    }
}
