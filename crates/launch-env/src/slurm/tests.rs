use super::*;
use crate::testing::{SALLOC, SBATCH, SMALLER_STEP, SRUN, lookup};

/// Hosts of the tasks, in order.
fn hosts(lines: &str) -> Result<String, SlurmError> {
    let tasks = Allocation::from_variables(&lookup(lines))?.tasks;
    let text = |(host, before): &(String, usize)| format!("{host}.{before}");
    Ok(tasks.iter().map(text).collect::<Vec<_>>().join(" "))
}

/// A step of eight tasks on three nodes, in a distribution.
fn step(distribution: &str, tasks_per_node: &str) -> String {
    format!(
        "SLURM_DISTRIBUTION={distribution}
        SLURM_STEP_NODELIST=node[1-3]
        SLURM_STEP_NUM_TASKS=8
        SLURM_STEP_TASKS_PER_NODE={tasks_per_node}
        SLURM_PROCID=0"
    )
}

/// The expected hosts and local numbers are those that `srun -O -N3 -n8 -m DISTRIBUTION` of Slurm 22.05 has given its tasks.
#[test]
fn tasks_are_distributed_as_srun_distributes_them() {
    let cases = [
        (
            "block",
            "3(x2),2",
            "node1.0 node1.1 node1.2 node2.0 node2.1 node2.2 node3.0 node3.1",
        ),
        (
            "cyclic",
            "3(x2),2",
            "node1.0 node2.0 node3.0 node1.1 node2.1 node3.1 node1.2 node2.2",
        ),
        (
            "plane\nSLURM_DIST_PLANESIZE=2",
            "3(x2),2",
            "node1.0 node1.1 node2.0 node2.1 node3.0 node3.1 node1.2 node2.2",
        ),
        (
            "plane\nSLURM_DIST_PLANESIZE=3",
            "4,3,1",
            "node1.0 node1.1 node1.2 node2.0 node2.1 node2.2 node3.0 node1.3",
        ),
    ];
    for (distribution, tasks, expected) in cases {
        assert_eq!(
            hosts(&step(distribution, tasks)).unwrap(),
            expected,
            "{distribution}"
        );
    }
    let error = hosts(&step("arbitrary", "3(x2),2")).unwrap_err();
    assert_eq!(error.variable, "SLURM_DISTRIBUTION");
}

#[test]
fn a_step_goes_before_its_job() {
    let larger = "SLURM_JOB_NODELIST=node[1-9]\nSLURM_NTASKS=18\nSLURM_TASKS_PER_NODE=2(x9)\n";
    assert_eq!(
        hosts(&format!("{larger}{SMALLER_STEP}")).unwrap(),
        "node1.0 node2.0"
    );
    assert_eq!(
        hosts(SRUN).unwrap(),
        "node1.0 node1.1 node2.0 node2.1 node3.0"
    );
    assert_eq!(hosts(SBATCH).unwrap(), "node1.0 node1.1 node2.0 node2.1");
    assert_eq!(hosts(SALLOC).unwrap_err().variable, "SLURM_PROCID");
}

#[test]
fn variables_that_do_not_fit_are_errors_that_name_them() {
    let cases = [
        (step("block", "2(x"), "SLURM_STEP_TASKS_PER_NODE"),
        (step("block", "1"), "SLURM_STEP_TASKS_PER_NODE"),
        (step("plane", "3(x2),2"), "SLURM_DIST_PLANESIZE"),
        (
            step("block", "3(x2),2").replace("node[", "node"),
            "SLURM_STEP_NODELIST",
        ),
        (
            step("block", "3(x2),2").replace("TASKS=8", "TASKS=99999999"),
            "SLURM_PROCID",
        ),
        (
            step("block", "3(x2),2").replace("PROCID=0", "PROCID=8"),
            "SLURM_PROCID",
        ),
    ];
    for (lines, variable) in cases {
        assert_eq!(hosts(&lines).unwrap_err().variable, variable, "{lines}");
    }
}
