//! Images gathered through taps: the convolution, and the gradient of its images.

use crate::Vectorize;

use super::super::conv::ConvGeometry;
use super::super::scratch::for_chunks;
use super::super::{Cpu, Epilogue, Layout};
use super::axis::{Axis, LANES, Taps, axes, lanes};
use crate::number::{Arithmetic, Float};

/// Elements of a task.
const TASK_ELEMENTS: usize = 8 * 1024;

/// Lines, columns and channels.
type Image = [usize; 3];

/// An image gathered from the other: the output from the input, or, `BACK`, the input's gradient from the output's.
struct Gather<'a, T, const BACK: bool> {
    g: &'a ConvGeometry,
    /// The first line of `to`.
    first: usize,
    from: &'a [T],
    filter: &'a [T],
    /// Output channels of an input channel.
    each: usize,
    /// The input channel of each output channel.
    sources: &'a [usize],
    epilogue: Epilogue<'a, T>,
    to: &'a mut [T],
}

/// The convolution of images `x` with a filter, and the epilogue of its outputs.
///
/// # Panics
/// Where a slice is not as long as `g` says.
pub fn depthwise<T: Float>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    x: &[T],
    filter: &[T],
    epilogue: Epilogue<'_, T>,
    y: &mut [T],
) {
    gather::<T, false>(
        cpu,
        g,
        [g.out_h, g.out_w, g.out_c],
        [x, filter],
        epilogue,
        y,
    );
}

/// The gradient of the images.
///
/// # Panics
/// Where a slice is not as long as `g` says.
pub fn depthwise_input_grad<T: Float>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    filter: &[T],
    dy: &[T],
    dx: &mut [T],
) {
    let size = [g.in_h, g.in_w, g.in_c];
    gather::<T, true>(cpu, g, size, [dy, filter], Epilogue::NONE, dx);
}

fn gather<T: Float, const BACK: bool>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    [_, columns, channels]: Image,
    [from, filter]: [&[T]; 2],
    epilogue: Epilogue<'_, T>,
    to: &mut [T],
) {
    assert!(
        epilogue.fits(channels),
        "an epilogue of {channels} channels"
    );
    if to.is_empty() {
        return;
    }
    if from.is_empty() || filter.is_empty() {
        to.fill(T::ZERO);
        let after = match g.layout {
            Layout::Nhwc => 1,
            Layout::Nchw => g.out_h * g.out_w,
        };
        return epilogue.apply(cpu, channels, after, to);
    }
    let line = match g.layout {
        Layout::Nhwc => columns * channels,
        Layout::Nchw => columns,
    };
    let lines = (TASK_ELEMENTS / line).max(1);
    let each = g.out_c / g.in_c;
    let sources: Vec<usize> = (0..g.out_c).map(|channel| channel / each).collect();
    for_chunks(cpu.pool, to, lines * line, &|task, to| {
        cpu.isa.run_over::<T, _>(Gather::<T, BACK> {
            g,
            first: task * lines,
            from,
            filter,
            each,
            sources: &sources,
            epilogue,
            to,
        });
    });
}

impl<T: Float, const BACK: bool> Vectorize for Gather<'_, T, BACK> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        match self.g.layout {
            Layout::Nhwc => self.channels_last(),
            Layout::Nchw => self.channels_first(),
        }
    }
}

