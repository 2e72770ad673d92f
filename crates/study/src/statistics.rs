//! Statistics of the runs of a point.

/// Student's t for a two-sided confidence of 95%, by degrees of freedom from 1 on. Source: Abramowitz and Stegun, table 26.10.
const STUDENT_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for more degrees of freedom: that of the normal distribution.
const NORMAL_95: f64 = 1.960;
/// Ratio of the median absolute deviation and the standard deviation of a normal distribution.
const DEVIATION_RATIO: f64 = 0.6745;
/// Modified z-score from which a run is an outlier. Source: Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993).
const OUTLIER_SCORE: f64 = 3.5;
/// Minimum number of runs among which an outlier can be told.
const ENOUGH: usize = 5;

/// Statistics of a sample, such as the runs of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleStatistics {
    /// Number of values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Smallest value.
    pub least: f64,
    /// Largest value.
    pub most: f64,
    /// Median distance from the median.
    pub spread: f64,
    /// Half of the interval that has the true mean with a confidence of 95%, if values are normal; `None` for one value.
    pub confidence: Option<f64>,
    /// Number of values that are outliers by their distance from the median. The mean has them.
    pub outliers: usize,
}

impl SampleStatistics {
    /// Statistics of values; `None` if there are none.
    ///
    /// ```
    /// use thalweg_study::SampleStatistics;
    ///
    /// let of = SampleStatistics::of(&[10.0, 10.2, 9.9, 10.1, 20.0]).unwrap();
    /// assert_eq!((of.median, of.outliers), (10.1, 1));
    /// ```
    pub fn of(values: &[f64]) -> Option<SampleStatistics> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let median = middle(&sorted);
        let squares: f64 = sorted.iter().map(|v| (v - mean).powi(2)).sum();
        let confidence = (count > 1).then(|| {
            let deviation = (squares / (count - 1) as f64).sqrt();
            let t = STUDENT_95.get(count - 2).copied().unwrap_or(NORMAL_95);
            t * deviation / (count as f64).sqrt()
        });
        let mut distances: Vec<f64> = sorted.iter().map(|v| (v - median).abs()).collect();
        distances.sort_by(f64::total_cmp);
        let mut statistics = SampleStatistics {
            count,
            mean,
            median,
            least,
            most,
            spread: middle(&distances),
            confidence,
            outliers: 0,
        };
        let far = sorted.iter().filter(|v| statistics.is_outlier(**v));
        statistics.outliers = far.count();
        Some(statistics)
    }

    /// `true` for a value of the sample that is an outlier. A sample of less than five values has none.
    pub fn is_outlier(&self, value: f64) -> bool {
        let distance = (value - self.median).abs();
        self.count >= ENOUGH && DEVIATION_RATIO * distance > OUTLIER_SCORE * self.spread
    }
}

/// Median of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_confidence_of_five_values_is_students() {
        // By hand: mean 3, variance 2.5, t 2.776.
        let of = SampleStatistics::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((of.count, of.mean, of.median), (5, 3.0, 3.0));
        let expected = 2.776 * (2.5f64 / 5.0).sqrt();
        assert!((of.confidence.unwrap() - expected).abs() < 1e-12);
        assert_eq!((of.outliers, of.spread), (0, 1.0));
        assert_eq!(SampleStatistics::of(&[]), None);
        assert_eq!(SampleStatistics::of(&[7.0]).unwrap().confidence, None);
    }

    #[test]
    fn equal_values_have_no_outliers_but_a_different_one() {
        assert_eq!(SampleStatistics::of(&[5.0; 6]).unwrap().outliers, 0);
        assert_eq!(
            SampleStatistics::of(&[5.0, 5.0, 5.0, 5.0, 5.1])
                .unwrap()
                .outliers,
            1
        );
    }

    proptest! {
        #[test]
        fn mean_and_median_lie_within_the_range(values in prop::collection::vec(-1e6f64..1e6, 1..40)) {
            let of = SampleStatistics::of(&values).unwrap();
            let slack = 1e-9 * (of.most - of.least).abs().max(1.0);
            prop_assert!(of.least - slack <= of.mean && of.mean <= of.most + slack);
            prop_assert!(of.least <= of.median && of.median <= of.most);
            prop_assert!(of.outliers < values.len().div_ceil(2) + 1);
        }
    }
}
