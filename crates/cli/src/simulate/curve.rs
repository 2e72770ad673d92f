//! Picture of images/s by the number of servers, as SVG.

use std::path::Path;

use plotters::prelude::SeriesLabelPosition;

use super::modes::ModePredictions;
use crate::failure::Failure;
use crate::figure::{Axis, INKS, Line, LineChart, svg_file};

/// Draws a line for each mode with servers, and a level line for all-reduce.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(
    path: &Path,
    cluster: &str,
    workers: u32,
    all: &[ModePredictions],
) -> Result<(), Failure> {
    let servers = all.iter().flat_map(|own| &own.candidates);
    let last = servers.map(|c| c.servers).max().unwrap_or(1).max(1);
    let lines: Vec<Line> = all
        .iter()
        .zip(INKS.into_iter().cycle())
        .map(|(own, ink)| Line::solid(own.name(), ink, points(own, f64::from(last))))
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let chart = LineChart {
        size: (760, 480),
        title: format!("{workers} workers on {cluster}, predicted"),
        x: Axis::at_values("parameter servers", points().map(|p| p.0))
            .format(|x| format!("{x:.0}")),
        y: Axis::logarithmic("images/s", points().map(|p| p.1)),
        lines,
        legend: Some(SeriesLabelPosition::LowerRight),
    };
    svg_file::write(path, |svg| chart.draw(svg))
}

/// Servers and images/s of a mode.
fn points(own: &ModePredictions, last: f64) -> Vec<(f64, f64)> {
    let all = own.candidates.iter();
    let points = all.map(|c| (f64::from(c.servers), c.prediction.images_per_second));
    match own.candidates.first() {
        Some(first) if first.servers == 0 => {
            let speed = first.prediction.images_per_second;
            vec![(1.0, speed), (last, speed)]
        }
        _ => points.collect(),
    }
}