impl<T: Float, const BACK: bool> Gather<'_, T, BACK> {
    /// This image, and the other.
    #[inline(always)]
    fn images(&self) -> (Image, Image) {
        let g = self.g;
        let (input, output) = ([g.in_h, g.in_w, g.in_c], [g.out_h, g.out_w, g.out_c]);
        if BACK {
            (input, output)
        } else {
            (output, input)
        }
    }

    #[inline(always)]
    fn taps(&self, axis: &Axis, place: usize) -> Taps {
        if BACK {
            axis.seeing(place)
        } else {
            axis.seen(place)
        }
    }

    /// For the channel `c` of this image: its channels in the other, and in the filter, that it meets.
    #[inline(always)]
    fn meets(&self, c: usize) -> impl Iterator<Item = (usize, usize)> + use<T, BACK> {
        let each = self.each;
        let (first, count) = if BACK { (c * each, each) } else { (c, 1) };
        (first..first + count).map(move |m| (if BACK { m } else { m / each }, m))
    }

    /// The sums of `L` neighbours; `place` returns the start of lines and columns of the other image, neighbours there
    /// lie `step` apart, and see one filter.
    #[inline(always)]
    fn sums<const L: usize>(
        &self,
        [rows, columns]: [Taps; 2],
        channel: usize,
        place: impl Fn(usize, usize, usize) -> usize,
        step: usize,
    ) -> [T::Wide; L] {
        let mut sums = [T::Wide::ZERO; L];
        for i in 0..rows.count {
            let (tap_y, y) = rows.get(i);
            for j in 0..columns.count {
                let (tap_x, x) = columns.get(j);
                let tap = (tap_y * self.g.k_w + tap_x) * self.g.out_c;
                for (other, own) in self.meets(channel) {
                    let a: [T::Wide; L] = lanes(self.from, place(y, x, other), step);
                    let b = self.filter[tap + own].widen();
                    for l in 0..L {
                        sums[l] = sums[l].add(a[l].mul(b));
                    }
                }
            }
        }
        sums
    }

    /// The sums of `L` channels from `first` on, for channels that come last; `place` returns the start of a pixel of the
    /// other image.
    #[inline(always)]
    fn channel_sums<const L: usize>(
        &self,
        [rows, columns]: [Taps; 2],
        first: usize,
        place: impl Fn(usize, usize) -> usize,
    ) -> [T::Wide; L] {
        let each = self.each;
        let mut sums = [T::Wide::ZERO; L];
        for i in 0..rows.count {
            let (tap_y, y) = rows.get(i);
            for j in 0..columns.count {
                let (tap_x, x) = columns.get(j);
                let (pixel, tap) = (place(y, x), (tap_y * self.g.k_w + tap_x) * self.g.out_c);
                if BACK {
                    // The output channels of an input channel lie side by side.
                    for number in first * each..(first + 1) * each {
                        let a: [T::Wide; L] = lanes(self.from, pixel + number, each);
                        let b: [T::Wide; L] = lanes(self.filter, tap + number, each);
                        for l in 0..L {
                            sums[l] = sums[l].add(a[l].mul(b[l]));
                        }
                    }
                } else {
                    let a: [T::Wide; L] = match each {
                        1 => lanes(self.from, pixel + first, 1),
                        _ => std::array::from_fn(|l| {
                            self.from[pixel + self.sources[first + l]].widen()
                        }),
                    };
                    let b: [T::Wide; L] = lanes(self.filter, tap + first, 1);
                    for l in 0..L {
                        sums[l] = sums[l].add(a[l].mul(b[l]));
                    }
                }
            }
        }
        sums
    }

    /// Computes as many whole groups of `L` channels as there are from the first of `to` on, and returns the rest.
    #[inline(always)]
    fn groups<'t, const L: usize>(
        &self,
        taps: [Taps; 2],
        first: &mut usize,
        place: impl Fn(usize, usize) -> usize + Copy,
        to: &'t mut [T],
    ) -> &'t mut [T] {
        let (groups, rest) = to.as_chunks_mut::<L>();
        for to in groups {
            let sums = self.channel_sums::<L>(taps, *first, place).map(T::narrow);
            *to = self.epilogue.of_neighbours(*first, sums);
            *first += L;
        }
        rest
    }

    #[inline(always)]
    fn channels_last(mut self) {
        let ([h, w, c], [other_h, other_w, other_c]) = self.images();
        let [rows, columns] = axes(self.g);
        let to = std::mem::take(&mut self.to);
        for (line, to) in to.chunks_exact_mut(w * c).enumerate() {
            let (image, y) = ((self.first + line) / h, (self.first + line) % h);
            let seen = self.taps(&rows, y);
            for (x, to) in to.chunks_exact_mut(c).enumerate() {
                let taps = [seen, self.taps(&columns, x)];
                let place = |y, x| ((image * other_h + y) * other_w + x) * other_c;
                let mut first = 0;
                let to = self.groups::<LANES>(taps, &mut first, place, to);
                let to = self.groups::<4>(taps, &mut first, place, to);
                self.groups::<1>(taps, &mut first, place, to);
            }
        }
    }

    #[inline(always)]
    fn channels_first(mut self) {
        let ([h, w, c], [other_h, other_w, other_c]) = self.images();
        let [rows, columns] = axes(self.g);
        let to = std::mem::take(&mut self.to);
        let step = if BACK { 1 } else { columns.stride };
        for (line, to) in to.chunks_exact_mut(w).enumerate() {
            let (plane, y) = ((self.first + line) / h, (self.first + line) % h);
            let (image, channel) = (plane / c, plane % c);
            let seen = self.taps(&rows, y);
            let place = |y, x, other| ((image * other_c + other) * other_h + y) * other_w + x;
            let mut x = 0;
            while x < w {
                let taps = [seen, self.taps(&columns, x)];
                let together = (!BACK || columns.stride == 1)
                    && x + LANES <= w
                    && taps[1].like(&self.taps(&columns, x + LANES - 1));
                if together {
                    let sums = self.sums::<LANES>(taps, channel, place, step);
                    for (to, sum) in to[x..x + LANES].iter_mut().zip(sums) {
                        *to = self.epilogue.of(channel, T::narrow(sum));
                    }
                    x += LANES;
                } else {
                    let [sum] = self.sums::<1>(taps, channel, place, 1);
                    to[x] = self.epilogue.of(channel, T::narrow(sum));
                    x += 1;
                }
            }
        }
    }
}
