//! Attributes of batch normalization that its kernels and gradients read.

use thalweg_graph::Attrs;
use thalweg_graph::op::{AttrDef, float_attr};

pub(super) const FACTOR: AttrDef = float_attr("exponential_avg_factor", 1.0);

/// Axis of the channels, and rank of the format.
pub(super) fn axis_of(attrs: &Attrs) -> (usize, usize) {
    match attrs.str("data_format") {
        "NCHW" => (1, 4),
        "NDHWC" => (4, 5),
        "NCDHW" => (1, 5),
        _ => (3, 4),
    }
}
