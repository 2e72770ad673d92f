//! Axes: their range, marks and scale.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// Least distance of two marks, as a share of the axis.
const LEAST_DISTANCE: f64 = 0.045;

/// Axis of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Name and unit of its values.
    pub(crate) name: String,
    is_logarithmic: bool,
    /// Marks, by value.
    marks: Vec<f64>,
    /// Ends, by value.
    ends: (f64, f64),
    /// Formats the value of a mark.
    format: fn(f64) -> String,
}

impl Axis {
    /// Linear axis from zero, or from a lower value, to the highest value.
    pub(crate) fn linear(name: &str, values: impl Iterator<Item = f64>) -> Axis {
        let finite = values.filter(|v| v.is_finite());
        let (low, high) = finite.fold((0f64, 0f64), |(l, h), v| (l.min(v), h.max(v)));
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / 6.0);
        let first = (low / step).floor() as i64;
        let last = (high / step).ceil() as i64;
        let marks: Vec<f64> = (first..=last).map(|n| n as f64 * step).collect();
        Axis {
            name: name.to_owned(),
            is_logarithmic: false,
            ends: (first as f64 * step, last as f64 * step),
            marks,
            format: plain,
        }
    }

    /// Logarithmic axis of the values above zero, with marks at 1, 2 and 5 times powers of ten.
    pub(crate) fn logarithmic(name: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = positive_ends(values);
        let (low, high) = (low / 1.25, high * 1.25);
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let factors: &[f64] = match (high / low).log10() {
            few if few < 0.7 => &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            some if some < 4.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let marks = decades.flat_map(|d| factors.iter().map(move |f| f * 10f64.powi(d)));
        Axis {
            name: name.to_owned(),
            is_logarithmic: true,
            marks: marks.filter(|m| (low..=high).contains(m)).collect(),
            ends: (low, high),
            format: plain,
        }
    }

    /// Logarithmic axis whose marks are the values, as far as there is room for them.
    pub(crate) fn at_values(name: &str, values: impl Iterator<Item = f64>) -> Axis {
        let mut marks: Vec<f64> = values.filter(|v| v.is_finite() && *v > 0.0).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        let (low, high) = positive_ends(marks.iter().copied());
        let room = (high / low).ln();
        let (low, high) = match room > 0.0 {
            true => (low * (-0.03 * room).exp(), high * (0.03 * room).exp()),
            false => (low / 2.0, high * 2.0),
        };
        let least = LEAST_DISTANCE * (high / low).ln();
        let mut last = f64::NEG_INFINITY;
        marks.retain(|mark| {
            let fits = mark.ln() - last >= least;
            last = if fits { mark.ln() } else { last };
            fits
        });
        Axis {
            name: name.to_owned(),
            is_logarithmic: true,
            marks,
            ends: (low, high),
            format: plain,
        }
    }

    pub(crate) fn format(self, format: fn(f64) -> String) -> Axis {
        Axis { format, ..self }
    }

    /// `true` if the axis can have the value: a logarithmic one has those above zero.
    pub(super) fn has(&self, value: f64) -> bool {
        self.place(value).is_some()
    }

    /// Value of which the axis is a line.
    fn place(&self, value: f64) -> Option<f64> {
        match self.is_logarithmic {
            true if value > 0.0 => Some(value.ln()),
            true => None,
            false => Some(value),
        }
        .filter(|place| place.is_finite())
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let place = |value| self.place(value).unwrap_or(0.0);
        let (first, last) = (place(self.ends.0), place(self.ends.1));
        let share = (place(*value) - first) / (last - first);
        start + (f64::from(end - start) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.marks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        plain(*value)
    }

    fn format_ext(&self, value: &f64) -> String {
        (self.format)(*value)
    }
}

/// Least and greatest value above zero; 1 and 10 without values.
fn positive_ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let known = values.filter(|v| v.is_finite() && *v > 0.0);
    known
        .fold(None, |ends, v| match ends {
            None => Some((v, v)),
            Some((low, high)) => Some((v.min(low), v.max(high))),
        })
        .unwrap_or((1.0, 10.0))
}

/// The next of 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|f| f * power);
    let fits = steps.into_iter().find(|step| *step >= least * 0.999);
    fits.unwrap_or(10.0 * power)
}

/// Number with three significant digits and no exponent.
pub(crate) fn plain(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 2 - value.abs().log10().floor().clamp(-7.0, 2.0) as i32;
    let digits = digits as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_lie_within_the_ends_and_have_room() {
        let linear = Axis::linear("x", [3.0, 11.7].into_iter());
        assert_eq!(linear.marks, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        let negative = Axis::linear("x", [-1.0, 17.0].into_iter());
        assert_eq!(negative.ends, (-5.0, 20.0));
        let logarithmic = Axis::logarithmic("x", [30.0, 9000.0].into_iter());
        assert_eq!(
            logarithmic.marks,
            [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0]
        );
        let crowded = Axis::at_values("x", (1..=64).map(f64::from));
        assert_eq!(crowded.marks[..4], [1.0, 2.0, 3.0, 4.0]);
        assert!(crowded.marks.len() < 24, "{:?}", crowded.marks);
    }

    #[test]
    fn an_axis_of_one_value_or_of_none_has_a_range() {
        for axis in [
            Axis::at_values("x", [4.0].into_iter()),
            Axis::at_values("x", std::iter::empty()),
            Axis::linear("x", std::iter::empty()),
            Axis::linear("x", [0.0].into_iter()),
            Axis::logarithmic("x", [0.0, f64::NAN, -1.0].into_iter()),
        ] {
            let range = axis.range();
            assert!(range.end > range.start && range.end.is_finite(), "{axis:?}");
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0, 0.05, 1.5, 20.0, 123.4, 12_345.0].map(plain);
        assert_eq!(texts, ["0", "0.05", "1.5", "20", "123", "12345"]);
    }
}
