//! Reduction operations of collectives.

use std::fmt;

/// How values of ranks become one.
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
    /// Every one, by Horovod's numbers.
    pub const ALL: [ReduceOp; 6] = [
        ReduceOp::Average,
        ReduceOp::Sum,
        ReduceOp::Adasum,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::Product,
    ];

    /// The one that Horovod gives this number.
    pub fn of_number(number: i64) -> Option<ReduceOp> {
        let at = usize::try_from(number).ok()?;
        ReduceOp::ALL.get(at).copied()
    }

    /// Horovod's number.
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
