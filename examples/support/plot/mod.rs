//! Figures as SVG: curves, panels of curves, stacked columns, scatter plots.

mod boxes;
mod curves;
mod panels;
mod scatter;

use std::error::Error;
use std::fs;
use std::path::Path;

use plotters::prelude::*;

pub use boxes::{Boxes, boxes};
pub use curves::{Curve, curves};
pub use panels::{Panel, panels};
pub use scatter::{Line, scatter_with_lines};

/// Inks that stay apart for colour-blind readers and in grey (Okabe and Ito, 2008).
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(213, 94, 0);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const PURPLE: RGBColor = RGBColor(170, 80, 140);
const INKS: [RGBColor; 4] = [BLUE, ORANGE, GREEN, PURPLE];
const TEXT: RGBColor = RGBColor(40, 40, 40);
const AXIS: RGBColor = RGBColor(130, 130, 130);
const GRID: RGBColor = RGBColor(228, 228, 228);

const FONT: &str = "sans-serif";

/// Draws into an SVG file of `size` (width, height; in pixels).
fn write_svg<F>(path: &Path, size: (u32, u32), draw: F) -> Result<(), Box<dyn Error>>
where
    F: FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), Box<dyn Error>>,
{
    check_name(path)?;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        draw(&root)?;
        root.present()?;
    }
    fs::write(path, svg).map_err(|e| format!("{}: {e}", path.display()).into())
}

/// Checks the extension of a figure's path; call it before the training, not after it.
///
/// # Errors
/// When the name does not end in `.svg`.
pub fn check_name(path: &Path) -> Result<(), Box<dyn Error>> {
    match path.extension() {
        Some(kind) if kind.eq_ignore_ascii_case("svg") => Ok(()),
        _ => Err(format!(
            "{}: figures are drawn as SVG, give a name that ends in .svg",
            path.display()
        )
        .into()),
    }
}

/// The least and the greatest finite value; none when there is none.
fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .filter(|v| v.is_finite())
        .fold(None, |range, v| match range {
            None => Some((v, v)),
            Some((low, high)) => Some((v.min(low), v.max(high))),
        })
}

/// `bounds`, a part wider on both sides, and never empty.
fn padded((low, high): (f64, f64), part: f64) -> (f64, f64) {
    let margin = match (high - low) * part {
        none if none > 0.0 => none,
        _ => 0.5,
    };
    (low - margin, high + margin)
}
