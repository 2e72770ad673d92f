//! The hosts of a job whose ranks stay: where each rank runs, and how it is started there.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::process::Command;

use clap::Args;
use thalweg_collective::variables;

use crate::Failure;

/// Where ranks run, and how others are reached.
#[derive(Args)]
pub struct Placing {
    /// Hosts and how many ranks each may have: host1:2,host2:2. Ranks of other hosts than this one are started by ssh, in a
    /// folder of the same name, with the same program. Without it all ranks run here.
    #[arg(
        short = 'H',
        long,
        value_name = "HOST:RANKS,...",
        value_delimiter = ','
    )]
    hosts: Vec<Host>,
    /// The address of this host that ranks of others reach. Without it, the one from which the first of them is reached.
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// What starts a program on another host: it is given the name of the host and a line of a shell.
    #[arg(long, default_value = "ssh", value_name = "PROGRAM")]
    ssh: String,
    /// Lets ranks of several hosts speak without --protection, over a network that you trust.
    #[arg(long)]
    unprotected_network: bool,
}

/// A host and its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: String,
    slots: usize,
}

impl std::str::FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        let (name, slots) = match text.rsplit_once(':') {
            Some((name, slots)) => (name, slots.parse().ok()),
            None => (text, Some(1)),
        };
        // What begins with a dash would be an option of ssh.
        match slots.filter(|&n| n > 0) {
            Some(slots) if !name.is_empty() && !name.starts_with('-') => Ok(Host {
                name: name.to_owned(),
                slots,
            }),
            _ => Err(format!(
                "'{text}' is no host: give a name and a number of ranks, as host1:2"
            )),
        }
    }
}

/// Where a rank runs: which of the hosts, and its place there.
pub struct Place {
    host: Option<String>,
    local_rank: usize,
    local_size: usize,
}

/// Whether a name is one of this host.
pub(super) fn is_here(name: &str) -> bool {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name == "localhost" || name.starts_with("127.") || name == own.trim()
}

impl Placing {
    /// Whether ranks run on other hosts than this one.
    fn goes_out(&self) -> bool {
        self.hosts.iter().any(|host| !is_here(&host.name))
    }

    /// Whether hosts were named.
    pub fn names_hosts(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// The address at which ranks meet.
    ///
    /// # Errors
    /// The network is not trusted and nothing protects the job; the first other host has no address.
    pub fn meeting(&self, is_protected: bool) -> Result<IpAddr, Failure> {
        if !self.goes_out() {
            return Ok(IpAddr::from([127, 0, 0, 1]));
        }
        if !is_protected && !self.unprotected_network {
            return Err(
                "ranks of several hosts need --protection DIR, with keys of `thalweg protect`; or --unprotected-network, on a \
                 network that you trust"
                    .into(),
            );
        }
        if let Some(address) = self.address {
            return Ok(address);
        }
        let other = self.hosts.iter().find(|host| !is_here(&host.name));
        let name = other.map_or("", |host| host.name.rsplit('@').next().unwrap_or(""));
        let found = || -> std::io::Result<IpAddr> {
            let to = (name, 22).to_socket_addrs()?.next();
            let none = || std::io::Error::other("it has no address");
            let to = to.ok_or_else(none)?;
            let any: IpAddr = match to.is_ipv4() {
                true => IpAddr::from([0u8; 4]),
                false => IpAddr::from([0u8; 16]),
            };
            let socket = UdpSocket::bind((any, 0))?;
            // Nothing is sent: the system says which of its addresses it would take.
            socket.connect(to)?;
            Ok(socket.local_addr()?.ip())
        };
        found().map_err(|e| {
            format!("the host '{name}': {e}: give --address, the address of this host that the others reach").into()
        })
    }

    /// Where each of so many ranks runs: hosts are filled one after another.
    ///
    /// # Errors
    /// They have fewer slots.
    pub fn places(&self, ranks: usize) -> Result<Vec<Place>, Failure> {
        if self.hosts.is_empty() {
            let place = |local_rank| Place {
                host: None,
                local_rank,
                local_size: ranks,
            };
            return Ok((0..ranks).map(place).collect());
        }
        let mut places = Vec::new();
        for host in &self.hosts {
            let local_size = host.slots.min(ranks - places.len());
            places.extend((0..local_size).map(|local_rank| Place {
                host: (!is_here(&host.name)).then(|| host.name.clone()),
                local_rank,
                local_size,
            }));
        }
        match places.len() == ranks {
            true => Ok(places),
            false => Err(format!(
                "-H names {} slots for {ranks} ranks: name more, or give a smaller --np",
                places.len()
            )
            .into()),
        }
    }

    /// The command that starts a rank at its place, and what it reads: the secret, which stands in no command line.
    ///
    /// # Errors
    /// This folder has no name.
    pub fn command(
        &self,
        place: &Place,
        (program, args): (&std::path::Path, &[String]),
        set: &[(&str, String)],
        secret: &str,
    ) -> Result<(Command, Option<String>), Failure> {
        let local = [
            (variables::LOCAL_RANK, place.local_rank.to_string()),
            (variables::LOCAL_SIZE, place.local_size.to_string()),
        ];
        let set = set.iter().cloned().chain(local);
        let Some(host) = &place.host else {
            let mut command = Command::new(program);
            command.args(args).envs(set).env(variables::SECRET, secret);
            return Ok((command, None));
        };
        // What a user has set for all ranks.
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| {
                let passed = name.starts_with("HOROVOD_") || name.starts_with("THALWEG_");
                passed && name != variables::SECRET
            });
        let set = own.chain(set.map(|(name, value)| (name.to_owned(), value)));
        let set: Vec<String> = set
            .map(|(name, value)| quoted(&format!("{name}={value}")))
            .collect();
        let folder = std::env::current_dir()?;
        let args: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
        let line = format!(
            "IFS= read -r {secret} && export {secret} && cd {folder} && exec env {} {program} {}",
            set.join(" "),
            args.join(" "),
            secret = variables::SECRET,
            folder = quoted(&folder.to_string_lossy()),
            program = quoted(&program.to_string_lossy()),
        );
        let mut command = Command::new(&self.ssh);
        command.args([host, &line]);
        Ok((command, Some(format!("{secret}\n"))))
    }
}

/// A word of a shell's line that means itself.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<Host, String> {
        text.parse()
    }

    #[test]
    fn hosts_have_a_name_and_slots() {
        let of = |name: &str, slots| {
            Ok(Host {
                name: name.to_owned(),
                slots,
            })
        };
        assert_eq!(host("a:2"), of("a", 2));
        assert_eq!(host("user@a.b"), of("user@a.b", 1));
        for wrong in ["", ":2", "a:", "a:0", "a:x", "-oProxyCommand=x:1"] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_mean_themselves_in_a_shell() {
        for word in ["", "a b", "it's", "$HOME `x` \\ \" ;&|", "'"] {
            let line = format!("printf %s {}", quoted(word));
            let said = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), word);
        }
    }
}
