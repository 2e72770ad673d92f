//! Output of steps and results: tf_cnn_benchmarks' lines, or JSON.

use std::fmt::Display;

use serde_json::json;
use thalweg::tensor::text::counted;
use thalweg_examples::output;
use thalweg_examples::progress::Progress;

use crate::flags::LossType;
use crate::settings::{Mode, Settings};
use crate::step_time::StepTime;
use crate::throughput::Throughput;

/// Loss, top-1 accuracy and top-5 accuracy of a step.
pub type StepValues = [f32; 3];

/// Input from files over the measured steps.
pub struct InputReport {
    /// Share of the time in which steps waited for images.
    pub share: f64,
    /// Threads that made batches.
    pub threads: usize,
    /// Number of files.
    pub files: usize,
}

/// Prints steps and results.
pub struct Printer {
    pub json: bool,
    /// `false` on all ranks but the first: they print nothing.
    pub shown: bool,
    loss: &'static str,
    /// Adds columns of the accuracies.
    accuracy: bool,
}

impl Printer {
    pub fn new(settings: &Settings, shown: bool) -> Printer {
        Printer {
            shown,
            json: settings.flags.extensions.json,
            loss: match settings.flags.run.loss_type_to_report {
                LossType::TotalLoss => "total_loss",
                LossType::BaseLoss => "base_loss",
            },
            accuracy: settings.flags.run.print_training_accuracy || settings.mode != Mode::Train,
        }
    }

    /// Prints a line of text; nothing with `--json`.
    pub fn say(&self, line: impl Display) {
        if !self.json && self.shown {
            output::line(line);
        }
    }

    /// Prints the names of the columns.
    pub fn columns(&self) {
        let accuracy = match self.accuracy {
            true => "\ttop_1_accuracy\ttop_5_accuracy",
            false => "",
        };
        self.say(format_args!("Step\tImg/sec\t{}{accuracy}", self.loss));
    }

    /// Prints a step, and the speed so far.
    pub fn step(&self, progress: &Progress, step: u64, speed: &Throughput, values: StepValues) {
        let Some(summary) = speed.summary().filter(|_| self.shown) else {
            return;
        };
        let [loss, first, five] = values;
        if self.json {
            return output::line(json!({
                "step": step, "images_per_sec": summary.mean, "uncertainty": summary.uncertainty,
                "jitter": summary.jitter, self.loss: loss,
                "top_1_accuracy": self.accuracy.then_some(first),
                "top_5_accuracy": self.accuracy.then_some(five),
            }));
        }
        let mut line = format!(
            "{step}\timages/sec: {:.1} +/- {:.1} (jitter = {:.1})\t{loss:.3}",
            summary.mean, summary.uncertainty, summary.jitter
        );
        if self.accuracy {
            line += &format!("\t{first:.3}\t{five:.3}");
        }
        progress.line(&line);
    }

    /// Prints an evaluation's accuracies.
    pub fn accuracy(&self, [first, five]: [f64; 2], images: usize) {
        if !self.shown {
            return;
        }
        if self.json {
            return output::line(json!({
                "accuracy_at_1": first, "accuracy_at_5": five, "examples": images,
            }));
        }
        output::line(format_args!(
            "Accuracy @ 1 = {first:.4} Accuracy @ 5 = {five:.4} [{images} examples]"
        ));
    }

    /// Prints the speed over all steps, the shares of a traced step, and that of all steps in which they waited for images
    /// from files.
    pub fn total(&self, speed: f64, step_times: &[(u64, StepTime)], input: Option<InputReport>) {
        if !self.shown {
            return;
        }
        if self.json {
            let shares = StepTime::median_shares(step_times);
            return output::line(json!({
                "total_images_per_sec": speed, "exchange_part": shares.map(|s| s.exchange),
                "step_parts": shares.map(StepTime::to_json),
                "input_part": input.as_ref().map(|input| input.share),
                "input_threads": input.as_ref().map(|input| input.threads),
            }));
        }
        let dashes = "-".repeat(64);
        output::line(format_args!(
            "{dashes}\ntotal images/sec: {speed:.2}\n{dashes}"
        ));
        if let Some(input) = input {
            output::line(format_args!(
                "waited for input: {:.1}% of the time ({}, {})",
                100.0 * input.share,
                counted(input.files, "file"),
                counted(input.threads, "thread")
            ));
        }
    }
}
