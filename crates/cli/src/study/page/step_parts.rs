//! Bars of where a step's time goes.

use plotters::style::RGBColor;
use thalweg_study::{PointSummary, Summary};

use super::figures::css;
use super::html_table::{Row, table};
use super::study_tables::{SETTINGS, setting_cells};
use crate::figure::{GREY, INKS};
use crate::html::escaped;

/// Colours of compute, exchange, input and waiting.
const COLOURS: [RGBColor; 4] = [INKS[0], INKS[1], INKS[2], GREY];

/// A bar for each point whose program tells the shares of a step; empty without.
pub(super) fn section(summary: &Summary) -> String {
    let rows: Vec<Row> = summary.points.iter().filter_map(row).collect();
    let first = summary.points.iter().find_map(|point| point.step);
    let Some(first) = first else {
        return String::new();
    };
    let names = first.parts().map(|(name, _)| name);
    let legend = names.iter().zip(COLOURS).map(|(name, colour)| {
        format!(
            "<li><i class=\"box\" style=\"background:{}\"></i>{}</li>",
            css(colour),
            escaped(name)
        )
    });
    let mut head = SETTINGS.to_vec();
    head.push("#ms a step");
    let columns = names.map(|name| format!("#{name}"));
    head.extend(columns.iter().map(String::as_str));
    head.push("");
    let caption = "Shares of a step of a task: the mean of the traced steps";
    format!(
        "<h2>Where the time of a step goes</h2>\n<ul class=\"legend\">{}</ul>\n{}\
         <p class=\"note\">Exchange is the time in which values move and the task computes nothing; \
         waiting is for other tasks or for the program, and for all-reduces that run beside the step.</p>\n",
        legend.collect::<String>(),
        table(caption, &head, &rows)
    )
}

fn row(point: &PointSummary) -> Option<Row> {
    let (of, step) = (&point.point, point.step?);
    let images = f64::from(of.batch) * f64::from(of.tasks);
    let step_ms = point.speed.map(|speed| 1e3 * images / speed.mean);
    let mut cells = setting_cells(of);
    cells.push(step_ms.map_or(String::new(), |ms| format!("{ms:.1}")));
    let parts = step.parts();
    cells.extend(parts.map(|(_, share)| format!("{:.1}%", 100.0 * share)));
    let mut row = Row::of("", cells);
    let boxes = parts.iter().zip(COLOURS).map(|((_, share), colour)| {
        let width = 100.0 * share.clamp(0.0, 1.0);
        format!(
            "<i style=\"width:{width:.1}%;background:{}\"></i>",
            css(colour)
        )
    });
    row.html(format!(
        "<div class=\"bar\">{}</div>",
        boxes.collect::<String>()
    ));
    Some(row)
}
