//! Encoder of metrics for one scrape.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::metrics::counters::{BUCKET_BOUNDS, Histogram};

pub(super) type EncodeResult = Result<(), fmt::Error>;

/// Encoder of one scrape.
pub(super) struct MetricEncoder<'a>(pub(super) DescriptorEncoder<'a>);

impl MetricEncoder<'_> {
    pub(super) fn counter(&mut self, name: &str, help: &str, count: &AtomicU64) -> EncodeResult {
        let count = count.load(Ordering::Relaxed);
        let kind = MetricType::Counter;
        let mut metric = (self.0).encode_descriptor(name, help, None, kind)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&count, None)
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) -> EncodeResult {
        self.optional_gauge(name, help, Some(signed(value)))
    }

    /// Encodes a gauge that may have no value yet.
    pub(super) fn optional_gauge(
        &mut self,
        name: &str,
        help: &str,
        value: Option<impl EncodeGaugeValue>,
    ) -> EncodeResult {
        let kind = MetricType::Gauge;
        let mut metric = (self.0).encode_descriptor(name, help, None, kind)?;
        value.map_or(Ok(()), |value| metric.encode_gauge(&value))
    }

    /// Encodes one number for each value of a label.
    pub(super) fn by(
        &mut self,
        (name, help): (&str, &str),
        kind: MetricType,
        label: &str,
        all: &[(String, u64)],
    ) -> EncodeResult {
        let mut metric = (self.0).encode_descriptor(name, help, None, kind)?;
        for (value, number) in all {
            let labels = [(label, value.as_str())];
            let mut one = metric.encode_family(&labels)?;
            match kind {
                MetricType::Counter => one.encode_counter::<NoLabelSet, _, u64>(number, None)?,
                _ => one.encode_gauge(&signed(*number))?,
            }
        }
        Ok(())
    }

    pub(super) fn times(&mut self, name: &str, help: &str, times: &Histogram) -> EncodeResult {
        let kind = MetricType::Histogram;
        let unit = Some(&Unit::Seconds);
        let mut metric = (self.0).encode_descriptor(name, help, unit, kind)?;
        let bounds = BUCKET_BOUNDS.iter().map(|micros| *micros as f64 / 1e6);
        let bounds = bounds.chain([f64::MAX]);
        let counts = times.buckets.iter().map(|b| b.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, n)| n).sum();
        let sum = times.micros.load(Ordering::Relaxed) as f64 / 1e6;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
