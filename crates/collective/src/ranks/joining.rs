//! Rendezvous: ranks join a job and connect.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use thalweg_estimate::LinkCost;
use thalweg_launch_env::host;

use super::{ALL_RANKS, Ranks, rank_zero};
use crate::collective::Set;
use crate::control::{Control, Coordinator};
use crate::error::{CollectiveError, Result};
use crate::join::Join;
use crate::links::tcp::{Listening, TcpLinks};
use crate::links::{Incoming, Links, Outgoing};
use crate::phase_timer::PhaseTimer;
#[cfg(feature = "mpi")]
use crate::secret::Secret;

/// Maximum number of connections of a link.
const MAX_CONNECTIONS: usize = 64;

/// Links of a single rank: there is no other one.
struct NoLinks;

impl Links for NoLinks {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn exchange(&mut self, _: Option<Outgoing<'_>>, _: Option<Incoming<'_>>) -> Result<()> {
        Ok(())
    }
}

impl Ranks {
    /// Joins the job, and waits for the other ranks.
    ///
    /// # Errors
    /// [`CollectiveError::Rendezvous`], [`CollectiveError::Late`].
    pub fn join(join: &Join) -> Result<Ranks> {
        #[cfg(feature = "mpi")]
        if join.mpi {
            return Ranks::join_by_mpi(join);
        }
        let Some(place) = &join.coordinator else {
            return Ok(Ranks {
                rank: 0,
                hosts: vec![0],
                control: None,
                links: Box::new(NoLinks),
                sets: BTreeMap::from([(ALL_RANKS, Set::alone(0))]),
                cost: LinkCost::default(),
                memory: false,
                negotiates: join.negotiated,
                timer: PhaseTimer::default(),
                timeouts: join.timeouts,
                coordinator: None,
            });
        };
        let (rank, size) = (join.rank, join.size);
        let (address, coordinator) = rank_zero::meet(join, place)?;
        let control = Control::join(address, (rank, size), &join.secret, join.timeouts)?;
        let control = Arc::new(control);
        let failed = |e: std::io::Error| CollectiveError::Rendezvous(e.to_string());
        let most = size * join.connections.clamp(1, MAX_CONNECTIONS);
        let listening = Listening::start(control.own_address(), most, &join.secret);
        let listening = listening.map_err(failed)?;
        let own = json!({
            "address": listening.address().to_string(),
            "host": join.host.clone().unwrap_or_else(host::identity),
            "memory": join.memory,
            "negotiated": join.negotiated,
            "connections": join.connections,
        });
        let table = control.gather("ranks", &own)?;
        let addresses = table.iter().map(|v| v["address"].as_str()?.parse().ok());
        let addresses: Option<Vec<SocketAddr>> = addresses.collect();
        let unusable = || CollectiveError::Rendezvous("a rank has no usable address".to_owned());
        let links = TcpLinks::new(
            rank,
            (addresses.ok_or_else(unusable)?, connections(&table, rank)),
            listening,
            control.clone(),
            &join.secret,
        );
        let timer = links.timer().clone();
        let links = Box::new(links);
        Ranks::from_table(&table, (control, timer), links, join, coordinator)
    }

    /// Joins a job that `mpirun` has started: the first rank has the coordinator.
    #[cfg(feature = "mpi")]
    fn join_by_mpi(join: &Join) -> Result<Ranks> {
        let (met, coordinator) = crate::links::mpi::MpiRendezvous::begin()?;
        let (place, launched) = (met.place(), (join.rank, join.size));
        if join.launched_by_mpi && place != launched {
            let text = format!(
                "MPI has rank {} of {}, and the launcher rank {} of {}: build the program for the MPI of its launcher",
                place.0, place.1, launched.0, launched.1
            );
            return Err(CollectiveError::Rendezvous(text));
        }
        let secret = Secret::from(&met.secret);
        let control = Control::join(met.address, place, &secret, join.timeouts)?;
        let control = Arc::new(control);
        // MPI shares memory itself.
        let own = json!({
            "host": join.host.clone().unwrap_or_else(host::identity),
            "memory": false,
            "negotiated": join.negotiated,
        });
        let table = control.gather("ranks", &own)?;
        let links = Box::new(met.links(control.clone()));
        // MPI does not measure its phases.
        Ranks::from_table(
            &table,
            (control, PhaseTimer::default()),
            links,
            join,
            coordinator,
        )
    }

    /// Builds the ranks from the table that they have exchanged, by rank.
    fn from_table(
        table: &[Value],
        (control, timer): (Arc<Control>, PhaseTimer),
        links: Box<dyn Links>,
        join: &Join,
        coordinator: Option<Coordinator>,
    ) -> Result<Ranks> {
        if let Some(rank) = table
            .iter()
            .position(|v| v["negotiated"] != join.negotiated)
        {
            let how = |negotiated: bool| match negotiated {
                true => "negotiated collectives",
                false => "collectives in one order",
            };
            return Err(CollectiveError::Differs {
                rank,
                theirs: how(!join.negotiated).to_owned(),
                ours: how(join.negotiated).to_owned(),
            });
        }
        let mut ranks = Ranks {
            rank: links.rank(),
            hosts: numbers(table, "host"),
            control: Some(control),
            links,
            sets: BTreeMap::new(),
            cost: LinkCost::default(),
            memory: table.iter().all(|v| v["memory"] == true),
            negotiates: join.negotiated,
            timer,
            timeouts: join.timeouts,
            coordinator,
        };
        ranks.add(ALL_RANKS, (0..table.len()).collect())?;
        ranks.measure()?;
        Ok(ranks)
    }
}

/// Number of connections of each link of a rank: several only if both ends want them and are on different hosts.
fn connections(table: &[Value], rank: usize) -> Vec<usize> {
    let hosts = numbers(table, "host");
    let wants = |of: usize| {
        let count = table[of]["connections"].as_u64().unwrap_or(1);
        usize::try_from(count).unwrap_or(1)
    };
    let link = |other: usize| match hosts[other] == hosts[rank] {
        true => 1,
        false => wants(other).min(wants(rank)).clamp(1, MAX_CONNECTIONS),
    };
    (0..table.len()).map(link).collect()
}

/// Number of each entry's text under this key; texts are numbered in the order of their first use.
fn numbers(table: &[Value], key: &str) -> Vec<usize> {
    let mut known: Vec<&Value> = Vec::new();
    let number = |entry: &'_ Value| entry[key].clone();
    let all: Vec<Value> = table.iter().map(number).collect();
    let mut of = Vec::new();
    for value in &all {
        let at = known.iter().position(|k| *k == value);
        of.push(at.unwrap_or_else(|| {
            known.push(value);
            known.len() - 1
        }));
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_hosts_have_the_smaller_number_of_connections_and_links_within_a_host_have_one()
    {
        let rank = |host: &str, connections: u64| json!({"host": host, "connections": connections});
        let table = [
            rank("a", 4),
            rank("a", 4),
            rank("b", 2),
            rank("c", 0),
            rank("d", 1000),
        ];
        assert_eq!(connections(&table, 0), [1, 1, 2, 1, 4]);
        assert_eq!(connections(&table, 4), [4, 4, 2, 1, 1]);
        let most = [rank("a", 1000), rank("b", 1000)];
        assert_eq!(connections(&most, 0), [1, MAX_CONNECTIONS]);
    }
}
