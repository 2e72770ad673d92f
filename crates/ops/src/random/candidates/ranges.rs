//! Distributions over the classes from 0 on: uniform, log-uniform.

use thalweg_device::KernelError;

use super::simple_philox::SimplePhilox;

/// A distribution over classes `0..range`.
pub(super) trait Distribution {
    /// Draws a class.
    fn sample(&self, numbers: &mut SimplePhilox<'_>) -> i64;

    /// Probability of a class.
    fn probability(&self, class: i64) -> f32;
}

/// Number of classes that a node asks for.
///
/// # Errors
/// It is not positive.
pub(super) fn check_range(range: i64) -> Result<i64, KernelError> {
    match range > 0 {
        true => Ok(range),
        false => Err(KernelError::Invalid(format!(
            "there must be at least one class, and range_max is {range}"
        ))),
    }
}

/// All classes are alike.
pub(super) struct Uniform {
    pub(super) range: i64,
}

impl Distribution for Uniform {
    fn sample(&self, numbers: &mut SimplePhilox<'_>) -> i64 {
        numbers.below_wide(self.range as u64) as i64
    }

    fn probability(&self, _: i64) -> f32 {
        (1.0 / self.range as f64) as f32
    }
}

/// The logarithm of a class's number is uniform: Zipf's law for words in the order of their frequency.
pub(super) struct LogUniform {
    range: i64,
    log_range: f64,
}

impl LogUniform {
    pub(super) fn new(range: i64) -> LogUniform {
        LogUniform {
            range,
            log_range: (range as f64).ln_1p(),
        }
    }
}

impl Distribution for LogUniform {
    fn sample(&self, numbers: &mut SimplePhilox<'_>) -> i64 {
        let drawn = (numbers.double() * self.log_range).exp();
        // Rounding may reach the range itself.
        (drawn as i64).saturating_sub(1) % self.range
    }

    fn probability(&self, class: i64) -> f32 {
        let class = class as f64;
        (((class + 2.0) / (class + 1.0)).ln() / self.log_range) as f32
    }
}
