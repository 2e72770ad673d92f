//! Identity of this host.

/// Identity of this host and its network namespace: processes with equal identities may share memory.
pub fn identity() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let boot = read("/proc/sys/kernel/random/boot_id");
    let name = read("/proc/sys/kernel/hostname");
    // A network namespace of its own counts as a host of its own.
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{} {} {}", boot.trim(), name.trim(), network.display())
}

/// `true` if `name` names this host: `localhost`, `127.*`, or its hostname.
pub fn is_local(name: &str) -> bool {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name == "localhost" || name.starts_with("127.") || name == own.trim()
}
