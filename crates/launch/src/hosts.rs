//! Hosts of a job with a fixed number of ranks: the place of each rank, and the command that starts it there.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::process::Command;

use thalweg_launch_env::host::is_local;
use thalweg_launch_env::variables;

use crate::error::Result;

/// Hosts of the ranks, and access to them.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Hosts, which are filled one after another; this host alone if empty. Ranks of other hosts are started by ssh, in a
    /// folder of the same name, with the same program.
    pub hosts: Vec<HostSlots>,
    /// Address of this host for ranks of others; by default the one from which the first of them is reached.
    pub address: Option<IpAddr>,
    /// Program that starts a command on another host: it gets the name of the host and a line of a shell.
    pub ssh: String,
    /// `true` to allow ranks on several hosts without TLS.
    pub unprotected_network: bool,
}

/// Host and the number of its ranks, written as `host1:2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSlots {
    name: String,
    slots: usize,
}

impl std::str::FromStr for HostSlots {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<HostSlots, String> {
        let (name, slots) = match text.rsplit_once(':') {
            Some((name, slots)) => (name, slots.parse().ok()),
            None => (text, Some(1)),
        };
        // A name with a leading dash would be an option of ssh.
        match slots.filter(|&n| n > 0) {
            Some(slots) if !name.is_empty() && !name.starts_with('-') => Ok(HostSlots {
                name: name.to_owned(),
                slots,
            }),
            _ => Err(format!(
                "'{text}' is no host: give a name and a number of ranks, as host1:2"
            )),
        }
    }
}

/// Place of a rank: its host, and its number among the ranks there.
pub(crate) struct RankPlace {
    /// Name of the host; `None` for this one.
    host: Option<String>,
    local_rank: usize,
    local_size: usize,
}

impl HostOptions {
    /// `true` if a rank runs on another host than this one.
    fn has_remote(&self) -> bool {
        self.hosts.iter().any(|host| !is_local(&host.name))
    }

    /// IP address of the coordinator.
    ///
    /// # Errors
    /// The network is not trusted and nothing protects the job; the first other host has no address.
    pub(crate) fn coordinator_ip(&self, is_protected: bool) -> Result<IpAddr> {
        if !self.has_remote() {
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
        let other = self.hosts.iter().find(|host| !is_local(&host.name));
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
            // Nothing is sent: the system chooses the source address.
            socket.connect(to)?;
            Ok(socket.local_addr()?.ip())
        };
        found().map_err(|e| {
            format!("the host '{name}': {e}: give --address, the address of this host that the others reach").into()
        })
    }

    /// Places of so many ranks: hosts are filled one after another.
    ///
    /// # Errors
    /// The hosts have fewer slots.
    pub(crate) fn places(&self, ranks: usize) -> Result<Vec<RankPlace>> {
        if self.hosts.is_empty() {
            let place = |local_rank| RankPlace {
                host: None,
                local_rank,
                local_size: ranks,
            };
            return Ok((0..ranks).map(place).collect());
        }
        let mut places = Vec::new();
        for host in &self.hosts {
            let local_size = host.slots.min(ranks - places.len());
            places.extend((0..local_size).map(|local_rank| RankPlace {
                host: (!is_local(&host.name)).then(|| host.name.clone()),
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

    /// Command that starts a rank at its place, and its standard input: the secret, which must not be in a command line.
    ///
    /// # Errors
    /// The current folder has no path.
    pub(crate) fn command(
        &self,
        place: &RankPlace,
        (program, args): (&std::path::Path, &[String]),
        set: &[(&str, String)],
        secret: &str,
    ) -> Result<(Command, Option<String>)> {
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
        // Variables that the user has set for all ranks.
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| {
                let passed = name.starts_with("HOROVOD_") || name.starts_with("THALWEG_");
                passed && name != variables::SECRET
            });
        let set = own.chain(set.map(|(name, value)| (name.to_owned(), value)));
        let set: Vec<String> = set
            .map(|(name, value)| shell_quoted(&format!("{name}={value}")))
            .collect();
        let folder = std::env::current_dir()?;
        let args: Vec<String> = args.iter().map(|arg| shell_quoted(arg)).collect();
        let line = format!(
            "IFS= read -r {secret} && export {secret} && cd {folder} && exec env {} {program} {}",
            set.join(" "),
            args.join(" "),
            secret = variables::SECRET,
            folder = shell_quoted(&folder.to_string_lossy()),
            program = shell_quoted(&program.to_string_lossy()),
        );
        let mut command = Command::new(&self.ssh);
        command.args([host, &line]);
        Ok((command, Some(format!("{secret}\n"))))
    }
}

/// Quotes a word for a shell.
fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> std::result::Result<HostSlots, String> {
        text.parse()
    }

    #[test]
    fn a_host_is_parsed_as_name_and_slots() {
        let of = |name: &str, slots| {
            Ok(HostSlots {
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
    fn a_shell_prints_a_quoted_word_unchanged() {
        for word in ["", "a b", "it's", "$HOME `x` \\ \" ;&|", "'"] {
            let line = format!("printf %s {}", shell_quoted(word));
            let printed = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(printed.stdout).unwrap(), word);
        }
    }
}
