//! Results of a study as a table, as CSV and as JSON.

use serde_json::{Value, json};
use thalweg_study::{PointSummary, Summary};

use super::machine::Machine;
use crate::failure::Failure;
use crate::table::table;

/// Table of all points; the best number of servers has a star.
pub(super) fn text(summary: &Summary) -> String {
    let has_real = summary
        .points
        .iter()
        .any(|p| summary.input_overhead(p).is_some());
    let mut head = vec![
        "mode",
        "data",
        "batch",
        "servers",
        "tasks",
        "images/s",
        "+/-",
        "efficiency",
        "exchange",
    ];
    if has_real {
        head.push("I/O overhead");
    }
    let row = |point: &PointSummary| {
        let share =
            |value: Option<f64>| value.map_or(String::new(), |v| format!("{:.1}%", 100.0 * v));
        let of = &point.point;
        let mut row = vec![
            of.mode.clone(),
            of.data.to_string(),
            of.batch.to_string(),
            servers(point),
            of.tasks.to_string(),
        ];
        row.extend(match point.speed {
            Some(speed) => [
                format!("{:.1}", speed.mean),
                speed
                    .confidence
                    .map_or(String::new(), |c| format!("{c:.1}")),
            ],
            None => ["failed".to_owned(), String::new()],
        });
        row.extend([share(point.efficiency()), share(point.exchange)]);
        if has_real {
            row.push(share(summary.input_overhead(point)));
        }
        row
    };
    let rows = summary.points.iter().map(row).collect();
    let numbers: Vec<usize> = (2..head.len()).collect();
    let mut text = table(&head, rows, &numbers);
    text += "+/-: half of the interval of the mean with a confidence of 95%. *: best number of servers.\n";
    for point in &summary.points {
        if let Some(speed) = point.speed.filter(|speed| speed.outliers > 0) {
            text += &format!(
                "{}: {} of {} runs are outliers\n",
                point.point, speed.outliers, speed.count
            );
        }
        for failure in &point.failures {
            text += &format!("{}: a run has failed: {failure}\n", point.point);
        }
    }
    text
}

fn servers(point: &PointSummary) -> String {
    match (point.point.servers, point.is_best) {
        (0, _) => String::new(),
        (servers, true) => format!("{servers} *"),
        (servers, false) => servers.to_string(),
    }
}

/// A line for each point.
///
/// # Errors
/// None in practice: the text is in memory.
pub(super) fn csv(summary: &Summary) -> Result<String, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |e: csv::Error| e.to_string();
    writer
        .write_record([
            "mode",
            "data",
            "batch",
            "servers",
            "tasks",
            "runs",
            "failed",
            "images_per_second",
            "median",
            "least",
            "most",
            "confidence_95",
            "outliers",
            "efficiency",
            "exchange",
            "input",
            "io_overhead",
            "best_servers",
        ])
        .map_err(failed)?;
    for point in &summary.points {
        let of = &point.point;
        let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
        let speed = point.speed;
        let row = [
            of.mode.clone(),
            of.data.to_string(),
            of.batch.to_string(),
            of.servers.to_string(),
            of.tasks.to_string(),
            speed.map_or(0, |s| s.count).to_string(),
            point.failures.len().to_string(),
            number(speed.map(|s| s.mean)),
            number(speed.map(|s| s.median)),
            number(speed.map(|s| s.least)),
            number(speed.map(|s| s.most)),
            number(speed.and_then(|s| s.confidence)),
            speed.map_or(0, |s| s.outliers).to_string(),
            number(point.efficiency()),
            number(point.exchange),
            number(point.input),
            number(summary.input_overhead(point)),
            point.is_best.to_string(),
        ];
        writer.write_record(row).map_err(failed)?;
    }
    let bytes = writer.into_inner().map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// All results.
pub(super) fn json(summary: &Summary, study: &str, machine: &Machine) -> Value {
    let point = |point: &PointSummary| {
        let speed = point.speed.map(|s| {
            json!({
                "mean": s.mean, "median": s.median, "least": s.least, "most": s.most,
                "confidence_95": s.confidence, "runs": s.count, "outliers": s.outliers,
            })
        });
        let mut all = json!(point.point);
        all["images_per_second"] = json!(speed);
        all["ideal"] = json!(point.ideal);
        all["efficiency"] = json!(point.efficiency());
        all["exchange"] = json!(point.exchange);
        all["input"] = json!(point.input);
        all["io_overhead"] = json!(summary.input_overhead(point));
        all["best_servers"] = json!(point.is_best);
        all["failures"] = json!(point.failures);
        all
    };
    let points: Vec<Value> = summary.points.iter().map(point).collect();
    json!({ "study": study, "machine": machine.json(), "points": points })
}
