//! Curves of loss and accuracy over the steps of a training.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::combinators::{BindKeyPoints, IntoLogRange};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::{AXIS, FONT, GRID, INKS, TEXT, bounds, write_svg};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One value over the steps of a training.
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a> {
    /// Its name in the legend.
    pub label: &'a str,
    /// Pairs of step and value, by step.
    pub points: &'a [(f64, f64)],
}

/// Draws losses (above, on a logarithmic axis) and accuracies (below, in `0..=1`) over
/// the step into the SVG file `path`. Values that are not finite, and losses that are
/// not above 0, leave a gap.
///
/// # Errors
/// When the name does not end in `.svg` or the file cannot be written.
pub fn curves(
    path: impl AsRef<Path>,
    losses: &[Curve<'_>],
    accuracies: &[Curve<'_>],
) -> Result<(), Box<dyn Error>> {
    let steps = losses.iter().chain(accuracies).flat_map(|c| c.points);
    let (first, last) = bounds(steps.map(|p| p.0)).unwrap_or((0.0, 1.0));
    // At least ten, as marks at parts of a step would all read the same.
    let steps = first.min(0.0)..last.max(first.min(0.0) + 10.0);
    let values =
        |of: &[Curve<'_>]| -> Vec<f64> { of.iter().flat_map(|c| c.points).map(|p| p.1).collect() };

    let positive = values(losses).into_iter().filter(|&v| v > 0.0);
    let (low, high) = bounds(positive).unwrap_or((0.1, 1.0));
    let (low, high) = (low / 1.25, high * 1.25);
    let loss_axis = (low..high)
        .log_scale()
        .with_key_points(marks_between(low, high));
    let (low, _) = bounds(values(accuracies).into_iter()).unwrap_or((0.0, 1.0));
    // Down to a tenth below the lowest, so that the interesting end gets the room.
    let accuracy_axis = ((low * 10.0 - 0.5).floor() / 10.0).clamp(0.0, 0.9)..1.0;

    write_svg(path.as_ref(), (800, 640), |root| {
        let (above, below) = root.split_vertically(320);
        Chart {
            name: "loss",
            curves: losses,
            tick: |v| significant(*v),
            last: |v| significant(*v),
            drawable: |v| v > 0.0 && v.is_finite(),
        }
        .draw(&above, steps.clone(), loss_axis)?;
        Chart {
            name: "accuracy",
            curves: accuracies,
            tick: |v| format!("{:.0}%", v * 100.0),
            last: |v| format!("{:.2}%", v * 100.0),
            drawable: f64::is_finite,
        }
        .draw(&below, steps, accuracy_axis)
    })
}

/// One of the figure's two charts, but for its axes.
struct Chart<'a> {
    name: &'a str,
    curves: &'a [Curve<'a>],
    /// Formats a value for a mark on the axis.
    tick: fn(&f64) -> String,
    /// Formats a value for the legend.
    last: fn(&f64) -> String,
    drawable: fn(f64) -> bool,
}

impl Chart<'_> {
    fn draw<Y>(&self, on: &Area<'_>, steps: Range<f64>, values: Y) -> Result<(), Box<dyn Error>>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(on)
            .margin(14)
            .margin_right(28)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(steps, values)?;
        chart
            .configure_mesh()
            .x_desc("step")
            .y_desc(self.name)
            .x_labels(10)
            .y_labels(8)
            .x_label_formatter(&|step| format!("{step:.0}"))
            .y_label_formatter(&self.tick)
            .label_style((FONT, 14, &TEXT))
            .axis_desc_style((FONT, 16, &TEXT))
            .axis_style(AXIS)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;

        let mut named = false;
        for (curve, ink) in self.curves.iter().zip(INKS.iter().cycle()) {
            // Marks make the few tests of a set stand out, and a single value visible.
            let mark = if curve.points.len() <= 40 { 3 } else { 0 };
            let style = ink.stroke_width(2).filled();
            let runs = curve.points.split(|p| !(self.drawable)(p.1));
            let mut label = Some(match curve.points.last() {
                Some((_, last)) => format!("{}, last {}", curve.label, (self.last)(last)),
                None => curve.label.to_string(),
            });
            for run in runs.filter(|run| !run.is_empty()) {
                let line = LineSeries::new(run.iter().copied(), style).point_size(mark);
                let drawn = chart.draw_series(line)?;
                // Only one part of a curve with gaps goes into the legend.
                if let Some(label) = label.take() {
                    named = true;
                    drawn
                        .label(label)
                        .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
                }
            }
        }
        if named {
            let corner = match self.name {
                "loss" => SeriesLabelPosition::UpperRight,
                _ => SeriesLabelPosition::LowerRight,
            };
            chart
                .configure_series_labels()
                .position(corner)
                .margin(12)
                .legend_area_size(32)
                .label_font((FONT, 14, &TEXT))
                .background_style(WHITE.mix(0.9))
                .border_style(GRID)
                .draw()?;
        }
        Ok(())
    }
}

/// The marks of a logarithmic axis: the fewer decades it spans, the more marks in each.
fn marks_between(low: f64, high: f64) -> Vec<f64> {
    let factors: &[f64] = match (high / low).log10() {
        part if part < 0.7 => &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        few if few < 3.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    decades
        .flat_map(|decade| factors.iter().map(move |f| f * 10f64.powi(decade)))
        .filter(|mark| (low..=high).contains(mark))
        .collect()
}

/// A number with three significant digits and no exponent.
fn significant(value: f64) -> String {
    let digits = 2 - value.abs().log10().floor().clamp(-7.0, 2.0) as i32;
    let digits = digits as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}
