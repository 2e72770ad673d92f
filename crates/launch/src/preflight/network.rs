//! Connections between all pairs of hosts.

use std::time::Duration;

use super::ask::Asker;
use crate::error::Result;
use crate::protocol::{Answer, Peer, Request};
use crate::reach::{NonceSocket, connect_all};
use crate::secret::job_secret;

/// Time for all attempts to connect.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of failed pairs of which an error tells the reason.
const SHOWN: usize = 8;
/// Maximum number of hosts of a matrix.
const MAX_MATRIX: usize = 32;

/// Address at which the tasks of a host are reached.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Port of one of its tasks; 0 for any.
    pub(crate) port: u16,
}

/// Failed connection: the index of the host that connects, that of the other, and the reason.
pub(super) type FailedPair = (usize, usize, String);

/// Connects each host to each other one, at the addresses of their tasks. `endpoints` are those of the hosts, in order; those
/// after them, such as the launcher's own, are on this host.
///
/// # Errors
/// A host does not reach another one; the error has a table of all pairs.
pub(crate) fn check_network(asker: &mut Asker<'_>, endpoints: &[Endpoint]) -> Result<()> {
    let nonces: Result<Vec<String>> = endpoints.iter().map(|_| job_secret()).collect();
    let nonces = nonces?;
    asker.send(&|host| Request::Listen {
        address: endpoints[host].address.clone(),
        port: endpoints[host].port,
        nonce: nonces[host].clone(),
    });
    let mut peers = Vec::new();
    let mut sockets = Vec::new();
    let answers = asker.answers(CONNECT_TIMEOUT, &|_| None)?;
    for (number, endpoint) in endpoints.iter().enumerate() {
        let failed = |reason: &dyn std::fmt::Display| {
            format!("the host '{}' cannot listen: {reason}", endpoint.name)
        };
        let port = match answers.get(number) {
            Some(Some(Answer::Listening { port })) => port.clone().map_err(|e| failed(&e))?,
            Some(Some(_)) => return Err(failed(&"its agent answers something else").into()),
            _ => {
                let socket = NonceSocket::open(&endpoint.address, endpoint.port, &nonces[number]);
                let socket = socket.map_err(|e| failed(&e))?;
                let port = socket.port();
                sockets.push(socket);
                port
            }
        };
        peers.push(Peer {
            address: endpoint.address.clone(),
            port,
            nonce: nonces[number].clone(),
        });
    }
    asker.send(&|_| Request::Connect {
        to: peers.clone(),
        seconds: CONNECT_TIMEOUT.as_secs(),
    });
    let local = |_| {
        let errors = connect_all(&peers, CONNECT_TIMEOUT);
        Some(Answer::Connected { errors })
    };
    let answers = asker.answers(2 * CONNECT_TIMEOUT, &local)?;
    let mut failed = Vec::new();
    for (from, answer) in answers.into_iter().enumerate() {
        if let Some(Answer::Connected { errors }) = answer {
            let errors = errors.into_iter().enumerate();
            let errors = errors.filter_map(|(to, error)| Some((from, to, error?)));
            failed.extend(errors);
        }
    }
    // The ports are free before the first task starts, as tasks connect to each other at once.
    drop(sockets);
    asker.send(&|_| Request::CloseSocket);
    asker.answers(CONNECT_TIMEOUT, &|_| None)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failure_text(asker.hosts().len(), endpoints, &failed).into()),
    }
}

/// Text of failed connections: a matrix, and the reasons.
pub(super) fn failure_text(hosts: usize, endpoints: &[Endpoint], failed: &[FailedPair]) -> String {
    let mut lines = vec!["hosts of the job do not reach each other".to_owned()];
    if endpoints.len() <= MAX_MATRIX {
        let width = endpoints
            .iter()
            .map(|e| e.name.len())
            .max()
            .unwrap_or(0)
            .max(7);
        let row = |name: &str, cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|c| format!("{c:>width$}")).collect();
            format!("  {name:>width$} {}", cells.join(" "))
                .trim_end()
                .to_owned()
        };
        let names: Vec<String> = endpoints.iter().map(|e| e.name.clone()).collect();
        lines.push(row("from to", &names));
        for (from, name) in names.iter().enumerate().take(hosts) {
            let cell = |to: usize| match failed.iter().any(|f| (f.0, f.1) == (from, to)) {
                true => "FAILS".to_owned(),
                false => "ok".to_owned(),
            };
            let cells: Vec<String> = (0..endpoints.len()).map(cell).collect();
            lines.push(row(name, &cells));
        }
    }
    for (from, to, reason) in failed.iter().take(SHOWN) {
        let (from, to) = (&endpoints[*from].name, &endpoints[*to]);
        lines.push(format!(
            "  {from} to {} at {}: {reason}",
            to.name, to.address
        ));
    }
    if failed.len() > SHOWN {
        lines.push(format!("  and {} more", failed.len() - SHOWN));
    }
    lines.push(
        "give the addresses at which the hosts reach each other (address= in the file of hosts), open the ports, or skip this check \
         with --no-network-check"
            .to_owned(),
    );
    lines.join("\n")
}
