//! Windows that move along one axis: their places, and the windows that see a place.

use std::ops::Range;

/// Windows along one axis. Window `o` sees the places `o stride - pad + k dilation`, for `k < window`, that lie in the
/// input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowAxis {
    /// Places of the input.
    pub input: usize,
    /// Number of windows.
    pub output: usize,
    /// Taps of a window.
    pub window: usize,
    /// From a window to the next; at least one.
    pub stride: usize,
    /// From a tap to the next; at least one.
    pub dilation: usize,
    /// Places of padding before the input.
    pub pad: usize,
}

impl WindowAxis {
    /// The place of tap `k` of window `o`, where it lies in the input.
    #[inline]
    pub fn place(self, o: usize, k: usize) -> Option<usize> {
        let at = (o * self.stride + k * self.dilation).checked_sub(self.pad)?;
        (at < self.input).then_some(at)
    }

    /// The window whose tap `k` lies at place `at`.
    #[inline]
    pub(crate) fn window_with(self, at: usize, k: usize) -> Option<usize> {
        let from = (at + self.pad).checked_sub(k * self.dilation)?;
        let o = from / self.stride;
        (from.is_multiple_of(self.stride) && o < self.output).then_some(o)
    }

    /// The places that window `o` sees, of windows without dilation.
    #[inline]
    pub fn places(self, o: usize) -> Range<usize> {
        let start = o * self.stride;
        let end = (start + self.window).saturating_sub(self.pad);
        start.saturating_sub(self.pad)..end.min(self.input)
    }

    /// The windows that see place `at`, of windows without dilation.
    #[inline]
    pub(crate) fn windows(self, at: usize) -> Range<usize> {
        let (last, span) = (at + self.pad, self.window);
        let first = (last + 1).saturating_sub(span).div_ceil(self.stride);
        first..(last / self.stride + 1).min(self.output)
    }

    /// `true` if each window is the place of its own number.
    pub(crate) fn is_pointwise(self) -> bool {
        self.window == 1 && self.stride == 1 && self.pad == 0 && self.output == self.input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_windows_are_each_others_inverse() {
        for (stride, window, pad) in [(1, 3, 1), (2, 3, 0), (3, 2, 1), (2, 5, 2)] {
            let axis = WindowAxis {
                input: 7,
                output: 3,
                window,
                stride,
                dilation: 1,
                pad,
            };
            for at in 0..axis.input {
                for o in 0..axis.output {
                    let seen = axis.places(o).contains(&at);
                    assert_eq!(seen, axis.windows(at).contains(&o), "{axis:?} {at} {o}");
                    let taps = (0..window).filter(|&k| axis.place(o, k) == Some(at));
                    let inverse = (0..window).filter(|&k| axis.window_with(at, k) == Some(o));
                    assert_eq!(taps.collect::<Vec<_>>(), inverse.collect::<Vec<_>>());
                    assert_eq!(
                        seen,
                        (0..window).any(|k| axis.place(o, k) == Some(at)),
                        "{axis:?} {at} {o}"
                    );
                }
            }
        }
    }
}
