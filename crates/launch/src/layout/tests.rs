//! Places of tasks by the rules of the report's scripts, and their errors.

use std::collections::BTreeSet;

use super::*;

fn hosts(slots: &[Option<usize>]) -> Vec<JobHost> {
    let all = slots.iter().enumerate();
    all.map(|(at, &slots)| JobHost {
        name: format!("h{at}"),
        address: None,
        slots,
    })
    .collect()
}

/// Tasks and their hosts and ports, such as `ps0 h0:2230`.
fn placed(shape: ClusterShape, hosts: &[JobHost]) -> Vec<String> {
    let mut tasks = place(&JobShape::Cluster(shape), hosts).unwrap();
    let none = vec![HostResources::default(); hosts.len()];
    assign(&mut tasks, &none, &PortChoice::fixed(20), SPLIT).unwrap();
    let all = tasks.iter();
    all.map(|t| format!("{}{} h{}:{}", t.kind, t.index, t.host, t.port))
        .collect()
}

const SPLIT: Sharing = Sharing {
    split_gpus: true,
    bind_cores: true,
};

#[test]
fn by_default_each_host_has_a_worker_and_the_first_a_server() {
    let found = placed(ClusterShape::default(), &hosts(&[None; 2]));
    assert_eq!(found, ["ps0 h0:2230", "worker0 h0:2220", "worker1 h1:2220"]);
}

#[test]
fn servers_and_workers_fill_the_hosts_in_order() {
    let several = ClusterShape {
        servers: 3,
        workers: Some(3),
        servers_per_host: 2,
        workers_per_host: Some(2),
        servers_beside_workers: true,
    };
    let expected = [
        "ps0 h0:2230",
        "ps1 h0:2231",
        "ps2 h1:2230",
        "worker0 h0:2220",
        "worker1 h0:2221",
        "worker2 h1:2220",
    ];
    assert_eq!(placed(several.clone(), &hosts(&[None; 3])), expected);
    let apart = ClusterShape {
        servers_beside_workers: false,
        workers: Some(2),
        ..several
    };
    let found = placed(apart, &hosts(&[None; 3]));
    assert_eq!(found[3..], ["worker0 h2:2220", "worker1 h2:2221"]);
}

#[test]
fn slots_are_the_workers_of_a_host() {
    let found = placed(ClusterShape::default(), &hosts(&[Some(1), Some(2)]));
    let workers = ["worker0 h0:2220", "worker1 h1:2220", "worker2 h1:2221"];
    assert_eq!(found[1..], workers);
}

#[test]
fn workers_beyond_ten_pass_over_the_ports_of_servers() {
    let many = ClusterShape {
        workers: Some(12),
        workers_per_host: Some(12),
        ..ClusterShape::default()
    };
    let found = placed(many, &hosts(&[None]));
    assert_eq!(
        found[10..],
        ["worker9 h0:2229", "worker10 h0:2231", "worker11 h0:2232"]
    );
}

#[test]
fn too_few_hosts_are_an_error_that_names_the_flag() {
    let error = |shape: ClusterShape, count: usize| {
        let found = place(&JobShape::Cluster(shape), &hosts(&vec![None; count]));
        found.unwrap_err().to_string()
    };
    let servers = ClusterShape {
        servers: 5,
        servers_per_host: 2,
        ..ClusterShape::default()
    };
    let said = error(servers, 2);
    assert!(
        said.contains("--ps 5 with --ps-per-node 2 needs 3 hosts, and there are 2"),
        "{said}"
    );
    let workers = ClusterShape {
        workers: Some(3),
        ..ClusterShape::default()
    };
    let said = error(workers, 2);
    assert!(
        said.contains("--workers 3: the 2 hosts of workers have room for 2"),
        "{said}"
    );
    let apart = ClusterShape {
        servers_beside_workers: false,
        ..ClusterShape::default()
    };
    let said = error(apart, 1);
    assert!(
        said.contains("--ps-in-worker false leaves no host"),
        "{said}"
    );
    let none = ClusterShape {
        workers: Some(0),
        ..ClusterShape::default()
    };
    assert!(error(none, 1).contains("--workers 0 trains nothing"));
    let zero = ClusterShape {
        servers_per_host: 0,
        ..ClusterShape::default()
    };
    assert!(error(zero, 1).contains("are at least 1"));
}

#[test]
fn ranks_fill_the_slots_in_order() {
    let tasks = place(&JobShape::Ranks(4), &hosts(&[Some(1), Some(2), Some(4)])).unwrap();
    let places: Vec<_> = tasks
        .iter()
        .map(|t| (t.host, t.local, t.local_size))
        .collect();
    assert_eq!(places, [(0, 0, 1), (1, 0, 2), (1, 1, 2), (2, 0, 1)]);
    let error = place(&JobShape::Ranks(4), &hosts(&[None, Some(2)])).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("the hosts have 3 slots for 4 ranks"),
        "{said}"
    );
    assert_eq!(
        place(&JobShape::Ranks(3), &hosts(&[None])).unwrap().len(),
        3
    );
}

#[test]
fn taken_ports_are_passed_over_and_servers_see_no_gpu() {
    let two = ClusterShape {
        workers: Some(2),
        workers_per_host: Some(2),
        ..ClusterShape::default()
    };
    let mut tasks = place(&JobShape::Cluster(two), &hosts(&[None])).unwrap();
    let resources = HostResources {
        taken_ports: BTreeSet::from([2220, 2230]),
        gpus: ["0", "1", "2", "3"].map(str::to_owned).to_vec(),
        cores: vec![(0..4).collect()],
    };
    assign(&mut tasks, &[resources], &PortChoice::fixed(3), SPLIT).unwrap();
    let ports: Vec<u16> = tasks.iter().map(|t| t.port).collect();
    assert_eq!(ports, [2231, 2221, 2222]);
    let gpus: Vec<String> = tasks
        .iter()
        .map(|t| t.gpus.clone().unwrap().join(","))
        .collect();
    assert_eq!(gpus, ["", "0,1", "2,3"]);
    let cores: Vec<&[usize]> = tasks.iter().map(|t| &t.cores[..]).collect();
    assert_eq!(cores, [&[0][..], &[1], &[2, 3]]);
}
