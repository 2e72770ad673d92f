//! The filter taps between outputs and pixels along one axis of a depthwise convolution.

use crate::conv::ConvGeometry;

/// The lines, or the columns, of both images and of the filter.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) taps: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) pad: usize,
}

/// The taps through which a place of one image meets places of the other: `count` of them.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Taps {
    pub(super) count: usize,
    pub(super) tap: usize,
    pub(super) tap_step: usize,
    pub(super) at: usize,
    pub(super) at_step: isize,
}

/// The outputs `first..end` that see the image through a tap, and the pixel that the first of them sees.
#[derive(Clone, Copy)]
pub(super) struct Through {
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) pixel: usize,
}

impl Taps {
    /// Tap `k` of them, and the place of the other image.
    #[inline(always)]
    pub(super) fn get(&self, k: usize) -> (usize, usize) {
        let at = self.at.wrapping_add_signed(k as isize * self.at_step);
        (self.tap + k * self.tap_step, at)
    }
}

impl Axis {
    /// The pixels that output `o` sees.
    #[inline(always)]
    pub(super) fn seen(&self, o: usize) -> Taps {
        let start = o * self.stride;
        let tap = self.pad.saturating_sub(start).div_ceil(self.dilation);
        let end = (self.input + self.pad).saturating_sub(start);
        let end = end.div_ceil(self.dilation).min(self.taps);
        Taps {
            count: end.saturating_sub(tap),
            tap,
            tap_step: 1,
            at: (start + tap * self.dilation).saturating_sub(self.pad),
            at_step: self.dilation as isize,
        }
    }

    /// The outputs that see a pixel.
    #[inline(always)]
    pub(super) fn seeing(&self, pixel: usize) -> Taps {
        let (at, d, s) = (pixel + self.pad, self.dilation, self.stride);
        let none = Taps {
            count: 0,
            tap: 0,
            tap_step: 0,
            at: 0,
            at_step: 0,
        };
        // Every so many taps there is one whose distance is a multiple of the stride.
        let step = s / gcd(s, d);
        let Some(first) = (0..step.min(self.taps)).find(|i| i * d <= at && (at - i * d) % s == 0)
        else {
            return none;
        };
        // Those before see beyond the last output.
        let least = at
            .saturating_sub(self.output.saturating_sub(1) * s)
            .div_ceil(d);
        let tap = first + least.saturating_sub(first).div_ceil(step) * step;
        let last = (self.taps - 1).min(at / d);
        if tap > last || self.output == 0 {
            return none;
        }
        Taps {
            count: (last - tap) / step + 1,
            tap,
            tap_step: step,
            at: (at - tap * d) / s,
            at_step: -((step * d / s) as isize),
        }
    }

    #[inline(always)]
    pub(super) fn through(&self, tap: usize) -> Through {
        let at = tap * self.dilation;
        let first = self.pad.saturating_sub(at).div_ceil(self.stride);
        let first = first.min(self.output);
        let end = (self.input + self.pad).saturating_sub(at);
        let end = end.div_ceil(self.stride).min(self.output);
        let pixel = (first * self.stride + at).saturating_sub(self.pad);
        Through {
            first,
            end: end.max(first),
            // A tap that no output sees the image through is within its bounds all the same.
            pixel: pixel.min(self.input),
        }
    }
}

/// The columns that each tap of a line sees.
pub(super) fn through_taps(columns: &Axis) -> Vec<Through> {
    (0..columns.taps).map(|tap| columns.through(tap)).collect()
}

pub(super) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The lines and the columns.
pub(super) fn axes(g: &ConvGeometry) -> [Axis; 2] {
    let axis = |input, output, taps, i: usize, pad| Axis {
        input,
        output,
        taps,
        stride: g.stride[i],
        dilation: g.dilation[i],
        pad,
    };
    [
        axis(g.in_h, g.out_h, g.k_h, 0, g.pad_top),
        axis(g.in_w, g.out_w, g.k_w, 1, g.pad_left),
    ]
}
