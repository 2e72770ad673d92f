//! Tests of descriptions of clusters, and of their errors.

use std::collections::BTreeMap;

use thalweg_dist::cluster::{ClusterSpec, SpecError, expand_hosts};

fn tasks(cluster: &ClusterSpec, job: &str) -> Vec<(u32, String)> {
    cluster.tasks(job).map(|(i, a)| (i, a.to_owned())).collect()
}

#[test]
fn flags_list_addresses_with_commas() {
    let flags = [
        ("ps", "a:2230, b:2230"),
        ("worker", "c:2220"),
        ("chief", ""),
    ];
    let cluster = ClusterSpec::from_flags(&flags).unwrap();
    assert_eq!(cluster.jobs().collect::<Vec<_>>(), ["ps", "worker"]);
    let ps = vec![(0, "a:2230".to_owned()), (1, "b:2230".to_owned())];
    assert_eq!(tasks(&cluster, "ps"), ps);
    assert_eq!(cluster.address("worker", 0).unwrap(), "c:2220");
    let error = cluster.address("worker", 3).unwrap_err().to_string();
    assert!(error.contains("/job:worker/task:3"), "{error}");
    assert!(error.contains("/job:ps has tasks 0 to 1"), "{error}");
}

#[test]
fn tf_config_names_the_cluster_and_the_task() {
    let text = r#"{"cluster": {"ps": ["h:1"], "worker": {"0": "h:2", "7": "h:3"}},
                   "task": {"type": "worker", "index": "7"}, "environment": "cloud"}"#;
    let (cluster, task) = ClusterSpec::from_tf_config(text).unwrap();
    assert_eq!(task, Some(("worker".to_owned(), 7)));
    let workers = vec![(0, "h:2".to_owned()), (7, "h:3".to_owned())];
    assert_eq!(tasks(&cluster, "worker"), workers);
    for wrong in [
        "",
        "{",
        "{}",
        r#"{"cluster": []}"#,
        r#"{"cluster": {"ps": 3}}"#,
        r#"{"cluster": {"ps": [3]}}"#,
        r#"{"cluster": {"ps": {"x": "h:1"}}}"#,
        r#"{"cluster": {"ps": ["h:1"]}, "task": {}}"#,
        r#"{"cluster": {"ps": ["h:1"]}, "task": {"type": "ps", "index": 1}}"#,
    ] {
        assert!(ClusterSpec::from_tf_config(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn cluster_mistakes_are_typed_errors() {
    let one = |job: &str, address: &str| ClusterSpec::new([(job, vec![address])]).unwrap_err();
    assert!(matches!(one("1a", "h:1"), SpecError::JobName(_)));
    assert!(matches!(one("a/b", "h:1"), SpecError::JobName(_)));
    for address in [
        "",
        "h",
        "h:",
        ":1",
        "h:0",
        "h:65536",
        "http://h:1",
        "::1:5",
        "a b:1",
    ] {
        let error = one("ps", address);
        assert!(matches!(error, SpecError::Address { .. }), "{error}");
    }
    ClusterSpec::new([("ps", vec!["[::1]:5"])]).unwrap();
    let none: Vec<String> = Vec::new();
    let empty = ClusterSpec::new([("ps", none)]).unwrap_err();
    assert_eq!(empty, SpecError::EmptyJob("ps".to_owned()));
    let twice = ClusterSpec::new([("ps", vec!["h:1"]), ("worker", vec!["h:2", "h:1"])]);
    let twice = twice.unwrap_err().to_string();
    assert!(twice.contains("/job:ps/task:0"), "{twice}");
    assert!(twice.contains("/job:worker/task:1"), "{twice}");
}

#[test]
fn slurm_host_lists_are_expanded() {
    let expand = |list: &str| expand_hosts(list).unwrap().join(" ");
    assert_eq!(
        expand("nid[001-003,7],login"),
        "nid001 nid002 nid003 nid7 login"
    );
    assert_eq!(expand("a-[9-11]-x"), "a-9-x a-10-x a-11-x");
    assert_eq!(expand("one"), "one");
    for wrong in [
        "a[1-",
        "a[x]",
        "a[3-1]",
        "a[0-99999999999]",
        "a[1-70000],b[1-70000]",
    ] {
        assert!(expand_hosts(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_slurm_allocation_is_a_cluster() {
    let environment = |own: &str| {
        let set = [
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("SLURM_NTASKS", "5"),
            ("SLURM_PROCID", own),
        ];
        let set = set.map(|(k, v)| (k.to_owned(), v.to_owned()));
        BTreeMap::from(set)
    };
    let at = |own: &str| {
        let set = environment(own);
        ClusterSpec::from_slurm(1, 2220, |name| set.get(name).cloned())
    };
    let (cluster, task) = at("0").unwrap();
    assert_eq!(task, ("ps".to_owned(), 0));
    assert_eq!(cluster.address("ps", 0).unwrap(), "n1:2220");
    let workers = |cluster: &ClusterSpec| -> Vec<String> {
        cluster.tasks("worker").map(|(_, a)| a.to_owned()).collect()
    };
    // One host after the other, as many tasks as fit.
    assert_eq!(
        workers(&cluster),
        ["n1:2221", "n1:2222", "n2:2220", "n2:2221"]
    );
    let with = |more: (&str, &str)| {
        let mut set = environment("0");
        set.insert(more.0.to_owned(), more.1.to_owned());
        ClusterSpec::from_slurm(1, 2220, |name| set.get(name).cloned()).map(|(c, _)| c)
    };
    let uneven = with(("SLURM_TASKS_PER_NODE", "1,4")).unwrap();
    assert_eq!(
        workers(&uneven),
        ["n2:2220", "n2:2221", "n2:2222", "n2:2223"]
    );
    let in_turn = with(("SLURM_DISTRIBUTION", "cyclic:block")).unwrap();
    assert_eq!(
        workers(&in_turn),
        ["n2:2220", "n1:2221", "n2:2221", "n1:2222"]
    );
    assert!(with(("SLURM_TASKS_PER_NODE", "2(x")).is_err());
    assert!(with(("SLURM_TASKS_PER_NODE", "1")).is_err());
    assert_eq!(at("3").unwrap().1, ("worker".to_owned(), 2));
    assert!(at("5").is_err());
    // A step may have fewer hosts and tasks than its job.
    let mut step = environment("0");
    let more = [
        ("SLURM_STEP_NODELIST", "n[2,4]"),
        ("SLURM_STEP_NUM_TASKS", "3"),
        ("SLURM_STEP_TASKS_PER_NODE", "1,2"),
    ];
    step.extend(more.map(|(k, v)| (k.to_owned(), v.to_owned())));
    let (cluster, _) = ClusterSpec::from_slurm(1, 2220, |name| step.get(name).cloned()).unwrap();
    assert_eq!(cluster.address("ps", 0).unwrap(), "n2:2220");
    assert_eq!(workers(&cluster), ["n4:2220", "n4:2221"]);
    let unset = ClusterSpec::from_slurm(1, 2220, |_| None).unwrap_err();
    assert!(unset.to_string().contains("srun"), "{unset}");
}
