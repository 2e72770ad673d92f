//! Plot of bus bandwidth by size, as SVG.

use std::path::Path;

use plotters::prelude::SeriesLabelPosition;

use crate::failure::Failure;
use crate::figure::{Axis, INKS, Line, LineChart, svg_file};

/// Draws a line for each transport: GB/s of the bus by the bytes of a value. Both axes are logarithmic.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(
    path: &Path,
    ranks: usize,
    lines: &[(String, Vec<(usize, f64)>)],
) -> Result<(), Failure> {
    let lines: Vec<Line> = lines
        .iter()
        .zip(INKS.into_iter().cycle())
        .map(|((name, points), ink)| {
            let points = points.iter().map(|&(bytes, bus)| (bytes as f64, bus));
            Line::solid(name, ink, points.collect())
        })
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let chart = LineChart {
        size: (760, 480),
        title: format!("All-reduce, {ranks} ranks"),
        x: Axis::at_values("value size", points().map(|p| p.0)).format(format_size),
        y: Axis::logarithmic("bus bandwidth, GB/s", points().map(|p| p.1)),
        lines,
        legend: Some(SeriesLabelPosition::LowerRight),
    };
    svg_file::write(path, |svg| chart.draw(svg))
}

/// Formats bytes in KiB, MiB or GiB.
fn format_size(bytes: f64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = |(unit, _): &&(u64, &str)| bytes >= *unit as f64 * 0.99;
    match units.iter().find(fits) {
        Some((unit, name)) => format!("{:.0} {name}", bytes / *unit as f64),
        None => format!("{bytes:.0} B"),
    }
}
