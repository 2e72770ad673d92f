//! Scatter plots with the true and the fitted line.

use std::error::Error;
use std::path::Path;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::series::DashedLineSeries;

use super::{AXIS, BLUE, FONT, GRID, ORANGE, TEXT, bounds, padded, write_svg};

/// The line `y = weight * x + bias`.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its slope.
    pub weight: f64,
    /// Its value at 0.
    pub bias: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        self.weight * x + self.bias
    }

    fn name(self, what: &str) -> String {
        let sign = if self.bias < 0.0 { '−' } else { '+' };
        let bias = self.bias.abs();
        format!("{what}: y = {:.2} x {sign} {bias:.2}", self.weight)
    }
}

/// Draws points, the line they were made from (dashed) and the line fitted to them,
/// with a legend, into the SVG file `path`. Points that are not finite are left out.
///
/// # Errors
/// When the name does not end in `.svg`, a line is not finite, or the file cannot be
/// written.
pub fn scatter_with_lines(
    path: impl AsRef<Path>,
    points: &[(f64, f64)],
    truth: Line,
    fitted: Line,
) -> Result<(), Box<dyn Error>> {
    for value in [truth.weight, truth.bias, fitted.weight, fitted.bias] {
        if !value.is_finite() {
            return Err("a line that is not finite cannot be drawn: the training diverged".into());
        }
    }
    let points: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    let (left, right) = padded(
        bounds(points.iter().map(|p| p.0)).unwrap_or((0.0, 1.0)),
        0.05,
    );
    let ends = |line: Line| [(left, line.at(left)), (right, line.at(right))];
    let drawn = points
        .iter()
        .copied()
        .chain(ends(truth))
        .chain(ends(fitted));
    let (low, high) = padded(bounds(drawn.map(|p| p.1)).unwrap_or((0.0, 1.0)), 0.06);

    write_svg(path.as_ref(), (720, 480), |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(16)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(left..right, low..high)?;
        chart
            .configure_mesh()
            .x_desc("x")
            .y_desc("y")
            .x_labels(10)
            .y_labels(8)
            .x_label_formatter(&|x| tick(*x))
            .y_label_formatter(&|y| tick(*y))
            .label_style((FONT, 15, &TEXT))
            .axis_desc_style((FONT, 17, &TEXT))
            .axis_style(AXIS)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;

        let dashes = TEXT.stroke_width(2);
        chart
            .draw_series(DashedLineSeries::new(ends(truth), 7, 5, dashes))?
            .label(truth.name("true"))
            .legend(move |(x, y)| DashedPathElement::new([(x, y), (x + 26, y)], 7, 5, dashes));
        chart
            .draw_series(LineSeries::new(ends(fitted), ORANGE.stroke_width(3)))?
            .label(fitted.name("fitted"))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 26, y)], ORANGE.stroke_width(3)));
        chart
            .draw_series(points.iter().map(|&at| Circle::new(at, 5, BLUE.filled())))?
            .label("data")
            .legend(|(x, y)| Circle::new((x + 13, y), 5, BLUE.filled()));

        let corner = if fitted.weight < 0.0 {
            SeriesLabelPosition::UpperRight
        } else {
            SeriesLabelPosition::UpperLeft
        };
        chart
            .configure_series_labels()
            .position(corner)
            .margin(14)
            .legend_area_size(36)
            .label_font((FONT, 15, &TEXT))
            .background_style(WHITE.mix(0.9))
            .border_style(GRID)
            .draw()?;
        Ok(())
    })
}

/// A mark on an axis, without rounding noise.
fn tick(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    format!("{}", rounded + 0.0)
}
