//! The largest of every two by two pixels, taken of an image's lines while they are in a cache.

use crate::Vectorize;

use super::{ConvGeometry, Real};
use crate::Isa;
use crate::pooling::{PoolGeometry, larger};

impl ConvGeometry {
    /// The pooling that `halved` stands for.
    pub(super) fn halves(&self) -> PoolGeometry {
        PoolGeometry {
            batch: self.batch,
            in_h: self.out_h,
            in_w: self.out_w,
            channels: self.out_c,
            out_h: self.out_h / 2,
            out_w: self.out_w / 2,
            k_h: 2,
            k_w: 2,
            stride: [2, 2],
            pad_top: 0,
            pad_left: 0,
            layout: self.layout,
        }
    }

    /// The same convolution, all of whose output is stored.
    pub(super) fn whole(&self) -> Self {
        ConvGeometry {
            halved: false,
            ..*self
        }
    }

    /// Lines and columns of output images as they are stored.
    pub(super) fn stored(&self) -> [usize; 2] {
        match self.halved {
            true => [self.out_h / 2, self.out_w / 2],
            false => [self.out_h, self.out_w],
        }
    }

    /// Elements that a forward convolution stores.
    pub fn stored_len(&self) -> usize {
        let [h, w] = self.stored();
        self.batch * h * w * self.out_c
    }
}

/// Stores the largest of every two by two of some lines of pixels, whose channels lie side by side: `line` numbers from a
/// line to the next, and `pixel` from a pixel to the next.
///
/// # Safety
/// `to` is valid for writes of half the lines, of half the pixels each, and nothing else touches them.
pub(super) unsafe fn halve<T: Real>(
    isa: Isa,
    from: &[T],
    [lines, cols, channels]: [usize; 3],
    to: *mut T,
    [line, pixel]: [usize; 2],
) {
    isa.run_over::<T, _>(Halve {
        from: from[..lines * cols * channels].as_ptr(),
        size: [lines, cols, channels],
        to,
        line,
        pixel,
    });
}

/// Channels that are compared side by side.
const LANES: usize = 16;

struct Halve<T> {
    from: *const T,
    size: [usize; 3],
    to: *mut T,
    line: usize,
    pixel: usize,
}

impl<T: Real> Vectorize for Halve<T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let [lines, cols, channels] = self.size;
        for y in 0..lines / 2 {
            for x in 0..cols / 2 {
                let first = (2 * y * cols + 2 * x) * channels;
                let four = [0, 1, cols, cols + 1].map(|pixel| first + pixel * channels);
                let to = self.to.wrapping_add(y * self.line + x * self.pixel);
                let vectors = channels / LANES * LANES;
                let mut channel = 0;
                while channel < vectors {
                    // SAFETY: pixels of lines that are there, and one of those that the caller of `halve` vouches for.
                    unsafe { self.store::<LANES>(four, channel, to) };
                    channel += LANES;
                }
                while channel < channels {
                    // SAFETY: as above.
                    unsafe { self.store::<1>(four, channel, to) };
                    channel += 1;
                }
            }
        }
    }
}

impl<T: Real> Halve<T> {
    /// Stores the largest of `L` channels of four pixels, which begin there.
    ///
    /// # Safety
    /// These channels of the pixels can be read, and `to` is valid for writes of them.
    #[inline(always)]
    unsafe fn store<const L: usize>(&self, four: [usize; 4], channel: usize, to: *mut T) {
        let of = |pixel: usize| {
            let place = self.from.wrapping_add(four[pixel] + channel);
            // SAFETY: as the caller says.
            unsafe { place.cast::<[T; L]>().read() }
        };
        let mut best = of(0);
        let mut pixel = 1;
        while pixel < 4 {
            let x = of(pixel);
            let mut l = 0;
            while l < L {
                best[l] = larger(best[l], x[l]);
                l += 1;
            }
            pixel += 1;
        }
        // SAFETY: as the caller says.
        unsafe { to.wrapping_add(channel).cast::<[T; L]>().write(best) };
    }
}
