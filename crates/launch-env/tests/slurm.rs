//! Readers beside a real Slurm, which `tests/slurm.sh` starts. Without Slurm the tests are skipped; `REQUIRE_SLURM=1` fails then.
#![cfg(unix)]

#[path = "../../../tests/support/slurm.rs"]
mod slurm;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use slurm::Slurm;
use thalweg_launch_env::slurm::Allocation;
use thalweg_launch_env::{
    CoordinatorAddress, LaunchedRank, Launcher, Role, compress_hosts, expand_hosts,
};

impl Slurm {
    /// Runs a command of Slurm; its output, or `None` if it fails.
    fn run(&self, command: &[&str]) -> Option<String> {
        let output = self
            .command(command[0])
            .args(&command[1..])
            .env("OUT", &self.folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    /// Names of a list, by `scontrol`; `None` if it refuses the list.
    fn hostnames(&self, list: &str) -> Option<Vec<String>> {
        let text = self.run(&["scontrol", "show", "hostnames", list])?;
        let names: Vec<String> = text.lines().map(str::to_owned).collect();
        (!names.is_empty()).then_some(names)
    }

    /// Environments of the tasks of a step, by rank. The arguments come before `sh`.
    fn environments(&self, step: &[&str], tasks: usize) -> Vec<String> {
        let write = r#"env > "$OUT/env.$SLURM_PROCID""#;
        let command = [step, &["sh", "-c", write]].concat();
        assert!(self.run(&command).is_some(), "{command:?}");
        let file = |rank: usize| self.folder.join(format!("env.{rank}"));
        let read = |rank| std::fs::read_to_string(file(rank)).unwrap();
        (0..tasks).map(read).collect()
    }
}

/// Looks up a variable in the output of `env`.
fn lookup(lines: &str) -> impl Fn(&str) -> Option<String> {
    move |name| {
        let mut set = lines.lines().filter_map(|line| line.split_once('='));
        set.find(|(n, _)| *n == name).map(|(_, v)| v.to_owned())
    }
}

/// Host lists that both accept: brackets are last.
fn lists() -> impl Strategy<Value = String> {
    let range = (0u32..120, 0usize..4, 0u32..5).prop_map(|(first, width, more)| match more {
        0 => format!("{first:0width$}"),
        _ => format!("{first:0width$}-{}", first + more),
    });
    let brackets = prop::collection::vec(range, 1..4).prop_map(|r| format!("[{}]", r.join(",")));
    let one = ("[a-z]{1,3}", brackets.clone()).prop_map(|(p, b)| format!("{p}{b}"));
    let two = ("[a-z]{1,2}", brackets.clone(), "[a-z-]?", brackets);
    let two = two.prop_map(|(p, a, m, b)| format!("{p}{a}{m}{b}"));
    let item = prop_oneof!["[a-z]{1,4}[0-9]{0,4}", one, two];
    prop::collection::vec((item, "(,|, | )"), 1..5).prop_map(|items| {
        let text: String = items.into_iter().map(|(item, end)| item + &end).collect();
        text
    })
}

#[test]
fn lists_expand_as_scontrol_expands_them() {
    let Some(slurm) = Slurm::start("lists", 1) else {
        return;
    };
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(150)
    });
    let check = |list: String| {
        let names = expand_hosts(&list).unwrap();
        prop_assert_eq!(slurm.hostnames(&list), Some(names.clone()), "{}", list);
        let short = compress_hosts(&names);
        prop_assert_eq!(Some(names), slurm.hostnames(&short), "{}", short);
        Ok(())
    };
    runner.run(&lists(), check).unwrap();
    for refused in [
        "a[3-1]",
        "a[]",
        "a[1,,2]",
        "a[x]",
        "a[-3]",
        "a[[1]]",
        "a[0-65536]",
    ] {
        assert!(expand_hosts(refused).is_err(), "{refused}");
        assert_eq!(slurm.hostnames(refused), None, "{refused}");
    }
}

#[test]
fn tasks_of_steps_find_their_ranks_and_hosts() {
    let Some(slurm) = Slurm::start("steps", 3) else {
        return;
    };
    let steps: &[(&[&str], usize)] = &[
        (&["srun", "-N3", "-n5"], 5),
        (&["srun", "-O", "-N3", "-n8", "-m", "block"], 8),
        (&["srun", "-O", "-N3", "-n8", "-m", "cyclic"], 8),
        (&["srun", "-O", "-N3", "-n8", "-m", "plane=2"], 8),
        (&["srun", "-O", "-N3", "-n8", "-m", "plane=3"], 8),
        (&["salloc", "-N3", "-n6", "srun", "-N2", "-n2"], 2),
        (&["srun", "--mpi=pmi2", "-N2", "-n4"], 4),
    ];
    for (step, size) in steps {
        let environments = slurm.environments(step, *size);
        let hosts = Allocation::from_variables(&lookup(&environments[0]))
            .unwrap()
            .tasks;
        for (rank, lines) in environments.iter().enumerate() {
            let get = lookup(lines);
            let number = |name: &str| get(name).unwrap().parse::<usize>().unwrap();
            let own = (get("SLURMD_NODENAME").unwrap(), number("SLURM_LOCALID"));
            assert_eq!(hosts[rank], own, "{step:?}");
            // Slurm lists the tasks of a node in one variable.
            let local_size = get("SLURM_GTIDS").unwrap().split(',').count();
            let found = LaunchedRank::from_variables(&get).unwrap().unwrap();
            let expected = LaunchedRank {
                launcher: Launcher::Srun,
                rank,
                size: *size,
                local_rank: Some(own.1),
                local_size: Some(local_size),
            };
            assert_eq!(found, expected, "{step:?}");
            let Role::Rank { coordinator, .. } = Role::from_variables(&get).unwrap() else {
                panic!("{step:?}");
            };
            let CoordinatorAddress::RankZero { host, .. } = coordinator else {
                panic!("{step:?}");
            };
            assert_eq!(host, hosts[0].0, "{step:?}");
        }
    }
}

#[test]
fn a_script_or_shell_of_a_job_is_no_rank() {
    let Some(slurm) = Slurm::start("alone", 2) else {
        return;
    };
    let shell = slurm.run(&["salloc", "-N2", "-n4", "env"]).unwrap();
    let batch = "sbatch -W -N2 -n4 -o /dev/null --wrap 'env > \"$OUT/env.batch\"'";
    assert!(slurm.run(&["sh", "-c", batch]).is_some());
    let batch = std::fs::read_to_string(slurm.folder.join("env.batch")).unwrap();
    for lines in [shell, batch] {
        let get = lookup(&lines);
        assert_eq!(get("SLURM_NTASKS").as_deref(), Some("4"));
        assert_eq!(LaunchedRank::from_variables(&get), Ok(None));
    }
}
