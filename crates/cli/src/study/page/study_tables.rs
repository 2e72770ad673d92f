//! Tables of a study: the best settings, as in the report's Tables 1 to 3, and all points.

use thalweg_study::{Point, PointSummary, Summary};

use super::html_table::{Row, percent, rate, table};
use crate::html::escaped;
use crate::study::results::Results;

/// Heads of the columns of a point's settings.
pub(super) const SETTINGS: [&str; 5] = ["mode", "data", "#batch", "#servers", "#tasks"];

/// Cells of a point's settings, in the order of [`SETTINGS`].
pub(super) fn setting_cells(of: &Point) -> Vec<String> {
    vec![
        of.mode.clone(),
        of.data.to_string(),
        of.batch.to_string(),
        of.servers.to_string(),
        of.tasks.to_string(),
    ]
}

/// Table of the settings with the highest speed for each number of tasks.
pub(super) fn best_points(summary: &Summary) -> String {
    let mut kinds: Vec<&Point> = Vec::new();
    for point in summary.points.iter().map(|p| &p.point) {
        let alike =
            |k: &&Point| (k.tasks, k.data, k.batch) == (point.tasks, point.data, point.batch);
        if !kinds.iter().any(alike) {
            kinds.push(point);
        }
    }
    kinds.sort_by_key(|k| (k.tasks, k.batch, k.data));
    let best: Vec<&PointSummary> = kinds.iter().filter_map(|k| summary.fastest(k)).collect();
    let caption = "Settings with the highest speed for each number of tasks";
    format!(
        "<h2>Best settings</h2>\n{}",
        peaks(summary, caption, "tasks", &best)
    )
}

/// Table in the form of the report's Tables 1 to 3.
pub(super) fn peaks(
    summary: &Summary,
    caption: &str,
    unit: &str,
    points: &[&PointSummary],
) -> String {
    let is_predicted = points.iter().any(|p| p.predicted.is_some());
    let unit = format!("#{unit}");
    let mut head = vec!["#servers", &unit, "mode", "data", "#batch", "#images/s"];
    head.extend(["#± 95%", "#efficiency", "#I/O overhead"]);
    if is_predicted {
        head.extend(["#predicted", "#error"]);
    }
    let rows: Vec<Row> = points
        .iter()
        .map(|point| {
            let of = &point.point;
            let mut cells = vec![
                of.servers.to_string(),
                of.tasks.to_string(),
                of.mode.clone(),
                of.data.to_string(),
                of.batch.to_string(),
                rate(point.speed.map(|s| s.mean)),
                rate(point.speed.and_then(|s| s.confidence)),
                percent(point.efficiency()),
                percent(summary.input_overhead(point)),
            ];
            if is_predicted {
                cells.push(rate(point.predicted));
                cells.push(percent(point.prediction_error()));
            }
            Row::of("", cells)
        })
        .collect();
    table(caption, &head, &rows)
}

/// Table of all points, with links to their traces.
pub(super) fn all_points(results: &Results, summary: &Summary) -> String {
    let is_predicted = summary.points.iter().any(|p| p.predicted.is_some());
    let mut head = SETTINGS.to_vec();
    head.extend(["#images/s", "#± 95%", "#median", "#least", "#most"]);
    head.extend(["#runs", "#outliers", "#failed", "#efficiency"]);
    if is_predicted {
        head.extend(["#predicted", "#error"]);
    }
    head.push("trace");
    let mut has_trace = false;
    let rows = summary.points.iter().map(|point| {
        let (of, speed) = (&point.point, point.speed);
        let mut cells = setting_cells(of);
        cells.extend([
            speed.map_or("failed".to_owned(), |s| format!("{:.2}", s.mean)),
            rate(speed.and_then(|s| s.confidence)),
            rate(speed.map(|s| s.median)),
            rate(speed.map(|s| s.least)),
            rate(speed.map(|s| s.most)),
            speed.map_or(0, |s| s.count).to_string(),
            speed.map_or(0, |s| s.outliers).to_string(),
            point.failures.len().to_string(),
            percent(point.efficiency()),
        ]);
        if is_predicted {
            cells.push(rate(point.predicted));
            cells.push(percent(point.prediction_error()));
        }
        let class = match (speed, point.is_best && of.servers > 0) {
            (None, _) => "failed",
            (_, true) => "best",
            _ => "",
        };
        let mut row = Row::of(class, cells);
        let trace = results.trace(of);
        has_trace |= trace.is_some();
        row.html(trace.map_or(String::new(), |path| {
            format!("<a href=\"{}\">step</a>", escaped(&path))
        }));
        row
    });
    let rows: Vec<Row> = rows.collect();
    let note = match has_trace {
        true => "<p class=\"note\">Traces are in Chrome's format, which Perfetto opens.</p>\n",
        false => "",
    };
    let caption = "Images per second of all tasks; the best number of servers is bold";
    format!(
        "<h2>All points</h2>\n{}{note}",
        table(caption, &head, &rows)
    )
}

/// Runs that are outliers, and those that have failed.
pub(super) fn remarks(summary: &Summary) -> String {
    let mut html = String::new();
    let outliers: Vec<String> = summary.points.iter().filter_map(outlier_runs).collect();
    if !outliers.is_empty() {
        html += "<h2>Outliers</h2>\n<p class=\"note\">Images/s of each run. Means contain the marked ones.</p>\n";
        html += &format!("<ul class=\"runs\">\n{}</ul>\n", outliers.concat());
    }
    let failures = summary.points.iter().flat_map(|point| {
        let name = escaped(&point.point.to_string());
        let failures = point.failures.iter();
        failures.map(move |f| format!("<li>{name}: {}</li>\n", escaped(f)))
    });
    let failures: String = failures.collect();
    if !failures.is_empty() {
        html += &format!("<h2>Failed runs</h2>\n<ul class=\"runs\">\n{failures}</ul>\n");
    }
    html
}

/// Runs of a point with an outlier.
fn outlier_runs(point: &PointSummary) -> Option<String> {
    let speed = point.speed.filter(|speed| speed.outliers > 0)?;
    let runs = point.runs.iter().map(|run| match speed.is_outlier(*run) {
        true => format!("<mark>{run:.2}</mark>"),
        false => format!("{run:.2}"),
    });
    let runs: Vec<String> = runs.collect();
    let name = escaped(&point.point.to_string());
    Some(format!("<li>{name}: {}</li>\n", runs.join(", ")))
}
