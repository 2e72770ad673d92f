//! Addresses of the hosts of a job.

use std::net::{IpAddr, TcpListener, ToSocketAddrs};

use super::job::HostedJob;
use crate::error::{LaunchError, Result};
use crate::layout::JobHost;
use crate::reach::address_toward;

/// Address of this host for those that know no other one.
const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

impl HostedJob {
    /// Address of this host for the tasks of `hosts`.
    ///
    /// # Errors
    /// The network is not trusted and nothing protects the job; no other host has an address.
    pub(crate) fn own_address(&self, hosts: &[JobHost]) -> Result<IpAddr> {
        let others = hosts
            .iter()
            .filter(|host| !self.access.is_local(&host.name));
        let others: Vec<&JobHost> = others.collect();
        if others.is_empty() {
            return Ok(LOOPBACK);
        }
        self.options.check_protection()?;
        if let Some(address) = self.options.address {
            return Ok(address);
        }
        let toward = |host: &JobHost| -> std::io::Result<IpAddr> {
            let to = (host.address(), 22).to_socket_addrs()?.next();
            let none = || std::io::Error::other("it has no address");
            address_toward(to.ok_or_else(none)?.ip())
        };
        // One of the hosts may be this one, by a name that stands for its loopback here.
        let is_outside = |ip: &IpAddr| !ip.is_loopback();
        let mut outside = others.iter().filter_map(|host| toward(host).ok());
        if let Some(address) = outside.find(is_outside) {
            return Ok(address);
        }
        toward(others[0]).map_err(|e| {
            let name = others[0].address();
            format!("the host '{name}': {e}: give --address, the address of this host that the others reach").into()
        })
    }

    /// Listener at an address of this host, at which ranks meet.
    ///
    /// # Errors
    /// The address is none of this host.
    pub(crate) fn listener(&self, address: IpAddr) -> Result<TcpListener> {
        TcpListener::bind((address, 0)).map_err(|e| {
            LaunchError::of_attempt(e, |e| {
                let text = format!(
                    "ranks cannot meet at {address}: {e}: give --address, an address of this host"
                );
                LaunchError::Argument(text)
            })
        })
    }

    /// Address at which the tasks of a host listen, where `own` is that of this host.
    pub(super) fn task_address(&self, host: &JobHost, own: IpAddr) -> String {
        match (&host.address, self.access.is_local(&host.name)) {
            (Some(address), _) => address.clone(),
            (None, true) if own == LOOPBACK && host.name.starts_with("127.") => host.name.clone(),
            (None, true) => own.to_string(),
            (None, false) => host.address().to_owned(),
        }
    }
}

/// An address with a port.
pub(crate) fn with_port(address: &str, port: u16) -> String {
    match address.contains(':') {
        // IPv6.
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    }
}
