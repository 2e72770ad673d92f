//! Outcomes of runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::statistics::SampleStatistics;

/// Shares of a step's time by activity, whose sum is 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepShares {
    /// A device of the task computes.
    pub compute: f64,
    /// No device computes, and values are sent or received.
    pub exchange: f64,
    /// The program makes or awaits images.
    pub input: f64,
    /// The rest: devices wait for each other or for the program.
    pub waiting: f64,
}

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
    /// Shares of a traced step, if the program traces one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepShares>,
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

impl StepShares {
    /// Means of several steps' shares; `None` for no step.
    pub fn mean(steps: &[StepShares]) -> Option<StepShares> {
        let part = |of: fn(&StepShares) -> f64| mean(steps.iter().map(of).collect());
        Some(StepShares {
            compute: part(|s| s.compute)?,
            exchange: part(|s| s.exchange)?,
            input: part(|s| s.input)?,
            waiting: part(|s| s.waiting)?,
        })
    }

    /// The activities' names and shares.
    pub fn parts(&self) -> [(&'static str, f64); 4] {
        [
            ("compute", self.compute),
            ("exchange", self.exchange),
            ("input", self.input),
            ("waiting", self.waiting),
        ]
    }
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
        let lines = printed_lines(text);
        let speed = match of_objects(text) {
            Some(speed) => speed,
            None => of_text(&lines)?,
        };
        let rate = speed.images_per_second;
        (rate.is_finite() && rate > 0.0).then_some(speed)
    }
}

/// Lines of a launched program, without the names of tasks before them.
fn printed_lines(text: &str) -> Vec<&str> {
    let lines = text.lines();
    let lines = lines.map(|line| line.split_once(" | ").map_or(line, |(_task, rest)| rest));
    lines.collect()
}

/// Objects of JSON that a program has printed, one a line. Names of tasks before lines are passed over, and so are other lines.
///
/// ```
/// let text = "rank 0 | {\"a\":1}\nready\n{\"a\":2}\n";
/// let numbers: Vec<i64> = thalweg_study::printed_objects(text).iter().filter_map(|o| o["a"].as_i64()).collect();
/// assert_eq!(numbers, [1, 2]);
/// ```
pub fn printed_objects(text: &str) -> Vec<Value> {
    let lines = printed_lines(text).into_iter();
    let lines = lines.filter(|line| line.starts_with('{'));
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn of_objects(text: &str) -> Option<Speed> {
    let mut objects = printed_objects(text);
    objects.retain(|object| object["total_images_per_sec"].is_number());
    let steps: Vec<StepShares> = objects
        .iter()
        .filter_map(|o| StepShares::deserialize(&o["step_parts"]).ok())
        .collect();
    let numbers = |name: &str| mean(objects.iter().filter_map(|o| o[name].as_f64()).collect());
    Some(Speed {
        images_per_second: numbers("total_images_per_sec")?,
        exchange: numbers("exchange_part"),
        input: numbers("input_part"),
        step: StepShares::mean(&steps),
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
        step: None,
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
    fn shares_of_steps_are_the_means_of_what_the_workers_tell() {
        let line = |compute: f64, waiting: f64| {
            format!(
                "{{\"total_images_per_sec\":1.0,\"step_parts\":{{\"compute\":{compute},\"exchange\":0.25,\"input\":0.0,\
                 \"waiting\":{waiting}}}}}\n"
            )
        };
        let speed = Speed::of_output(&(line(0.25, 0.5) + &line(0.75, 0.0))).unwrap();
        let parts = speed.step.unwrap().parts();
        assert_eq!(parts.map(|(_, share)| share), [0.5, 0.25, 0.0, 0.25]);
        let wrong = "{\"total_images_per_sec\":1.0,\"step_parts\":{\"compute\":1.0}}";
        assert_eq!(Speed::of_output(wrong).unwrap().step, None);
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
