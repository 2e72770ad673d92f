//! ProcessSet: a subset of the ranks.

/// A subset of the ranks, created by [`Hvd::add_process_set`](crate::Hvd::add_process_set).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSet {
    pub(crate) id: i32,
    pub(crate) ranks: Vec<usize>,
}

impl ProcessSet {
    /// Its id: the attribute `process_set_id` of nodes.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Its ranks, in ascending order.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// `true` if a rank is in it.
    pub fn includes(&self, rank: usize) -> bool {
        self.ranks.contains(&rank)
    }
}
