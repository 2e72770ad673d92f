//! Log: the destination of messages about a training.

use std::fmt;
use std::sync::Arc;

/// Receives lines; the default writes them to standard error.
#[derive(Clone)]
pub(crate) struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    pub(crate) fn new(take: impl Fn(&str) + Send + Sync + 'static) -> Log {
        Log(Arc::new(take))
    }

    pub(crate) fn line(&self, line: &str) {
        (self.0)(line);
    }
}

impl Default for Log {
    fn default() -> Log {
        // A standard error that is closed must not end a training.
        Log::new(|line| {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "{line}");
        })
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}
