//! Command lines, the table of tasks, and the task of a member.

use super::kind::MpiKind;
use super::line::LaunchLine;
use super::member::member_task;
use super::table::{TABLE, TaskTable};
use crate::layout::{ClusterShape, JobHost, JobShape, PlacedTask, Sharing, place};
use crate::protocol::StartTask;

const SHARING: Sharing = Sharing {
    split_gpus: true,
    bind_cores: false,
};

/// Two servers on a host each, and three workers on both: `a` has three tasks, and `b` two.
fn cluster() -> TaskTable {
    let host = |name: &str| JobHost {
        name: name.to_owned(),
        slots: Some(2),
        ..JobHost::default()
    };
    let shape = JobShape::Cluster(ClusterShape {
        servers: 2,
        workers: Some(3),
        ..ClusterShape::default()
    });
    let mut tasks = place(&shape, &[host("a"), host("b")]).unwrap();
    for (task, port) in tasks.iter_mut().zip([2230, 2230, 2220, 2221, 2220]) {
        task.port = port;
    }
    table(&tasks, &["10.0.0.1", "fe80::2"])
}

fn table(tasks: &[PlacedTask], addresses: &[&str]) -> TaskTable {
    let addresses = addresses.iter().map(|a| (*a).to_owned()).collect();
    TaskTable::new(tasks, addresses, SHARING, false)
}

fn words(kind: MpiKind, is_root: bool) -> String {
    let own = |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
    let hosts = [("a".to_owned(), 2), ("b".to_owned(), 1)];
    let line = LaunchLine {
        kind,
        program: kind.program(),
        hosts: &hosts,
        variables: &own(&["A", "B"]),
        args: &own(&["--user-option"]),
        is_root,
        member: &own(&["thalweg", "launch", "member", "--", "train"]),
    };
    line.words().join(" ")
}

#[test]
fn each_mpi_has_its_own_command_line() {
    let member = "--user-option thalweg launch member -- train";
    assert_eq!(
        words(MpiKind::OpenMpi, false),
        format!("mpirun -np 3 --host a:2,b:1 -bind-to none -map-by slot -x A -x B {member}")
    );
    assert!(words(MpiKind::OpenMpi, true).starts_with("mpirun --allow-run-as-root -np 3 "));
    assert_eq!(
        words(MpiKind::Hydra, true),
        format!("mpirun -np 3 -hosts a:2,b:1 -genvlist A,B {member}")
    );
    assert_eq!(
        words(MpiKind::Srun, true),
        format!(
            "srun --mpi=pmi2 --nodes=2 --ntasks=3 --distribution=arbitrary --nodelist=a,a,b --overcommit --overlap --cpu-bind=none \
             --kill-on-bad-exit=1 --quiet {member}"
        )
    );
}

#[test]
fn the_version_of_mpirun_tells_its_mpi() {
    for (text, kind) in [
        ("mpirun (Open MPI) 5.0.3", Some(MpiKind::OpenMpi)),
        ("mpirun.openmpi (OpenRTE) 4.1.4", Some(MpiKind::OpenMpi)),
        (
            "HYDRA build details:\n Version: 4.0.2",
            Some(MpiKind::Hydra),
        ),
        (
            "Intel(R) MPI Library for Linux* OS, Version 2021.9",
            Some(MpiKind::Hydra),
        ),
        ("slurm-wlm 22.05.8", Some(MpiKind::Srun)),
        ("something else", None),
    ] {
        assert_eq!(MpiKind::of_version(text), kind, "{text}");
    }
    let error = MpiKind::of_program("/no/such/mpirun").unwrap_err();
    assert!(error.to_string().contains("cannot be started"), "{error}");
    let error = MpiKind::of_program("true").unwrap_err();
    assert!(error.to_string().contains("give --mpi"), "{error}");
}

#[test]
fn ranks_of_a_table_are_the_tasks_host_by_host() {
    let table = TaskTable::parse(&cluster().text().unwrap()).unwrap();
    assert_eq!(table, cluster());
    let name = |rank| {
        let (tasks, own) = table.host_of(rank)?;
        Some((tasks[own].name(), tasks[own].port, tasks[own].local_size))
    };
    let expected = [
        ("ps 0", 2230, 1),
        ("worker 0", 2220, 2),
        ("worker 1", 2221, 2),
        ("ps 1", 2230, 1),
        ("worker 2", 2220, 1),
    ];
    for (rank, (task, port, size)) in expected.into_iter().enumerate() {
        assert_eq!(name(rank), Some((task.to_owned(), port, size)));
    }
    assert_eq!(name(5), None);
}

