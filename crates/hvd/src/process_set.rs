//! Some of the ranks.

/// Some of the ranks, which [`Hvd::add_process_set`](crate::Hvd::add_process_set) has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSet {
    pub(crate) id: i32,
    pub(crate) ranks: Vec<usize>,
}

impl ProcessSet {
    /// Its number, as the attribute `process_set_id` of nodes has it.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Its ranks, in their order.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// Whether a rank is in it.
    pub fn includes(&self, rank: usize) -> bool {
        self.ranks.contains(&rank)
    }
}
