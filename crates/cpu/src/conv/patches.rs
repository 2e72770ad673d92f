//! The gradient to the input by patches: a GEMM gives each output pixel's part of the gradient, and each input pixel adds
//! up the parts of the output pixels that saw it.
//!
//! By taps, an input pixel multiplies with a tap for every output pixel that could see it, padding included, and with as
//! many channels as a vector has lanes. That is far more where a filter is as wide as the image, or where the input has few
//! channels. The parts are written to memory, so images are taken a few at a time.

use super::geometry::Pass;
use super::{ConvGeometry, Real};
use crate::gemm::{Gemm, GemmBatch, gemm_many, gemm_many_scratch};
use crate::scratch::{Scratch, for_chunks};
use crate::{Cpu, Epilogue, Isa, Layout};

/// The time to write a number of a part and to add it, in multiplications: an estimate that favours taps.
const ADD_COST: f64 = 24.0;
/// Numbers of the parts of some images: they stay in a last-level cache.
const PARTS: usize = 1 << 20;
/// The most numbers of the parts of one image.
const MAX_PARTS: usize = 1 << 24;

/// A gradient to the input.
#[derive(Clone, Copy)]
pub(super) struct Patches<'a> {
    g: &'a ConvGeometry,
    /// Output pixels of an image.
    pixels: usize,
    /// Numbers of a patch.
    taps: usize,
    /// Images whose parts are computed at a time.
    images: usize,
}

impl<'a> Patches<'a> {
    /// `None` where the algorithm by taps is better for the pass.
    pub(super) fn of<T: Real>(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        let (pixels, taps) = (g.out_h * g.out_w, g.k_h * g.k_w * g.in_c);
        let parts = pixels.checked_mul(taps)?;
        if pass != Pass::ToInput || parts == 0 || parts > MAX_PARTS {
            return None;
        }
        let channels = g.in_c.next_multiple_of(T::tiles(isa).cols());
        let seen = (g.in_h * g.in_w * g.k_h * g.k_w) as f64 / (g.stride[0] * g.stride[1]) as f64;
        let by_taps = seen * channels as f64 * g.out_c as f64;
        let by_patches = parts as f64 * (g.out_c as f64 + ADD_COST);
        (by_patches < by_taps).then_some(Patches {
            g,
            pixels,
            taps,
            images: (PARTS / parts).clamp(1, g.batch.max(1)),
        })
    }

    /// The GEMMs of so many images.
    fn gemm(&self, images: usize) -> (Gemm, GemmBatch) {
        let (pixels, taps, k) = (self.pixels, self.taps, self.g.out_c);
        match self.g.layout {
            Layout::Nhwc => {
                let gemm = Gemm {
                    m: images * pixels,
                    n: taps,
                    k,
                    transpose_a: false,
                    transpose_b: true,
                };
                (gemm, GemmBatch::ONE)
            }
            Layout::Nchw => {
                let gemm = Gemm {
                    m: taps,
                    n: pixels,
                    k,
                    transpose_a: false,
                    transpose_b: false,
                };
                let many = GemmBatch {
                    gemms: images,
                    steps: [0, k * pixels, taps * pixels],
                };
                (gemm, many)
            }
        }
    }

    /// The scratch it needs on this many threads, in bytes.
    pub(super) fn scratch<T: Real>(&self, isa: Isa, threads: usize) -> usize {
        let rest = match self.g.batch % self.images {
            0 => self.images,
            rest => rest,
        };
        let [most, last] = [self.images, rest].map(|images| {
            let (gemm, many) = self.gemm(images);
            gemm_many_scratch::<T>(isa, threads, &gemm, many)
        });
        Scratch::bytes::<T>(self.images * self.pixels * self.taps) + most.max(last)
    }

    /// Computes it, from the filter and the gradient to the output.
    pub(super) fn run<T: Real>(
        &self,
        cpu: Cpu<'_>,
        [filter, grad]: [&[T]; 2],
        to: &mut [T],
        scratch: &mut [u8],
    ) {
        let g = self.g;
        let mut scratch = Scratch::new(scratch);
        let parts = scratch.take::<T>(self.images * self.pixels * self.taps);
        let rest = scratch.rest();
        let (of_input, of_output) = (g.in_h * g.in_w * g.in_c, self.pixels * g.out_c);
        let inputs = to.chunks_mut(self.images * of_input);
        for (to, grad) in inputs.zip(grad.chunks(self.images * of_output)) {
            let images = grad.len() / of_output;
            let (gemm, many) = self.gemm(images);
            let parts = &mut parts[..images * self.pixels * self.taps];
            let operands = match g.layout {
                Layout::Nhwc => [grad, filter],
                Layout::Nchw => [filter, grad],
            };
            gemm_many(cpu, &gemm, many, operands, Epilogue::default(), parts, rest);
            let numbers = match g.layout {
                Layout::Nhwc => g.in_c,
                Layout::Nchw => 1,
            };
            for_chunks(cpu.pool, to, g.in_w * numbers, &|i, line| {
                line.fill(T::zeroed());
                match g.layout {
                    Layout::Nhwc => self.add_pixels(parts, i, line),
                    Layout::Nchw => self.add_channel(parts, i, line),
                }
            });
        }
    }

    /// The lines of the filter through which an input line is seen, each with the output line that sees it.
    fn seen_from(&self, y: usize) -> impl Iterator<Item = (usize, usize)> {
        let g = self.g;
        (0..g.k_h).filter_map(move |tap| {
            let at = (y + g.pad_top).checked_sub(tap * g.dilation[0])?;
            let line = at / g.stride[0];
            (at % g.stride[0] == 0 && line < g.out_h).then_some((tap, line))
        })
    }

    /// Adds the parts of a line whose pixels have all channels.
    fn add_pixels<T: Real>(&self, parts: &[T], line: usize, to: &mut [T]) {
        let (g, channels) = (self.g, self.g.in_c);
        let (image, y) = (line / g.in_h, line % g.in_h);
        let of_taps = g.k_w * channels;
        for (tap, from) in self.seen_from(y) {
            for x in 0..g.out_w {
                let pixel = (image * g.out_h + from) * g.out_w + x;
                let part = &parts[pixel * self.taps + tap * of_taps..][..of_taps];
                // Taps side by side add as one.
                let together = if g.dilation[1] == 1 { g.k_w } else { 1 };
                for (i, part) in part.chunks(together * channels).enumerate() {
                    let at = x * g.stride[1] + i * together * g.dilation[1];
                    let before = g.pad_left.saturating_sub(at).min(together);
                    let to = to.get_mut((at + before).saturating_sub(g.pad_left) * channels..);
                    let part = &part[before * channels..];
                    for (to, part) in to.unwrap_or_default().iter_mut().zip(part) {
                        *to += *part;
                    }
                }
            }
        }
    }

    /// Adds the parts of a line of one channel.
    fn add_channel<T: Real>(&self, parts: &[T], line: usize, to: &mut [T]) {
        let g = self.g;
        let (plane, y) = (line / g.in_h, line % g.in_h);
        let (image, channel) = (plane / g.in_c, plane % g.in_c);
        for (tap, from) in self.seen_from(y) {
            for i in 0..g.k_w {
                let row = image * self.taps + (tap * g.k_w + i) * g.in_c + channel;
                let part = &parts[row * self.pixels + from * g.out_w..][..g.out_w];
                for (x, part) in part.iter().enumerate() {
                    let at = (x * g.stride[1] + i * g.dilation[1]).checked_sub(g.pad_left);
                    if let Some(to) = at.and_then(|at| to.get_mut(at)) {
                        *to += *part;
                    }
                }
            }
        }
    }
}
