//! Results as a table or as lines of JSON; median and spread of measurements.

use crate::output;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

/// One measured value.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// Name of the workload: `deep_mnist_train_NHWC`.
    pub workload: &'a str,
    /// Examples of one step.
    pub batch: usize,
    /// The value.
    pub value: f64,
    /// Its unit: `images/s`, `us/step`, `fraction`.
    pub unit: &'a str,
}

impl Outcome<'_> {
    /// The outcome as one line of JSON; a value that is not finite becomes `null`.
    pub fn json(&self) -> String {
        // A `Value::Object` would sort the keys: they stay in the order of the fields.
        format!(
            r#"{{"workload":{},"batch":{},"value":{},"unit":{}}}"#,
            Value::from(self.workload),
            self.batch,
            Value::from(self.value),
            Value::from(self.unit),
        )
    }
}

/// Prints results (workload, value, unit) as a table, or as lines of JSON.
pub fn print(json: bool, batch: usize, results: &[(&str, f64, &str)]) {
    if !json {
        let rows = results.iter().map(|&(workload, value, unit)| {
            [workload.to_owned(), format!("{value:.4}"), unit.to_owned()]
        });
        output::line(table(["workload", "value", "unit"], rows));
        return;
    }
    for &(workload, value, unit) in results {
        let outcome = Outcome {
            workload,
            batch,
            value,
            unit,
        };
        output::line(outcome.json());
    }
}

/// Statistics of a set of measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value; the mean of both for an even number of values.
    pub median: f64,
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean; 0 for a single value.
    pub error: f64,
    /// The median distance from the median, times 1.4826: the standard deviation of
    /// values that are normally distributed, without the weight of outliers.
    pub jitter: f64,
}

impl Spread {
    /// The spread of `values`; none when there are no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let median = median(values.to_vec())?;
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let error = if values.len() > 1 {
            (squares / (n - 1.0) / n).sqrt()
        } else {
            0.0
        };
        let distances = values.iter().map(|v| (v - median).abs()).collect();
        Some(Spread {
            median,
            mean,
            error,
            jitter: 1.4826 * self::median(distances)?,
        })
    }
}

/// The middle value; the mean of both for an even number of values, none for none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let (low, high) = (values.get(n.checked_sub(1)? / 2)?, values.get(n / 2)?);
    Some((low + high) / 2.0)
}

/// A table with a header; the first column is text, the others hold numbers.
pub fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(header)
        .add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
