//! Stragglers: workers that compute slower than others.

/// Factor on the computing time of a worker among so many, whose times have this standard deviation as a share of their mean.
///
/// The times are the quantiles of a normal distribution, so that the slowest of n is about as slow as the slowest of n draws, and
/// a simulation gives the same result again.
pub(super) fn factor(worker: u32, workers: u32, straggling: f64) -> f64 {
    // Blom's approximation of the expected order statistics (1958).
    let quantile = (f64::from(worker) + 1.0 - 0.375) / (f64::from(workers) + 0.25);
    (1.0 + straggling * normal_quantile(quantile)).max(0.0)
}

/// Quantile of the standard normal distribution, for 0 < p < 1, by bisection of its distribution function.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if normal_share(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Share of the standard normal distribution below x: Zelen and Severo's approximation (Abramowitz and Stegun, 26.2.17), within
/// 7.5e-8.
fn normal_share(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let factors = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_530,
    ];
    let sum = factors.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let tail = density * sum;
    if x >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_many_is_as_slow_as_tables_of_order_statistics_say() {
        // Expected maxima of n standard normal draws (Harter, 1961).
        for (workers, expected) in [(1, 0.0), (2, 0.564), (8, 1.424), (64, 2.343), (128, 2.594)] {
            let slowest = factor(workers - 1, workers, 0.1);
            assert!(
                (slowest - 1.0 - 0.1 * expected).abs() < 3e-3,
                "{workers}: {slowest}"
            );
        }
        assert_eq!(factor(3, 8, 0.0), 1.0);
    }
}
