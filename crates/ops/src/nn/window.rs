//! The kernels of pooling.

use std::ops::Range;

use thalweg_device::parallel::for_chunks;
use thalweg_device::{KernelError, Prepared};
use thalweg_graph::{InferError, Shape};

use super::format::{DataFormat, Sliding, parts};
use crate::elementwise::CHUNK;
use crate::number::{Float, Number};

/// The windows over a batch of images, lines and columns first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    /// Images; with the channels first, as many for each channel.
    images: usize,
    /// Channels of a pixel; with the channels first, 1.
    depth: usize,
    input: [usize; 2],
    output: [usize; 2],
    window: [usize; 2],
    stride: [usize; 2],
    pad: [usize; 2],
}

impl Windows {
    /// The windows that slide so over images of these dimensions.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] where they do not fit.
    pub(super) fn new(
        sliding: &Sliding,
        window: [usize; 2],
        image: &[usize],
    ) -> Result<Windows, KernelError> {
        let invalid = |e: InferError| KernelError::Invalid(e.to_string());
        let (Some(batch), Some(channels), [Some(lines), Some(columns)]) =
            parts(sliding.format, &Shape::known(image))
        else {
            return Err(KernelError::Argument("images"));
        };
        let input = [lines, columns];
        let (mut output, mut pad) = ([0; 2], [0; 2]);
        for axis in 0..2 {
            (output[axis], pad[axis]) = sliding
                .count(0, axis, input[axis], window[axis])
                .map_err(invalid)?;
        }
        let (images, depth) = match sliding.format {
            DataFormat::Nhwc => (batch, channels),
            // Saturated, there are no pixels: else the images would not fit the address space.
            DataFormat::Nchw => (batch.saturating_mul(channels), 1),
        };
        Ok(Windows {
            images,
            depth,
            input,
            output,
            window,
            stride: sliding.strides,
            pad,
        })
    }

    /// Elements of an image.
    fn image(&self) -> usize {
        self.input[0]
            .saturating_mul(self.input[1])
            .saturating_mul(self.depth)
    }

    /// Elements of a pooled image.
    fn pooled(&self) -> usize {
        self.output[0]
            .saturating_mul(self.output[1])
            .saturating_mul(self.depth)
    }

    /// Images in a task.
    fn block(&self) -> usize {
        (CHUNK / self.image().max(1)).max(1)
    }

    /// About how many nanoseconds it takes.
    fn cost(&self) -> u64 {
        let window = self.window[0] as f64 * self.window[1] as f64;
        (self.images as f64 * self.pooled() as f64 * window) as u64
    }

    /// The lines (`axis` 0) or columns that window `i` sees.
    fn seen(&self, axis: usize, i: usize) -> Range<usize> {
        let start = i * self.stride[axis];
        let end = (start + self.window[axis]).saturating_sub(self.pad[axis]);
        start.saturating_sub(self.pad[axis])..end.min(self.input[axis])
    }

    /// Calls `body(place of the window in the pooled image, lines, columns)` for each window.
    fn each(&self, mut body: impl FnMut(usize, Range<usize>, Range<usize>)) {
        for y in 0..self.output[0] {
            for x in 0..self.output[1] {
                let at = (y * self.output[1] + x) * self.depth;
                body(at, self.seen(0, y), self.seen(1, x));
            }
        }
    }

    /// The places in the image of the pixels in these lines and columns, line by line.
    fn pixels(&self, lines: Range<usize>, columns: Range<usize>) -> impl Iterator<Item = usize> {
        let (width, depth) = (self.input[1], self.depth);
        lines.flat_map(move |y| columns.clone().map(move |x| (y * width + x) * depth))
    }
}

/// Whether `x` takes the place of the largest so far: NaN does, so that it is not lost.
fn beats<T: Number>(x: T, best: T) -> bool {
    // A number that is not equal to itself is no number.
    x > best || (x.partial_cmp(&x).is_none() && best.partial_cmp(&best).is_some())
}

