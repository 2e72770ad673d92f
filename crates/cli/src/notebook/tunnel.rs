//! Commands of ssh that lead from a port where the browser is to Jupyter's.

/// Way from the host of the browser to that of Jupyter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tunnel {
    /// None: it is the same host.
    None,
    /// To this host, by the address that its user came by.
    Back { host: String },
    /// From this host to one that ssh reaches.
    Ssh { host: String },
    /// To a node of a Slurm site.
    Slurm {
        login: String,
        node: String,
        /// `true` if Jupyter listens at the node's address, and not on its loopback.
        by_address: bool,
    },
}

impl Tunnel {
    /// Tunnel to this host, if its user has come by ssh; `connection` is the value of `SSH_CONNECTION`: addresses and ports of
    /// client and server.
    pub(super) fn of_connection(connection: Option<&str>) -> Tunnel {
        let server = connection.and_then(|text| text.split(' ').nth(2));
        match server.filter(|address| !address.is_empty()) {
            Some(address) => Tunnel::Back {
                host: address.to_owned(),
            },
            None => Tunnel::None,
        }
    }

    /// Port where the browser is: the one of Jupyter. If the browser is here, it is one that `free_from` finds free.
    pub(super) fn own_port(&self, port: u16, free_from: &dyn Fn(u16) -> Option<u16>) -> u16 {
        match self {
            Tunnel::Ssh { .. } => free_from(port).unwrap_or(port),
            _ => port,
        }
    }

    /// Program and arguments of the tunnel; none for the same host.
    pub(super) fn command(&self, own: u16, port: u16) -> Vec<String> {
        match self {
            Tunnel::None => Vec::new(),
            Tunnel::Back { host } | Tunnel::Ssh { host } => {
                forward(own, "127.0.0.1", port, &[host])
            }
            Tunnel::Slurm {
                login,
                node,
                by_address: false,
            } => forward(own, "127.0.0.1", port, &["-J", login, node]),
            Tunnel::Slurm {
                login,
                node,
                by_address: true,
            } => forward(own, node, port, &[login]),
        }
    }

    /// The same, for a tunnel that ends if it cannot listen.
    pub(super) fn checked_command(&self, own: u16, port: u16) -> Vec<String> {
        let words = self.command(own, port);
        let options = ["-o", "ExitOnForwardFailure=yes"].map(str::to_owned);
        let (program, args) = words.split_at(words.len().min(1));
        [program, &options, args].concat()
    }
}

/// Command that forwards a port of this host's loopback to an address as the host at the end of `to` sees it.
fn forward(own: u16, address: &str, port: u16, to: &[&str]) -> Vec<String> {
    let forwarded = format!("{own}:{address}:{port}");
    let words = ["ssh", "-N", "-L", &forwarded];
    let words = words.iter().chain(to);
    words.map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tunnel: &Tunnel, own: u16, port: u16) -> String {
        tunnel.command(own, port).join(" ")
    }

    #[test]
    fn a_tunnel_leads_to_the_loopback_of_the_host_or_to_the_address_of_a_node() {
        let host = "user@a".to_owned();
        let ssh = Tunnel::Ssh { host };
        assert_eq!(
            line(&ssh, 8890, 8888),
            "ssh -N -L 8890:127.0.0.1:8888 user@a"
        );
        let slurm = |by_address| Tunnel::Slurm {
            login: "login1".to_owned(),
            node: "nid1".to_owned(),
            by_address,
        };
        assert!(line(&slurm(false), 8888, 8888).ends_with("-L 8888:127.0.0.1:8888 -J login1 nid1"));
        assert!(line(&slurm(true), 8888, 8888).ends_with("-L 8888:nid1:8888 login1"));
    }

    #[test]
    fn a_user_who_has_come_by_ssh_gets_a_tunnel_to_the_address_of_this_host() {
        let back = Tunnel::of_connection(Some("10.0.0.9 50000 10.0.0.1 22"));
        assert!(line(&back, 8888, 8888).ends_with(" 10.0.0.1"));
        for none in [None, Some(""), Some("10.0.0.9 50000")] {
            assert_eq!(Tunnel::of_connection(none), Tunnel::None);
        }
    }
}
