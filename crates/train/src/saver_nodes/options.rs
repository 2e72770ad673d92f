//! Options of the nodes of a saver.

/// Options of [`SaverNodes::add`](crate::saver_nodes::SaverNodes::add).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaverOptions {
    pub(super) scope: String,
    pub(super) sharded: bool,
}

impl Default for SaverOptions {
    fn default() -> SaverOptions {
        SaverOptions {
            scope: "save".to_owned(),
            sharded: false,
        }
    }
}

impl SaverOptions {
    /// The defaults.
    pub fn new() -> SaverOptions {
        SaverOptions::default()
    }

    /// Each device writes its variables to files of its own, which are then merged, or not (`false`). They must be on a
    /// disk that all devices see.
    pub fn sharded(self, sharded: bool) -> SaverOptions {
        SaverOptions { sharded, ..self }
    }

    /// Sets the name scope of the nodes (`save`), at the root; made unique.
    pub fn scope(self, scope: impl Into<String>) -> SaverOptions {
        SaverOptions {
            scope: scope.into(),
            ..self
        }
    }
}
