//! Throughput of the measured steps: mean, uncertainty, jitter.

use std::time::Duration;

use thalweg_examples::report::median;

/// The speed of the measured steps of one worker.
pub struct Throughput {
    /// Images of a step.
    batch: f64,
    /// Weight of the past in an exponential moving average; `None` for a plain mean.
    smooth: Option<f64>,
    /// Seconds of each step.
    pub steps: Vec<f64>,
}

/// Statistics in images a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub mean: f64,
    /// Standard error of the mean.
    pub uncertainty: f64,
    pub jitter: f64,
}

impl Throughput {
    pub fn new(batch: usize, smooth: Option<f64>) -> Throughput {
        Throughput {
            batch: batch as f64,
            smooth,
            steps: Vec::new(),
        }
    }

    pub fn add(&mut self, took: Duration) {
        self.steps.push(took.as_secs_f64().max(1e-9));
    }

    /// Statistics of all steps so far; `None` before the first step.
    pub fn summary(&self) -> Option<Summary> {
        let n = self.steps.len() as f64;
        let weight = |k: usize| match self.smooth {
            Some(past) => past.powi((self.steps.len() - 1 - k) as i32),
            None => 1.0,
        };
        let weights: f64 = (0..self.steps.len()).map(weight).sum();
        let time: f64 = self
            .steps
            .iter()
            .enumerate()
            .map(|(k, s)| s * weight(k))
            .sum();
        let speeds: Vec<f64> = self.steps.iter().map(|s| self.batch / s).collect();
        let middle = median(speeds.clone())?;
        let own_mean = speeds.iter().sum::<f64>() / n;
        let variance = speeds.iter().map(|s| (s - own_mean).powi(2)).sum::<f64>() / n;
        let far = speeds.iter().map(|s| (s - middle).abs()).collect();
        Some(Summary {
            mean: self.batch / (time / weights),
            uncertainty: (variance / n).sqrt(),
            jitter: 1.4826 * median(far)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_covers_all_steps_so_far() {
        let mut speed = Throughput::new(10, None);
        assert_eq!(speed.summary(), None);
        for seconds in [1.0, 2.0, 5.0] {
            speed.add(Duration::from_secs_f64(seconds));
        }
        let found = speed.summary().unwrap();
        // 30 images in 8 s; speeds of 10, 5 and 2.
        assert_eq!(found.mean, 3.75);
        assert!((found.uncertainty - (98.0f64 / 9.0 / 3.0).sqrt()).abs() < 1e-12);
        assert!((found.jitter - 1.4826 * 3.0).abs() < 1e-12);
        // The newest step counts twice as much as the one before it.
        let mut smooth = Throughput::new(10, Some(0.5));
        smooth.steps = speed.steps;
        assert!((smooth.summary().unwrap().mean - 10.0 / (6.25 / 1.75)).abs() < 1e-12);
    }
}
