//! Table of a study.

use serde_json::{Value, json};
use thalweg_study::SampleStatistics;

use super::input::Input;
use crate::table::table;

/// Results of all rounds.
pub(super) struct Report {
    command: String,
    pub(super) rows: Vec<Row>,
}

/// Result of a kind of input over the rounds.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) state: &'static str,
    /// Images per second: the smallest, the median, the largest.
    pub(super) speed: [f64; 3],
    /// 1 - images/s / images/s of synthetic images: the smallest, the median, the largest of the rounds.
    pub(super) overhead: [f64; 3],
    /// Median share of the time in which steps waited.
    waited: Option<f64>,
    /// Median of the bytes from disk.
    disk_bytes: Option<f64>,
}

impl Report {
    /// The first input is the one of synthetic images.
    pub(super) fn new(command: &[String], inputs: Vec<Input>) -> Report {
        let speeds = |input: &Input| -> Vec<f64> {
            let all = input.measurements.iter();
            all.map(|m| m.speed.images_per_second).collect()
        };
        let synthetic = inputs.first().map(speeds).unwrap_or_default();
        let rows = inputs.iter().map(|input| {
            let own = speeds(input);
            let overhead = own
                .iter()
                .zip(&synthetic)
                .map(|(own, base)| 1.0 - own / base);
            let waited: Vec<f64> = input
                .measurements
                .iter()
                .filter_map(|m| m.speed.input)
                .collect();
            let disk = input.measurements.iter().filter_map(|m| m.disk_bytes);
            Row {
                name: input.name,
                state: match input.name {
                    "synthetic" => "",
                    _ => input.state.name(),
                },
                overhead: spread(&overhead.collect::<Vec<_>>()).unwrap_or_default(),
                speed: spread(&own).unwrap_or_default(),
                waited: spread(&waited).map(|[_, median, _]| median),
                disk_bytes: spread(&disk.map(|n| n as f64).collect::<Vec<_>>())
                    .map(|[_, median, _]| median),
            }
        });
        Report {
            command: command.join(" "),
            rows: rows.collect(),
        }
    }

    /// Name of the measured model, if the command has one.
    pub(super) fn title(&self) -> String {
        let model = self
            .command
            .split(' ')
            .find_map(|a| a.strip_prefix("--model="));
        match model {
            Some(model) => format!("Cost of input: {model}"),
            None => "Cost of input".to_owned(),
        }
    }

    pub(super) fn text(&self) -> String {
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let rows = self.rows.iter().map(|row| {
            let [least, median, most] = row.speed;
            let [low, overhead, high] = row.overhead;
            let overhead = match row.state {
                "" => [String::new(), String::new()],
                _ => [
                    percent(overhead),
                    format!("{} to {}", percent(low), percent(high)),
                ],
            };
            let [overhead, range] = overhead;
            vec![
                row.name.to_owned(),
                row.state.to_owned(),
                format!("{median:.1}"),
                format!("{least:.1} to {most:.1}"),
                overhead,
                range,
                row.waited.map(percent).unwrap_or_default(),
                row.disk_bytes
                    .map(|bytes| format!("{:.0}", bytes / 1e6))
                    .unwrap_or_default(),
            ]
        });
        let head = [
            "input",
            "files",
            "images/s",
            "range",
            "overhead",
            "range",
            "waited",
            "MB from disk",
        ];
        table(&head, rows.collect(), &[2, 3, 4, 5, 6, 7])
    }

    pub(super) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "input": row.name, "files": row.state, "images_per_sec": row.speed, "overhead": row.overhead,
                "waited": row.waited, "disk_bytes": row.disk_bytes,
            })
        });
        json!({"command": self.command, "inputs": rows.collect::<Vec<_>>()})
    }
}

/// The smallest, the median and the largest value; `None` of no values.
fn spread(values: &[f64]) -> Option<[f64; 3]> {
    SampleStatistics::of(values).map(|of| [of.least, of.median, of.most])
}

#[cfg(test)]
mod tests {
    use super::super::page_cache::CacheState;
    use super::super::program::Measurement;
    use super::*;
    use thalweg_study::Speed;

    #[test]
    fn overhead_is_against_synthetic_images_of_the_same_round() {
        let input = |name, speeds: [f64; 3]| Input {
            name,
            folder: None,
            state: CacheState::Cold,
            measurements: speeds
                .map(|images_per_second| Measurement {
                    speed: Speed {
                        images_per_second,
                        exchange: None,
                        input: Some(0.25),
                        step: None,
                    },
                    disk_bytes: Some(2_000_000),
                })
                .to_vec(),
        };
        let inputs = vec![
            input("synthetic", [100.0, 50.0, 200.0]),
            input("LMDB", [90.0, 40.0, 200.0]),
        ];
        let report = Report::new(&["a".to_owned(), "--model=b".to_owned()], inputs);
        let row = &report.rows[1];
        assert_eq!(row.speed, [40.0, 90.0, 200.0]);
        let percent = row.overhead.map(|share| (share * 100.0).round());
        assert_eq!(percent, [0.0, 10.0, 20.0]);
        assert_eq!(report.title(), "Cost of input: b");
        let text = report.text();
        for cell in ["LMDB", "cold", "90.0", "10.0%", "0.0% to 20.0%", "25.0%"] {
            assert!(text.contains(cell), "{cell}: {text}");
        }
    }
}
