//! Histograms with TensorFlow's buckets (`tensorflow/core/lib/histogram/histogram.cc`).

use super::wire::Message;

/// Upper limits of the buckets: growing by a tenth from 1e-12 to 1e20, then the largest number;
/// the same below zero; and zero.
fn bucket_limits() -> Vec<f64> {
    let mut above = Vec::new();
    let mut end = 1e-12;
    while end < 1e20 {
        above.push(end);
        end *= 1.1;
    }
    above.push(f64::MAX);
    let below = above.iter().rev().map(|end| -end);
    below.chain([0.0]).chain(above.iter().copied()).collect()
}

/// A `HistogramProto` of finite numbers.
pub(super) fn histogram(values: &[f64]) -> Message {
    let bucket_limits = bucket_limits();
    let mut counts = vec![0.0; bucket_limits.len()];
    let (mut least, mut most) = (f64::MAX, -f64::MAX);
    let (mut sum, mut squares) = (0.0, 0.0);
    for &value in values {
        let bucket = bucket_limits.partition_point(|&end| end <= value);
        if let Some(count) = counts.get_mut(bucket.min(bucket_limits.len() - 1)) {
            *count += 1.0;
        }
        least = value.min(least);
        most = value.max(most);
        sum += value;
        squares += value * value;
    }
    let (mut kept_ends, mut kept) = (Vec::new(), Vec::new());
    for (i, (&end, &count)) in bucket_limits.iter().zip(&counts).enumerate() {
        // The last of several adjacent empty buckets represents all of them.
        let next_is_empty = counts.get(i + 1).is_some_and(|&next| next == 0.0);
        if count > 0.0 || !next_is_empty {
            kept_ends.push(end);
            kept.push(count);
        }
    }
    Message::default()
        .double(1, least)
        .double(2, most)
        .double(3, values.len() as f64)
        .double(4, sum)
        .double(5, squares)
        .doubles(6, &kept_ends)
        .doubles(7, &kept)
}
