//! Who is on this machine, and who listens on it.

use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Whether an address is one of this machine's.
pub(crate) fn is_own(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    // What is sent to an own address comes from it. Nothing is sent here.
    let from = || {
        let any: IpAddr = match ip {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    ip.is_loopback() || from().is_ok_and(|a: SocketAddr| a.ip() == ip)
}

/// The port of a host (`name:port`) that is this machine, all of its addresses.
pub(crate) async fn here(address: &str) -> Option<u16> {
    let all: Vec<SocketAddr> = tokio::net::lookup_host(address).await.ok()?.collect();
    let port = all.first()?.port();
    all.iter().all(|a| is_own(a.ip())).then_some(port)
}

/// Whether a process listens on this port.
pub(super) fn listens(process: u32, port: u16) -> bool {
    // Of each socket, in this order: number, own address, the other one, state (0A listens), ...; the
    // tenth is its inode (proc_net_tcp of the kernel's documentation).
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, own) = fields.get(1)?.rsplit_once(':')?;
        let own = u16::from_str_radix(own, 16).ok()?;
        let listens = own == port && *fields.get(3)? == "0A";
        let inode = fields.get(9)?;
        listens.then(|| format!("socket:[{inode}]").into())
    };
    let tables = ["tcp", "tcp6"]
        .iter()
        .filter_map(|t| std::fs::read_to_string(format!("/proc/{process}/net/{t}")).ok());
    let listening: Vec<std::path::PathBuf> = tables
        .flat_map(|t| t.lines().filter_map(inode).collect::<Vec<_>>())
        .collect();
    let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    let mut targets = open
        .flatten()
        .filter_map(|f| std::fs::read_link(f.path()).ok());
    targets.any(|t| listening.contains(&t))
}
