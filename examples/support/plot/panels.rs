//! Panels of curves, one below the other, over one horizontal axis.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::{AXIS, Curve, FONT, GRID, INKS, TEXT, bounds, padded, write_svg};

/// Curves over one axis, from zero on.
#[derive(Clone, Debug)]
pub struct Panel<'a> {
    /// Name of the values of the curves.
    pub name: &'a str,
    /// The curves.
    pub curves: Vec<Curve<'a>>,
}

/// Draws panels, one below the other, over one horizontal axis into the SVG file `path`.
///
/// # Errors
/// When the name does not end in `.svg` or the file cannot be written.
pub fn panels(path: &Path, axis: &str, all: &[Panel<'_>]) -> Result<(), Box<dyn Error>> {
    let points = |p: &Panel<'_>| -> Vec<(f64, f64)> {
        p.curves.iter().flat_map(|c| c.points).copied().collect()
    };
    let across = bounds(all.iter().flat_map(points).map(|p| p.0)).unwrap_or((0.0, 1.0));
    let (left, right) = padded(across, 0.0);
    write_svg(path, (900, 260 * all.len() as u32), |root| {
        for (area, panel) in root.split_evenly((all.len(), 1)).iter().zip(all) {
            let most = bounds(points(panel).into_iter().map(|p| p.1)).map_or(1.0, |b| b.1);
            let mut chart = ChartBuilder::on(area)
                .margin(12)
                .caption(panel.name, (FONT, 16).into_font().color(&TEXT))
                .x_label_area_size(30)
                .y_label_area_size(60)
                .build_cartesian_2d(left..right, 0.0..(most * 1.1).max(1.0))?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(GRID)
                .axis_style(AXIS)
                .x_desc(axis)
                .label_style((FONT, 12).into_font().color(&TEXT))
                .draw()?;
            for (i, curve) in panel.curves.iter().enumerate() {
                let ink = INKS[i % INKS.len()].mix(if i < INKS.len() { 1.0 } else { 0.5 });
                chart
                    .draw_series(LineSeries::new(curve.points.iter().copied(), ink))?
                    .label(curve.label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], ink));
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerRight)
                .background_style(WHITE.mix(0.8))
                .label_font((FONT, 11).into_font().color(&TEXT))
                .draw()?;
        }
        Ok(())
    })
}
