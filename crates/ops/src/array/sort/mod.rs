//! Top k, n-th elements, searches in sorted rows, counts, histograms, unique elements.

mod bincount;
mod bucketize_histogram;
mod lower_upper_bound;
mod nth_element;
mod top_k;
mod unique_list_diff;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &unique_list_diff::UNIQUE,
    &unique_list_diff::UNIQUE_V2,
    &unique_list_diff::UNIQUE_WITH_COUNTS,
    &unique_list_diff::UNIQUE_WITH_COUNTS_V2,
    &unique_list_diff::LIST_DIFF,
    &lower_upper_bound::LOWER_BOUND,
    &lower_upper_bound::UPPER_BOUND,
    &bucketize_histogram::BUCKETIZE,
    &bucketize_histogram::HISTOGRAM,
    &bincount::BINCOUNT,
    &bincount::DENSE_BINCOUNT,
    &nth_element::NTH_ELEMENT,
    &top_k::TOP_K,
    &top_k::TOP_K_V2,
    &top_k::IN_TOP_K,
    &top_k::IN_TOP_K_V2,
];
