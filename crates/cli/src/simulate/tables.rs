//! Predictions as text and as JSON.

use serde_json::{Value, json};
use thalweg_simulate::{Candidate, Cluster, Prediction, best};

use super::modes::ModePredictions;
use crate::table::table;

/// Tables of the best step of each mode and of the numbers of servers, and an answer.
pub(super) fn text(all: &[ModePredictions], ideal: f64, workers: u32, cluster: &Cluster) -> String {
    let mut text = format!("{workers} workers on {}, predicted\n\n", cluster.name);
    let rows = all.iter().filter_map(|own| {
        let best = own.best()?;
        let mut row = vec![own.name(), servers(best)];
        row.extend(cells(&best.prediction, ideal));
        row.push(format!("{:.1}", best.prediction.bytes / 1e6));
        row.push(best.prediction.spent_on());
        Some(row)
    });
    let head = [
        "mode",
        "servers",
        "images/s",
        "efficiency",
        "step, ms",
        "MB between hosts",
        "a step is spent on",
    ];
    text += &table(&head, rows.collect(), &[1, 2, 3, 4, 5]);
    text += "Efficiency is that to workers which only compute.\n\n";
    for own in all.iter().filter(|own| own.candidates.len() > 1) {
        text += &format!(
            "{} by the number of servers; *: the fewest within 1% of the fastest\n\n",
            own.name()
        );
        let chosen = best(&own.candidates).map(|c| c.servers);
        let rows = own.candidates.iter().map(|candidate| {
            let star = if Some(candidate.servers) == chosen {
                "*"
            } else {
                ""
            };
            let mut row = vec![format!("{}{star}", candidate.servers)];
            row.extend(cells(&candidate.prediction, ideal));
            row.push(candidate.prediction.spent_on());
            row
        });
        let head = [
            "servers",
            "images/s",
            "efficiency",
            "step, ms",
            "a step is spent on",
        ];
        text += &table(&head, rows.collect(), &[0, 1, 2, 3]);
    }
    text + &answer(all)
}

/// Recommended mode, and the reason.
fn answer(all: &[ModePredictions]) -> String {
    let best = all.iter().filter_map(|own| Some((own, own.best()?)));
    let fastest = best.max_by(|a, b| speed(a.1).total_cmp(&speed(b.1)));
    let Some((own, candidate)) = fastest else {
        return String::new();
    };
    let with = match candidate.servers {
        0 => String::new(),
        1 => " with 1 server".to_owned(),
        servers => format!(" with {servers} servers"),
    };
    let (resource, share) = &candidate.prediction.busiest;
    format!(
        "The fastest is {}{with}: {:.0} images/s. The busiest resource is {resource}, for {:.0}% of a step.\n",
        own.name(),
        speed(candidate),
        100.0 * share
    )
}

fn speed(candidate: &Candidate) -> f64 {
    candidate.prediction.images_per_second
}

fn servers(candidate: &Candidate) -> String {
    match candidate.servers {
        0 => "-".to_owned(),
        servers => servers.to_string(),
    }
}

fn cells(prediction: &Prediction, ideal: f64) -> [String; 3] {
    [
        format!("{:.1}", prediction.images_per_second),
        format!("{:.1}%", 100.0 * prediction.images_per_second / ideal),
        format!("{:.1}", 1e3 * prediction.seconds),
    ]
}

/// Everything, for programs. Times are seconds.
pub(super) fn json(all: &[ModePredictions], ideal: f64, workers: u32) -> Value {
    let candidate = |candidate: &Candidate| {
        let prediction = &candidate.prediction;
        let path = prediction.path.iter();
        let path: Vec<Value> = path
            .map(|(of, seconds)| json!({"use": of.name(), "seconds": seconds}))
            .collect();
        json!({
            "servers": candidate.servers,
            "images_per_second": prediction.images_per_second,
            "efficiency": prediction.images_per_second / ideal,
            "step_seconds": prediction.seconds,
            "bytes_between_hosts": prediction.bytes,
            "critical_path": path,
            "busiest": {"resource": prediction.busiest.0, "share": prediction.busiest.1},
        })
    };
    let modes = all.iter().map(|own| {
        json!({
            "mode": own.mode.name(),
            "staged": own.staged,
            "best_servers": own.best().map(|c| c.servers),
            "candidates": own.candidates.iter().map(candidate).collect::<Vec<Value>>(),
        })
    });
    json!({
        "workers": workers,
        "ideal_images_per_second": ideal,
        "modes": modes.collect::<Vec<Value>>(),
    })
}
