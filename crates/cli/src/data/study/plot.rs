//! Bars of a study, as SVG.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::{Report, Row};
use crate::failure::Failure;
use crate::figure::{FONT, GREY, GRID, INKS, TEXT, svg_file};

const COLD: RGBColor = INKS[0];
const WARM: RGBColor = INKS[1];

/// Half of a bar's width, where bars are 1 apart.
const HALF_BAR: f64 = 0.36;

/// Draws a bar for each kind of input: the median of images/s, with the range of the rounds, and the overhead above.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(path: &Path, report: &Report) -> Result<(), Failure> {
    svg_file::write(path, |svg| render(svg, report))
}

fn render(svg: &mut String, report: &Report) -> Result<(), Box<dyn Error>> {
    let rows = &report.rows;
    let width = 140 + 95 * rows.len() as u32;
    let top = rows.iter().map(|row| row.speed[2]).fold(0.0, f64::max);
    let root = SVGBackend::with_string(svg, (width.max(420), 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .caption(report.title(), (FONT, 19, &TEXT))
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(-0.6..rows.len() as f64 - 0.4, 0.0..(top * 1.18).max(1e-9))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_desc("images/s")
        .label_style((FONT, 14, &TEXT))
        .axis_desc_style((FONT, 16, &TEXT))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (row, x) in rows.iter().zip(0..) {
        let x = f64::from(x);
        let [least, median, most] = row.speed;
        let bar = Rectangle::new(
            [(x - HALF_BAR, 0.0), (x + HALF_BAR, median)],
            colour(row).filled(),
        );
        let range = PathElement::new([(x, least), (x, most)], TEXT.stroke_width(2));
        chart.draw_series([bar])?;
        chart.draw_series([range])?;
        let style = |vertical| {
            (FONT, 14)
                .into_font()
                .color(&TEXT)
                .pos(Pos::new(HPos::Center, vertical))
        };
        let overhead = match row.state {
            "" => String::new(),
            _ => format!("{:.1}%", 100.0 * row.overhead[1]),
        };
        let above = Text::new(overhead, (x, most + top * 0.02), style(VPos::Bottom));
        chart.draw_series([above])?;
        let (at, below) = chart.backend_coord(&(x, 0.0));
        for (line, offset) in [(row.name, 8), (row.state, 25)] {
            root.draw(&Text::new(line, (at, below + offset), style(VPos::Top)))?;
        }
    }
    root.present()?;
    Ok(())
}

fn colour(row: &Row) -> RGBColor {
    match row.state {
        "" => GREY,
        "warm" => WARM,
        _ => COLD,
    }
}
