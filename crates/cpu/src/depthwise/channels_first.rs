//! Lines of a depthwise convolution where the channels come first.

use super::axis::{Taps, Through};
use crate::Vectorize;
use crate::conv::{ConvGeometry, Real};

/// Adds lines of planes of the other image, each through a line of taps, to a line of a plane: of the output, or, `BACK`,
/// of the input's gradient.
pub(super) struct AddLines<'a, T, const BACK: bool> {
    pub(super) g: &'a ConvGeometry,
    pub(super) rows: Taps,
    /// The columns that each tap of a line sees.
    pub(super) columns: &'a [Through],
    pub(super) step: usize,
    /// The other planes, and the filter's channel of each.
    pub(super) planes: &'a [T],
    pub(super) filter: &'a [T],
    pub(super) first_channel: usize,
    pub(super) to: &'a mut [T],
}

impl<T: Real, const BACK: bool> Vectorize for AddLines<'_, T, BACK> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let (g, step) = (self.g, self.step);
        let [h, w] = match BACK {
            true => [g.out_h, g.out_w],
            false => [g.in_h, g.in_w],
        };
        for (number, plane) in self.planes.chunks_exact(h * w).enumerate() {
            for i in 0..self.rows.count {
                let (tap_y, y) = self.rows.get(i);
                let line = &plane[y * w..][..w];
                for (tap_x, &Through { first, end, pixel }) in self.columns.iter().enumerate() {
                    let tap = (tap_y * g.k_w + tap_x) * g.out_c;
                    let factor = self.filter[tap + self.first_channel + number];
                    match BACK {
                        true => add(&line[first..end], 1, &mut self.to[pixel..], step, factor),
                        false => add(&line[pixel..], step, &mut self.to[first..end], 1, factor),
                    }
                }
            }
        }
    }
}

/// Adds a multiple of numbers `from_step` apart to numbers `to_step` apart, as many as there are on both sides.
#[inline(always)]
fn add<T: Real>(from: &[T], from_step: usize, to: &mut [T], to_step: usize, factor: T) {
    if from_step == 1 && to_step == 1 {
        for (to, &from) in to.iter_mut().zip(from) {
            *to += from * factor;
        }
        return;
    }
    let count = from
        .len()
        .div_ceil(from_step)
        .min(to.len().div_ceil(to_step));
    for k in 0..count {
        let to = &mut to[k * to_step];
        *to += from[k * from_step] * factor;
    }
}
