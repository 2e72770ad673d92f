//! Signals that end a launch or a server.

/// Caught signals: SIGTERM, SIGINT and SIGHUP.
pub struct Signals {
    #[cfg(unix)]
    caught: signal_hook::iterator::Signals,
    #[cfg(not(unix))]
    caught: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

#[cfg(unix)]
impl Signals {
    /// Catches SIGTERM, SIGINT and SIGHUP from now on. A signal that is ignored, as under `nohup`, stays ignored.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn catch() -> std::io::Result<Signals> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let ignored = ignored();
        let all = [SIGTERM, SIGINT, SIGHUP].into_iter();
        let wanted = all.filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let caught = signal_hook::iterator::Signals::new(wanted)?;
        Ok(Signals { caught })
    }

    /// Returns the numbers of the signals that came since the last call.
    pub fn pending(&mut self) -> Vec<i32> {
        self.caught.pending().collect()
    }
}

/// Bit mask of the signals that this process ignores, from `/proc`; 0 if it cannot be read.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(not(unix))]
impl Signals {
    /// Catches Ctrl-C from now on.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn catch() -> std::io::Result<Signals> {
        let caught = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
        let count = caught.clone();
        ctrlc::set_handler(move || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        })
        .map_err(std::io::Error::other)?;
        Ok(Signals { caught })
    }

    /// Returns the numbers of the signals that came since the last call.
    pub fn pending(&mut self) -> Vec<i32> {
        let count = self.caught.swap(0, std::sync::atomic::Ordering::Relaxed);
        vec![2; count]
    }
}

/// Returns the name of a signal.
pub(crate) fn name(signal: i32) -> String {
    #[cfg(unix)]
    if let Some(name) = signal_hook::low_level::signal_name(signal) {
        return name.to_owned();
    }
    format!("signal {signal}")
}
