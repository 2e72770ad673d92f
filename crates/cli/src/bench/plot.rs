//! Plot of bus bandwidth by size, as SVG.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use crate::failure::Failure;
use crate::svg_file;

/// Colours that remain distinct for colour-blind readers and in grey (Okabe and Ito, 2008).
const LINE_COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(170, 80, 140),
    RGBColor(90, 90, 90),
];
const TEXT: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(228, 228, 228);
const FONT: &str = "sans-serif";

/// Draws a line for each transport: GB/s of the bus by the bytes of a value. Both axes are logarithmic.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(
    path: &Path,
    ranks: usize,
    lines: &[(String, Vec<(usize, f64)>)],
) -> Result<(), Failure> {
    svg_file::write(path, |svg| render(svg, ranks, lines))
}

fn render(
    svg: &mut String,
    ranks: usize,
    lines: &[(String, Vec<(usize, f64)>)],
) -> Result<(), Box<dyn Error>> {
    let all = || lines.iter().flat_map(|(_, points)| points);
    // The bus bandwidth of a single rank is 0, which a logarithmic axis does not have.
    let speed = |bus: f64| bus.max(1e-6);
    let (low, high) = all().fold((f64::INFINITY, 0f64), |(low, high), &(_, bus)| {
        (low.min(speed(bus)), high.max(speed(bus)))
    });
    let (first, last) = all().fold((usize::MAX, 0), |(first, last), &(bytes, _)| {
        (first.min(bytes), last.max(bytes))
    });
    let root = SVGBackend::with_string(svg, (760, 480)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .margin_right(28)
        .caption(format!("All-reduce, {ranks} ranks"), (FONT, 19, &TEXT))
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (first as f64..(last as f64).max(first as f64 * 2.0))
                .log_scale()
                .base(4.0),
            (low * 0.7..high * 1.5).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("value size")
        .y_desc("bus bandwidth, GB/s")
        .x_labels(12)
        .y_labels(8)
        .x_label_formatter(&|x| format_size(*x))
        .y_label_formatter(&|y| format!("{y}"))
        .label_style((FONT, 14, &TEXT))
        .axis_desc_style((FONT, 16, &TEXT))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for ((name, points), colour) in lines.iter().zip(LINE_COLOURS.iter().cycle()) {
        let style = colour.stroke_width(3);
        let at = || {
            points
                .iter()
                .map(|&(bytes, bus)| (bytes as f64, speed(bus)))
        };
        chart
            .draw_series(LineSeries::new(at(), style))?
            .label(name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 26, y)], style));
        chart.draw_series(at().map(|at| Circle::new(at, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .margin(14)
        .legend_area_size(36)
        .label_font((FONT, 15, &TEXT))
        .background_style(WHITE.mix(0.9))
        .border_style(GRID)
        .draw()?;
    root.present()?;
    Ok(())
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
