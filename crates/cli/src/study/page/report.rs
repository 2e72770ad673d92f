//! Sections of the report's page: its Tables 1 to 3 and its Figures 5 to 11.

use thalweg_study::report::GOOGLES_EFFICIENCIES;
use thalweg_study::{Data, PointSummary};

use super::figures::{Series, efficiencies, overhead, overheads, speeds};
use super::html_table::{Row, percent, table};
use super::study_tables::peaks;
use crate::failure::Failure;
use crate::html::escaped;
use crate::study::results::System;

/// Unit of the horizontal axes.
const UNIT: &str = "GPUs";

/// Figures that compare systems with synthetic images: caption, the systems' numbers, and the greatest number of GPUs.
const COMPARISONS: [(&str, &[usize], u32); 3] = [
    ("Figure 5: P100, synthetic, up to 8 GPUs", &[0], 8),
    ("Figure 6: K80, synthetic, up to 8 GPUs", &[1, 2], 8),
    ("Figure 7: K80, synthetic, up to 64 GPUs", &[1, 2], 64),
];

/// All sections.
///
/// # Errors
/// A picture cannot be drawn.
pub(super) fn sections(systems: &[System]) -> Result<String, Failure> {
    let mut html = "<h2>Comparison of systems</h2>\n<div class=\"figures\">\n".to_owned();
    for (caption, numbers, most) in COMPARISONS {
        let shown = numbers.iter().filter_map(|n| systems.get(*n));
        let shown: Vec<Series<'_>> = shown
            .map(|system| series(system, &system.name, Data::Synthetic, most))
            .collect();
        html += &speeds(caption, UNIT, &shown)?;
    }
    let all: Vec<Series<'_>> = systems
        .iter()
        .map(|system| series(system, &system.name, Data::Synthetic, u32::MAX))
        .collect();
    html += &efficiencies("Efficiency, synthetic (of Tables 1 to 3)", UNIT, &all)?;
    html += "</div>\n";
    html += &googles();
    for (number, system) in (1..).zip(systems) {
        let points: Vec<&PointSummary> = system.summary.points.iter().collect();
        let caption = format!(
            "Table {number}: settings with the highest speed on {}",
            system.name
        );
        html += &format!("<h2>{}</h2>\n", escaped(&system.name));
        html += &peaks(&system.summary, &caption, UNIT, &points);
        let kinds = [Data::Synthetic, Data::Real];
        let lines = kinds.map(|data| series(system, &data.to_string(), data, u32::MAX));
        let caption = format!(
            "Figure {}: {}, synthetic and real images",
            number + 7,
            system.name
        );
        html += "<div class=\"figures\">\n";
        html += &speeds(&caption, UNIT, &lines)?;
        html += &efficiencies("Efficiency", UNIT, &lines)?;
        html += "</div>\n";
    }
    let overheads: Vec<(String, Vec<(f64, f64)>)> = systems
        .iter()
        .map(|system| {
            let real = series(system, "", Data::Real, u32::MAX);
            let points = overheads(&system.summary, &real.points);
            (system.name.clone(), points)
        })
        .collect();
    html += "<h2>I/O overhead</h2>\n";
    html += &overhead(
        "Figure 11: I/O overhead by the number of GPUs",
        UNIT,
        &overheads,
    )?;
    Ok(html)
}

/// Points of a system with one kind of images, up to a number of GPUs.
fn series<'s>(system: &'s System, name: &str, data: Data, most: u32) -> Series<'s> {
    let points = system.summary.points.iter();
    Series {
        name: name.to_owned(),
        points: points
            .filter(|p| p.point.data == data && p.point.tasks <= most)
            .collect(),
    }
}

/// Efficiencies of others' measurements, of which the report has no images/s.
fn googles() -> String {
    let rows = GOOGLES_EFFICIENCIES.map(|(system, gpus, share)| {
        let texts = vec![system.to_owned(), gpus.to_string(), percent(Some(share))];
        Row::of("", texts)
    });
    let caption = "Efficiencies of Google's measurements, as the report's text states them";
    let note = "<p class=\"note\">The report has their images/s in its figures alone, so that the figures here lack them.</p>\n";
    table(caption, &["system", "#GPUs", "#efficiency"], &rows) + note
}
