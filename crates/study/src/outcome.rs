//! Outcomes of runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::statistics::SampleStatistics;

/// Speed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Images per second of all tasks.
    pub images_per_second: f64,
    /// Share of a step in which it exchanges values with other tasks, if the program tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<f64>,
    /// Share of a step in which it waits for input, if the program tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// The run has ended well.
    Speed(Speed),
    /// It has failed.
    Error {
        /// The reason.
        error: String,
    },
}

impl Speed {
    /// Speed that a program has printed: as objects of JSON (`cnn_benchmarks --json`), or as the line `total images/sec: N` of
    /// tf_cnn_benchmarks. Names of tasks before lines are passed over. Each worker of a cluster tells the speed of all: the result
    /// is the mean of what they tell. `None` without a positive number.
    ///
    /// ```
    /// use thalweg_study::Speed;
    ///
    /// let speed = Speed::of_output("worker 0 | total images/sec: 54.75\n").unwrap();
    /// assert_eq!((speed.images_per_second, speed.exchange), (54.75, None));
    /// ```
    pub fn of_output(text: &str) -> Option<Speed> {
        let lines = text.lines();
        let lines = lines.map(|line| line.split_once(" | ").map_or(line, |(_task, rest)| rest));
        let lines: Vec<&str> = lines.collect();
        let speed = match of_objects(&lines) {
            Some(speed) => speed,
            None => of_text(&lines)?,
        };
        let rate = speed.images_per_second;
        (rate.is_finite() && rate > 0.0).then_some(speed)
    }
}

fn of_objects(lines: &[&str]) -> Option<Speed> {
    let objects: Vec<Value> = lines
        .iter()
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|object: &Value| object["total_images_per_sec"].is_number())
        .collect();
    let numbers = |name: &str| mean(objects.iter().filter_map(|o| o[name].as_f64()).collect());
    Some(Speed {
        images_per_second: numbers("total_images_per_sec")?,
        exchange: numbers("exchange_part"),
        input: numbers("input_part"),
    })
}

fn of_text(lines: &[&str]) -> Option<Speed> {
    let after = |start: &str| -> Vec<&str> {
        let all = lines.iter();
        all.filter_map(|line| line.strip_prefix(start)).collect()
    };
    let rates = after("total images/sec: ").into_iter();
    let waits = after("waited for input: ").into_iter();
    let share = |text: &str| Some(text.split_once('%')?.0.parse::<f64>().ok()? / 100.0);
    Some(Speed {
        images_per_second: mean(rates.filter_map(|rate| rate.trim().parse().ok()).collect())?,
        exchange: None,
        input: mean(waits.filter_map(share).collect()),
    })
}

fn mean(values: Vec<f64>) -> Option<f64> {
    SampleStatistics::of(&values).map(|of| of.mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_the_mean_of_what_the_workers_tell() {
        let text = "    ps 0 | {\"total_images_per_sec\":null}\n worker 0 | {\"exchange_part\":0.2,\"total_images_per_sec\":10.0}\n \
                    worker 1 | {\"exchange_part\":0.4,\"total_images_per_sec\":12.0}\nno json\n{\"step\":1}\n";
        let speed = Speed::of_output(text).unwrap();
        assert_eq!((speed.images_per_second, speed.input), (11.0, None));
        assert!((speed.exchange.unwrap() - 0.3).abs() < 1e-12);
        for wrong in [
            "",
            "{}",
            "{\"total_images_per_sec\":0.0}",
            "{\"total_images_per_sec\":",
        ] {
            assert_eq!(Speed::of_output(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lines_of_text_tell_the_speed_and_the_wait() {
        let line = "----\ntotal images/sec: 54.75\n----\n";
        let wait = "waited for input: 0.1% of the time (4 files, 1 thread)\n";
        assert_eq!(Speed::of_output(line).unwrap().input, None);
        let speed = Speed::of_output(&format!("{line}{wait}")).unwrap();
        assert_eq!((speed.images_per_second, speed.input), (54.75, Some(0.001)));
        for wrong in ["nan", "0", "-1", "x", "inf"] {
            let line = format!("total images/sec: {wrong}");
            assert_eq!(Speed::of_output(&line), None, "{wrong}");
        }
    }
}
