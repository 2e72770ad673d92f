//! Coordinator that rank 0 runs, where no launcher does.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_launch_env::{CoordinatorAddress, variables};

use crate::control::Coordinator;
use crate::error::{CollectiveError, Result};
use crate::join::Join;

/// Time between two attempts to resolve a name, which may appear only when its host runs.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Address of the coordinator of a job, and the coordinator itself if this rank runs it.
///
/// # Errors
/// [`CollectiveError::Rendezvous`]: the host of rank 0 has no address, or rank 0 cannot listen. [`CollectiveError::Argument`]:
/// the job needs protection.
pub(super) fn meet(
    join: &Join,
    place: &CoordinatorAddress,
) -> Result<(SocketAddr, Option<Coordinator>)> {
    let (host, port) = match place {
        CoordinatorAddress::Launcher(address) => return Ok((*address, None)),
        CoordinatorAddress::RankZero { host, port } => (host, *port),
    };
    let address = resolve(host, port, join.timeouts.rendezvous).map_err(|e| {
        let name = variables::COORDINATOR;
        let text = format!(
            "rank 0 is at '{host}', which has no address: {e}; set {name} to its IP address"
        );
        CollectiveError::Rendezvous(text)
    })?;
    if join.loopback_only && !address.ip().is_loopback() {
        return Err(CollectiveError::Argument(format!(
            "ranks meet at '{host}' ({address}), over a network: set {} to a folder of keys of `thalweg protect`; or {}=1, on a \
             network that you trust",
            variables::PROTECTION,
            variables::UNPROTECTED_NETWORK
        )));
    }
    if join.rank > 0 {
        return Ok((address, None));
    }
    let coordinator = listen(address)
        .and_then(|listener| Coordinator::start_in_rank(listener, join.size, &join.secret));
    let coordinator = coordinator.map_err(|e| {
        let name = variables::COORDINATOR_PORT;
        let text = format!(
            "rank 0 cannot listen at {address}: {e}; set {name} to a free port for all ranks"
        );
        CollectiveError::Rendezvous(text)
    })?;
    // Rank 0 connects as the others do: its address for them is the one of this connection.
    Ok((address, Some(coordinator)))
}

/// First address of a host, an IPv4 address if there is one. The name may be unknown for some time.
fn resolve(host: &str, port: u16, timeout: Duration) -> io::Result<SocketAddr> {
    let began = Instant::now();
    loop {
        let error = match (host, port).to_socket_addrs() {
            Ok(all) => {
                let all: Vec<SocketAddr> = all.collect();
                let first = all.iter().find(|a| a.is_ipv4()).or(all.first());
                if let Some(address) = first {
                    return Ok(*address);
                }
                io::Error::from(ErrorKind::AddrNotAvailable)
            }
            Err(error) => error,
        };
        if began.elapsed() >= timeout {
            return Err(error);
        }
        thread::sleep(RETRY_INTERVAL);
    }
}

/// Listens at an address; at all addresses of the host if that one is not its own, such as the address of a service that leads
/// to the host.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let any: IpAddr = match address.is_ipv4() {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    };
    match TcpListener::bind(address) {
        Err(e) if e.kind() == ErrorKind::AddrNotAvailable => {
            TcpListener::bind((any, address.port()))
        }
        listening => listening,
    }
}
