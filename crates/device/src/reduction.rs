//! Reductions of the values of ranks: the operation, and factors before and after it.

use std::fmt;

/// A reduction of the values of several ranks to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Their mean; of integers, rounded towards zero.
    Average,
    /// Their sum.
    Sum,
    /// The sum of what they have in different directions, the mean of what they have in common.
    Adasum,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
    /// Their product.
    Product,
}

impl ReduceOp {
    /// All of them, by Horovod's numbers.
    pub const ALL: [ReduceOp; 6] = [
        ReduceOp::Average,
        ReduceOp::Sum,
        ReduceOp::Adasum,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::Product,
    ];

    /// Returns the reduction with this number in Horovod.
    pub fn of_number(number: i64) -> Option<ReduceOp> {
        let at = usize::try_from(number).ok()?;
        ReduceOp::ALL.get(at).copied()
    }

    /// Returns its number in Horovod.
    pub fn number(self) -> i64 {
        let at = ReduceOp::ALL.iter().position(|&op| op == self);
        at.unwrap_or(0) as i64
    }

    /// The name in texts: `sum`.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Average => "average",
            ReduceOp::Sum => "sum",
            ReduceOp::Adasum => "adasum",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::Product => "product",
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reduction of the values of ranks to one: inputs are multiplied by a factor, reduced, and the result is multiplied by
/// another factor.
///
/// ```
/// use thalweg_device::{ReduceOp, Reduction};
///
/// let mean_of_four = Reduction::of(ReduceOp::Sum).scaled(1.0, 0.25);
/// assert_eq!((mean_of_four.prescale, mean_of_four.postscale), (1.0, 0.25));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// Op that combines the values.
    pub op: ReduceOp,
    /// Factor of the inputs.
    pub prescale: f64,
    /// Factor of the result.
    pub postscale: f64,
}

impl Reduction {
    /// Reduction by this op, without factors.
    pub fn of(op: ReduceOp) -> Reduction {
        Reduction {
            op,
            prescale: 1.0,
            postscale: 1.0,
        }
    }

    /// Sets the factors of the inputs and of the result.
    pub fn scaled(self, prescale: f64, postscale: f64) -> Reduction {
        Reduction {
            prescale,
            postscale,
            ..self
        }
    }
}

impl From<ReduceOp> for Reduction {
    fn from(op: ReduceOp) -> Reduction {
        Reduction::of(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_have_the_numbers_of_horovod() {
        let numbered = [
            (0, ReduceOp::Average, "average"),
            (1, ReduceOp::Sum, "sum"),
            (2, ReduceOp::Adasum, "adasum"),
            (3, ReduceOp::Min, "min"),
            (4, ReduceOp::Max, "max"),
            (5, ReduceOp::Product, "product"),
        ];
        for (number, op, name) in numbered {
            assert_eq!(
                (op.number(), ReduceOp::of_number(number)),
                (number, Some(op))
            );
            assert_eq!(op.to_string(), name);
        }
        for unknown in [-1, 6, i64::MAX, i64::MIN] {
            assert_eq!(ReduceOp::of_number(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_reduction_has_no_factors_unless_they_are_given() {
        let plain = Reduction::from(ReduceOp::Max);
        assert_eq!(
            (plain.op, plain.prescale, plain.postscale),
            (ReduceOp::Max, 1.0, 1.0)
        );
        let scaled = plain.scaled(0.5, 3.0);
        assert_eq!(
            (scaled.op, scaled.prescale, scaled.postscale),
            (ReduceOp::Max, 0.5, 3.0)
        );
    }
}
