//! The learning rate: the model's, or that of the flags.

use thalweg::models::Rate;
use thalweg::prelude::*;
use thalweg::train::{Rate as Learning, schedules::piecewise_constant};

use crate::flags::OptimizerFlags;
use crate::settings::Settings;

/// Warm-up epochs of residual networks.
const RESIDUAL_WARMUP: f64 = 5.0;
/// Global batch size that the base rate of residual networks is for.
const RESIDUAL_BATCH: f64 = 256.0;

/// A piecewise constant schedule. Each rate holds until its epoch; the last one holds from then on.
#[derive(Debug, PartialEq)]
struct Piecewise {
    until: Vec<(f64, f64)>,
    last: f64,
}

/// The learning rate as a function of the global step.
pub fn rate<'g>(settings: &Settings, step: Variable<'g>) -> Learning<'g> {
    let flags = &settings.flags.training;
    let images = settings.model.data.images() as f64;
    // Workers out of step count each of their steps.
    let in_a_step = match settings.in_step() {
        true => settings.global_batch(),
        false => settings.worker_batch(),
    };
    let steps = move |epochs: f64| epochs * images / in_a_step as f64;
    let warmup = flags.num_learning_rate_warmup_epochs;
    let warmed = |rate: Learning<'g>, epochs: f64| match steps(epochs) as u32 {
        0 => rate,
        steps => linear_warmup(rate, step, steps, 0.0).into(),
    };
    if let Some(text) = &flags.piecewise_learning_rate_schedule {
        // `check` has parsed it before.
        let pieces = parse_schedule(text).unwrap_or(Piecewise {
            until: Vec::new(),
            last: 0.0,
        });
        return pieces.on(step, steps);
    }
    if let Some(initial) = flags.init_learning_rate {
        return warmed(decayed(flags, initial, step, steps), warmup);
    }
    match settings.model.rate {
        Rate::Constant(rate) => warmed((rate as f32).into(), warmup),
        Rate::Decayed {
            rate,
            factor,
            epochs,
        } => {
            let every = steps(epochs as f64).max(1.0) as u32;
            let falls = exponential_decay(rate as f32, step.value(), every, factor as f32, true);
            warmed(falls.into(), warmup)
        }
        Rate::Steps(until, last) => {
            let until = until
                .iter()
                .map(|&(rate, epochs)| (rate, epochs as f64))
                .collect();
            warmed(Piecewise { until, last }.on(step, steps), warmup)
        }
        Rate::Residual(base) => {
            let base = flags.resnet_base_lr.unwrap_or(base);
            let rate = base * settings.global_batch() as f64 / RESIDUAL_BATCH;
            let falls = [30.0, 60.0, 80.0, 90.0].into_iter().zip(0..);
            let until = falls
                .map(|(epochs, n)| (rate * 0.1f64.powi(n), epochs))
                .collect();
            let last = rate * 1e-4;
            warmed(Piecewise { until, last }.on(step, steps), RESIDUAL_WARMUP)
        }
    }
}

/// A constant rate, or one with exponential decay.
fn decayed<'g>(
    flags: &OptimizerFlags,
    initial: f64,
    step: Variable<'g>,
    steps: impl Fn(f64) -> f64,
) -> Learning<'g> {
    if flags.num_epochs_per_decay == 0.0 {
        return (initial as f32).into();
    }
    let every = steps(flags.num_epochs_per_decay).max(1.0) as u32;
    let factor = flags.learning_rate_decay_factor as f32;
    let rate = exponential_decay(initial as f32, step.value(), every, factor, true);
    match flags.minimum_learning_rate {
        0.0 => rate.into(),
        least => rate.maximum(least as f32).into(),
    }
}

impl Piecewise {
    fn on<'g>(&self, step: Variable<'g>, steps: impl Fn(f64) -> f64) -> Learning<'g> {
        let bounds: Vec<i64> = self
            .until
            .iter()
            .map(|&(_, epochs)| steps(epochs) as i64 - 1)
            .collect();
        // An epoch limit below one step never takes effect.
        let mut rates: Vec<f32> = self.until.iter().map(|&(rate, _)| rate as f32).collect();
        rates.push(self.last as f32);
        let mut kept: Vec<i64> = Vec::new();
        let mut values = vec![rates[0]];
        for (&bound, &rate) in bounds.iter().zip(&rates[1..]) {
            if kept.last().is_none_or(|&last| last < bound) {
                kept.push(bound);
                values.push(rate);
            } else if let Some(last) = values.last_mut() {
                *last = rate;
            }
        }
        piecewise_constant(step, &kept, &values).into()
    }
}

/// Parses `rate;passes;rate;...;rate`.
///
/// # Errors
/// A message about text of another form.
fn parse_schedule(text: &str) -> Result<Piecewise, String> {
    let wrong = |why: &str| format!("--piecewise_learning_rate_schedule={text}: {why}");
    let words: Vec<&str> = text.split(';').collect();
    if words.len().is_multiple_of(2) {
        return Err(wrong(
            "give an odd number of parts: rate;passes;rate;...;rate",
        ));
    }
    let rate = |word: &str| {
        let rate = word
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|r| r.is_finite() && *r >= 0.0);
        rate.ok_or_else(|| wrong(&format!("'{word}' is no rate")))
    };
    let mut until = Vec::new();
    for pair in words[..words.len() - 1].chunks(2) {
        let epochs = pair[1].trim().parse::<u32>();
        let epochs =
            epochs.map_err(|_| wrong(&format!("'{}' is no number of whole passes", pair[1])))?;
        until.push((rate(pair[0])?, f64::from(epochs)));
    }
    if !until.is_sorted_by(|a, b| a.1 < b.1) {
        return Err(wrong("passes grow from part to part"));
    }
    Ok(Piecewise {
        until,
        last: rate(words[words.len() - 1])?,
    })
}

/// # Errors
/// A schedule that cannot be read.
pub fn check_schedule(flags: &OptimizerFlags) -> Result<(), String> {
    let text = flags.piecewise_learning_rate_schedule.as_deref();
    text.map_or(Ok(()), |text| parse_schedule(text).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_alternates_rates_and_epochs() {
        let found = parse_schedule("0.3;10;0.2;25;0.1").unwrap();
        assert_eq!(found.until, [(0.3, 10.0), (0.2, 25.0)]);
        assert_eq!(found.last, 0.1);
        for (text, why) in [
            ("0.3;10", "an odd number of parts"),
            ("", "'' is no rate"),
            ("x", "'x' is no rate"),
            ("0.3;1.5;0.2", "'1.5' is no number of whole passes"),
            ("0.3;9;0.2;9;0.1", "passes grow"),
            ("-1", "'-1' is no rate"),
        ] {
            assert!(parse_schedule(text).unwrap_err().contains(why), "{text}");
        }
    }
}