pub(super) fn max<T: Number>(w: Windows) -> Prepared {
    Prepared::new(0, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        let (image, pooled, block) = (w.image(), w.pooled(), w.block());
        for_chunks(cx.pool(), out, block * pooled, &|task, out| {
            for (i, out) in out.chunks_exact_mut(pooled).enumerate() {
                let x = &x[(task * block + i) * image..][..image];
                w.each(|at, lines, columns| {
                    let out = &mut out[at..at + w.depth];
                    let mut pixels = w.pixels(lines, columns);
                    if let Some(first) = pixels.next() {
                        out.copy_from_slice(&x[first..first + w.depth]);
                    }
                    for pixel in pixels {
                        for (out, &x) in out.iter_mut().zip(&x[pixel..pixel + w.depth]) {
                            if beats(x, *out) {
                                *out = x;
                            }
                        }
                    }
                });
            }
        });
        Ok(())
    })
    .with_cost(w.cost())
}

pub(super) fn max_grad<T: Number>(w: Windows) -> Prepared {
    Prepared::new(0, move |cx| {
        let (x, dy, dx) = (cx.input::<T>(0)?, cx.input::<T>(2)?, cx.output::<T>(0)?);
        let (image, pooled, block) = (w.image(), w.pooled(), w.block());
        for_chunks(cx.pool(), dx, block * image, &|task, dx| {
            dx.fill(T::ZERO);
            for (i, dx) in dx.chunks_exact_mut(image).enumerate() {
                let x = &x[(task * block + i) * image..][..image];
                let dy = &dy[(task * block + i) * pooled..][..pooled];
                w.each(|at, lines, columns| {
                    for c in 0..w.depth {
                        let mut pixels = w.pixels(lines.clone(), columns.clone()).map(|p| p + c);
                        let Some(mut best) = pixels.next() else {
                            continue;
                        };
                        for pixel in pixels {
                            if beats(x[pixel], x[best]) {
                                best = pixel;
                            }
                        }
                        dx[best] = dx[best].add(dy[at + c]);
                    }
                });
            }
        });
        Ok(())
    })
    .with_cost(w.cost())
}

pub(super) fn avg<T: Float>(w: Windows) -> Prepared {
    Prepared::new(0, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        let (image, pooled, block) = (w.image(), w.pooled(), w.block());
        for_chunks(cx.pool(), out, block * pooled, &|task, out| {
            for (i, out) in out.chunks_exact_mut(pooled).enumerate() {
                let x = &x[(task * block + i) * image..][..image];
                w.each(|at, lines, columns| {
                    let count = T::Wide::from_f64((lines.len() * columns.len()) as f64);
                    for c in 0..w.depth {
                        let pixels = w.pixels(lines.clone(), columns.clone());
                        let sum = pixels.fold(T::Wide::ZERO, |sum, p| sum + x[p + c].widen());
                        out[at + c] = T::narrow(sum / count);
                    }
                });
            }
        });
        Ok(())
    })
    .with_cost(w.cost())
}

pub(super) fn avg_grad<T: Float>(w: Windows) -> Prepared {
    Prepared::new(0, move |cx| {
        let (dy, dx) = (cx.input::<T>(1)?, cx.output::<T>(0)?);
        let (image, pooled, block) = (w.image(), w.pooled(), w.block());
        for_chunks(cx.pool(), dx, block * image, &|task, dx| {
            dx.fill(T::ZERO);
            for (i, dx) in dx.chunks_exact_mut(image).enumerate() {
                let dy = &dy[(task * block + i) * pooled..][..pooled];
                w.each(|at, lines, columns| {
                    let count = T::Wide::from_f64((lines.len() * columns.len()) as f64);
                    for pixel in w.pixels(lines, columns) {
                        for c in 0..w.depth {
                            let share = T::narrow(dy[at + c].widen() / count);
                            dx[pixel + c] = dx[pixel + c].add(share);
                        }
                    }
                });
            }
        });
        Ok(())
    })
    .with_cost(w.cost())
}
