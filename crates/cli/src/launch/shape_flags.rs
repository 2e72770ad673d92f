//! Flags of the number and the places of the tasks of a job on several hosts.

use clap::{ArgAction, Args};
use thalweg_launch::{ClusterShape, JobShape};

use super::job_flags::RestartFlags;

/// Number and places of the tasks.
#[derive(Args)]
pub(super) struct ShapeFlags {
    /// Number of ranks, in place of a cluster: they fill the slots of the hosts in order. `-np 2`, as of horovodrun, is the same.
    #[arg(short = 'n', long = "np", value_name = "RANKS",
          value_parser = clap::value_parser!(u32).range(1..=65_536),
          conflicts_with_all = ["ps", "workers", "ps_per_node", "workers_per_node", "ps_in_worker"])]
    ranks: Option<u32>,
    /// Number of parameter servers (1). They run on the first hosts, and listen from port 2230 on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=65_536))]
    ps: Option<u32>,
    /// Number of workers. They listen from port 2220 on. Without this flag there is one for each slot of the hosts, or one for
    /// each host if no slots are given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=65_536))]
    workers: Option<u32>,
    /// Number of parameter servers that a host may have (1).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ps_per_node: Option<u32>,
    /// Number of workers that a host may have: its slots, or 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    workers_per_node: Option<u32>,
    /// Workers run on the hosts of parameter servers too (true), or on the others only.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    ps_in_worker: Option<bool>,
    #[command(flatten)]
    pub(super) restarts: RestartFlags,
    /// Takes random free ports in place of those from 2220 and 2230 on.
    #[arg(long)]
    pub(super) free_ports: bool,
}

impl ShapeFlags {
    /// `true` for ranks in place of a cluster.
    pub(super) fn is_ranks(&self) -> bool {
        self.ranks.is_some()
    }

    /// Shape of the job; `defaults` are the numbers where no flag is given.
    pub(super) fn shape(&self, defaults: ClusterShape) -> JobShape {
        let number = |flag: Option<u32>| flag.map(|n| n as usize);
        match self.ranks {
            Some(ranks) => JobShape::Ranks(ranks as usize),
            None => JobShape::Cluster(ClusterShape {
                servers: number(self.ps).unwrap_or(defaults.servers),
                workers: number(self.workers).or(defaults.workers),
                servers_per_host: number(self.ps_per_node).unwrap_or(defaults.servers_per_host),
                workers_per_host: number(self.workers_per_node).or(defaults.workers_per_host),
                servers_beside_workers: self
                    .ps_in_worker
                    .unwrap_or(defaults.servers_beside_workers),
            }),
        }
    }
}
