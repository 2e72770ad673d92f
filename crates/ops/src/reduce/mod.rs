//! Several elements become one: sums, means, products, extremes and where they stand.

mod axes;
mod fold;
mod gradient;
mod layout;
mod sum;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[&sum::SUM, &sum::MEAN];