/// Member whose variables are these, and the table of [`cluster`].
fn member(set: &[(&str, &str)]) -> Result<StartTask, String> {
    let text = cluster().text().unwrap();
    let get = |name: &str| match name {
        TABLE => Some(text.clone()),
        _ => {
            let found = set.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    };
    let command = ["train".to_owned(), "--steps=5".to_owned()];
    member_task(&command, &get).map_err(|e| e.to_string())
}

#[test]
fn a_member_gets_the_flags_and_variables_of_its_task() {
    let open_mpi = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "5"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ];
    let StartTask { args, env, .. } = member(&open_mpi).unwrap();
    assert_eq!(
        args.join(" "),
        "--steps=5 --job_name ps --task_index 1 --ps_hosts 10.0.0.1:2230,[fe80::2]:2230 \
         --worker_hosts 10.0.0.1:2220,10.0.0.1:2221,[fe80::2]:2220"
    );
    assert_eq!(env[1], ("CUDA_VISIBLE_DEVICES".to_owned(), String::new()));
    assert_eq!(env[0].0, "TF_CONFIG");
    let config: serde_json::Value = serde_json::from_str(&env[0].1).unwrap();
    assert_eq!(
        config["task"],
        serde_json::json!({"type": "ps", "index": 1})
    );
    let args = member(&[("PMI_RANK", "4"), ("PMI_SIZE", "5")])
        .unwrap()
        .args;
    assert_eq!(args[1..5], ["--job_name", "worker", "--task_index", "2"]);
}

#[test]
fn a_member_that_does_not_fit_the_table_says_why() {
    let error = member(&[("PMI_RANK", "1"), ("PMI_SIZE", "4")]).unwrap_err();
    assert!(error.contains("there are 4 ranks, and 5 tasks"), "{error}");
    let elsewhere = [
        ("PMI_RANK", "1"),
        ("PMI_SIZE", "5"),
        ("MPI_LOCALRANKID", "0"),
        ("MPI_LOCALNRANKS", "3"),
    ];
    let error = member(&elsewhere).unwrap_err();
    assert!(error.contains("it is number 0 of its host"), "{error}");
    assert!(error.contains("--mpirun-args"), "{error}");
    let error = member(&[]).unwrap_err();
    assert!(error.contains("no variable tells the rank"), "{error}");
    let error = member_task(&["x".to_owned()], &|_| None).unwrap_err();
    assert!(error.to_string().contains("is not set"), "{error}");
}

#[test]
fn texts_that_are_no_table_are_refused() {
    for (text, why) in [
        ("", "EOF"),
        ("{}", "missing field"),
        (r#"{"version":"0.0.1"}"#, "install one version"),
        (r#"{"version":1}"#, "THALWEG_TASK_TABLE: "),
        (&" ".repeat(200_000), "more than"),
    ] {
        let error = TaskTable::parse(text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // A number of ranks takes no memory, and does not overflow.
    let text = cluster().text().unwrap();
    let text = text.replacen(
        r#""worker""#,
        &format!(r#""ranks":{},"worker""#, usize::MAX),
        2,
    );
    let table = TaskTable::parse(&text).unwrap();
    assert_eq!(table.len(), usize::MAX);
    assert!(table.host_of(1 << 40).is_some());
}

#[test]
fn a_table_that_is_too_long_for_a_variable_is_refused() {
    let host = |n: usize| JobHost {
        name: format!("a-host-with-a-long-name-{n}"),
        ..JobHost::default()
    };
    let hosts: Vec<JobHost> = (0..4000).map(host).collect();
    let tasks = place(&JobShape::Ranks(4000), &hosts).unwrap();
    let names: Vec<&str> = hosts.iter().map(|host| &*host.name).collect();
    let error = table(&tasks, &names).text().unwrap_err();
    assert!(error.to_string().contains("table of 4000 tasks"), "{error}");
}
