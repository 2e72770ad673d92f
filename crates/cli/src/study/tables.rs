//! Results of a study as a table, as CSV and as JSON.

use serde_json::{Value, json};
use thalweg_study::{PointSummary, Scaling, StepShares, Summary};

use super::results::Results;
use crate::failure::Failure;
use crate::table::table;

/// Table of all points of each system; the best number of servers has a star.
pub(super) fn text(results: &Results) -> String {
    let mut text = String::new();
    for system in &results.systems {
        if !system.name.is_empty() {
            text += &format!("{}\n", system.name);
        }
        text += &summary_text(&system.summary);
    }
    text += "+/-: half of the interval of the mean with a confidence of 95%. *: best number of servers.\n";
    for system in &results.systems {
        text += &remarks(&system.summary);
    }
    text
}

fn summary_text(summary: &Summary) -> String {
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
    let is_predicted = summary.points.iter().any(|p| p.predicted.is_some());
    if is_predicted {
        head.extend(["predicted", "error"]);
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
        if is_predicted {
            let predicted = point.predicted;
            row.push(predicted.map_or(String::new(), |p| format!("{p:.1}")));
            row.push(share(point.prediction_error()));
        }
        row
    };
    let rows = summary.points.iter().map(row).collect();
    let numbers: Vec<usize> = (2..head.len()).collect();
    table(&head, rows, &numbers)
}

/// Lines about outliers and failed runs.
fn remarks(summary: &Summary) -> String {
    let mut text = String::new();
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

/// A line for each point. Of several systems, the first column has the system.
///
/// # Errors
/// None in practice: the text is in memory.
pub(super) fn csv(results: &Results) -> Result<String, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |e: csv::Error| e.to_string();
    let names = || results.systems.iter().any(|system| !system.name.is_empty());
    let head = names().then_some("system").into_iter().chain(CSV_COLUMNS);
    writer.write_record(head).map_err(failed)?;
    for system in &results.systems {
        let name = || names().then(|| system.name.clone());
        for point in &system.summary.points {
            let row = name().into_iter().chain(csv_row(&system.summary, point));
            writer.write_record(row).map_err(failed)?;
        }
    }
    let bytes = writer.into_inner().map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

const CSV_COLUMNS: [&str; 23] = [
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
    "predicted",
    "exchange",
    "input",
    "io_overhead",
    "best_servers",
    "step_compute",
    "step_exchange",
    "step_input",
    "step_waiting",
];

fn csv_row(summary: &Summary, point: &PointSummary) -> [String; CSV_COLUMNS.len()] {
    let of = &point.point;
    let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    let speed = point.speed;
    let part = |of: fn(StepShares) -> f64| number(point.step.map(of));
    [
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
        number(point.predicted),
        number(point.exchange),
        number(point.input),
        number(summary.input_overhead(point)),
        point.is_best.to_string(),
        part(|s| s.compute),
        part(|s| s.exchange),
        part(|s| s.input),
        part(|s| s.waiting),
    ]
}

/// All results.
pub(super) fn json(results: &Results) -> Value {
    let mut points = Vec::new();
    for system in &results.systems {
        for point in &system.summary.points {
            let mut all = json_point(&system.summary, point);
            if !system.name.is_empty() {
                all["system"] = json!(system.name);
            }
            points.push(all);
        }
    }
    let scaling = match results.scaling {
        Scaling::Weak => "weak",
        Scaling::Strong => "strong",
    };
    let load = results
        .loads
        .map(|[least, most]| json!({ "least": least, "most": most }));
    json!({
        "study": results.study, "scaling": scaling, "machine": results.machine.json(), "load": load, "points": points,
    })
}

fn json_point(summary: &Summary, point: &PointSummary) -> Value {
    let speed = point.speed.map(|s| {
        json!({
            "mean": s.mean, "median": s.median, "least": s.least, "most": s.most, "values": point.runs,
            "confidence_95": s.confidence, "runs": s.count, "outliers": s.outliers,
        })
    });
    let mut all = json!(point.point);
    all["images_per_second"] = json!(speed);
    all["ideal"] = json!(point.ideal);
    all["efficiency"] = json!(point.efficiency());
    all["predicted"] = json!(point.predicted);
    all["exchange"] = json!(point.exchange);
    all["input"] = json!(point.input);
    all["step"] = json!(point.step);
    all["io_overhead"] = json!(summary.input_overhead(point));
    all["best_servers"] = json!(point.is_best);
    all["failures"] = json!(point.failures);
    all
}
