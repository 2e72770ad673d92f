//! Picture of the inertia by iteration, as SVG.

use std::path::Path;

use crate::failure::Failure;
use crate::figure::{Axis, INKS, Line, LineChart, svg_file};

/// Draws the inertia before each iteration.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(path: &Path, history: &[f64]) -> Result<(), Failure> {
    let points: Vec<(f64, f64)> = history
        .iter()
        .enumerate()
        .map(|(i, inertia)| ((i + 1) as f64, *inertia))
        .collect();
    let chart = LineChart {
        size: (640, 400),
        title: "K-means: inertia by iteration".to_owned(),
        x: Axis::linear("iteration", points.iter().map(|p| p.0)),
        y: Axis::linear("inertia", points.iter().map(|p| p.1)),
        lines: vec![Line::solid("inertia", INKS[0], points)],
        legend: None,
    };
    svg_file::write(path, |svg| chart.draw(svg))
}
