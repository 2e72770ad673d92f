//! Dense layers whose weights are split over ranks. Values go between ranks by all-to-all.
//!
//! A value is either of *own rows*, `[rows, features]`: each rank has all features of its own rows; or of *own
//! features*, `[ranks * rows, features / ranks]`: each rank has some features of the rows of all ranks, in the order of
//! ranks. All ranks have the same number of rows.

use thalweg::graph::Output;
use thalweg::ops::ALL_RANKS;
use thalweg::prelude::*;

/// A rank's share of layers that are split over ranks.
#[derive(Clone, Copy, Debug)]
pub struct SplitLayers {
    ranks: usize,
}

impl SplitLayers {
    /// Layers over `ranks` ranks.
    pub fn over(ranks: usize) -> SplitLayers {
        SplitLayers { ranks }
    }

    /// Number of features of each rank.
    ///
    /// # Errors
    /// `features` is no multiple of the number of ranks.
    pub fn share(self, features: usize) -> Result<usize, String> {
        match features.is_multiple_of(self.ranks) {
            true => Ok(features / self.ranks),
            false => Err(format!(
                "{features} features cannot be split over {} ranks: take a number of ranks that divides them",
                self.ranks
            )),
        }
    }

    /// The rows of all ranks from each rank's own.
    fn all_rows(self, x: Output<'_>) -> Output<'_> {
        let copies = vec![x; self.ranks];
        self.all_to_all(x.graph().concat(&copies, 0))
    }

    /// All-to-all: sends an equal number of rows to each rank. Layers over one rank are whole on each, whatever other
    /// ranks there are.
    fn all_to_all(self, x: Output<'_>) -> Output<'_> {
        match self.ranks {
            1 => x,
            _ => x.all_to_all(Vec::<i32>::new(), ALL_RANKS).0,
        }
    }

    /// A layer whose weights `[in, units / ranks]` are some columns of those of the whole layer, with their biases: from own
    /// rows to own features. Each rank sends its rows to all others.
    pub fn by_columns<'g>(
        self,
        x: Output<'g>,
        weights: Output<'g>,
        biases: Output<'g>,
    ) -> Output<'g> {
        self.all_rows(x).matmul(weights) + biases
    }

    /// A layer whose weights `[in / ranks, units]` are some rows of those of the whole layer: from own features to own
    /// rows. Each rank sends its sums of all other rows. `units` is the number of all units; `biases` are of all units,
    /// the same on all ranks.
    pub fn by_rows<'g>(
        self,
        x: Output<'g>,
        weights: Output<'g>,
        biases: Output<'g>,
        units: usize,
    ) -> Output<'g> {
        // One part of each sum from each rank.
        let parts = self.all_to_all(x.matmul(weights));
        let parts = parts.reshape([self.ranks as i32, -1, units as i32]);
        parts.reduce_sum(&[0], false) + biases
    }

    /// Own rows from own features, of which there are `features` in all.
    pub fn own_rows(self, x: Output<'_>, features: usize) -> Output<'_> {
        let parts =
            self.all_to_all(x)
                .reshape([self.ranks as i32, -1, (features / self.ranks) as i32]);
        parts.transpose([1, 0, 2]).reshape([-1, features as i32])
    }

    /// Own features from own rows, of which each has `features`.
    pub fn own_features(self, x: Output<'_>, features: usize) -> Output<'_> {
        let share = (features / self.ranks) as i32;
        let parts = x.reshape([-1, self.ranks as i32, share]);
        self.all_to_all(parts.transpose([1, 0, 2]).reshape([-1, share]))
    }
}
