//! The signals that end a launch.

/// What the launcher was told by signals.
pub struct Signals {
    #[cfg(unix)]
    pending: signal_hook::iterator::Signals,
    #[cfg(not(unix))]
    pending: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

#[cfg(unix)]
impl Signals {
    /// Catches SIGTERM, SIGINT and SIGHUP from now on. One that is ignored, as under `nohup`, stays so.
    ///
    /// # Errors
    /// The system does not let it.
    pub fn catch() -> std::io::Result<Signals> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let ignored = ignored();
        let all = [SIGTERM, SIGINT, SIGHUP].into_iter();
        let caught = all.filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let pending = signal_hook::iterator::Signals::new(caught)?;
        Ok(Signals { pending })
    }

    /// The numbers of those that came since this was asked last.
    pub fn came(&mut self) -> Vec<i32> {
        self.pending.pending().collect()
    }
}

/// A bit for each signal that this process ignores, as far as the system tells.
#[cfg(unix)]
fn ignored() -> u64 {
    let told = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = told.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(not(unix))]
impl Signals {
    /// Catches Ctrl-C from now on.
    ///
    /// # Errors
    /// The system does not let it.
    pub fn catch() -> std::io::Result<Signals> {
        let pending = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
        let noted = pending.clone();
        ctrlc::set_handler(move || {
            noted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        })
        .map_err(std::io::Error::other)?;
        Ok(Signals { pending })
    }

    /// The numbers of those that came since this was asked last.
    pub fn came(&mut self) -> Vec<i32> {
        let count = self.pending.swap(0, std::sync::atomic::Ordering::Relaxed);
        vec![2; count]
    }
}

/// What a signal is called.
pub fn name(signal: i32) -> String {
    #[cfg(unix)]
    if let Some(name) = signal_hook::low_level::signal_name(signal) {
        return name.to_owned();
    }
    format!("signal {signal}")
}
