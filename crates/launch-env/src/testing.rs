//! Environments of tests.

/// Looks up a variable in lines of the form `NAME=value`, as `env` prints them.
pub(crate) fn lookup(lines: &str) -> impl Fn(&str) -> Option<String> {
    move |name| {
        let mut set = lines.lines().filter_map(|line| line.trim().split_once('='));
        set.find(|(n, _)| *n == name)
            .map(|(_, value)| value.to_owned())
    }
}

/// Rank 3 of `srun -N3 -n5` under Slurm 22.05, by `env`.
pub(crate) const SRUN: &str = "
    SLURMD_NODENAME=node2
    SLURM_GTIDS=2,3
    SLURM_JOB_ID=1
    SLURM_JOB_NODELIST=node[1-3]
    SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
    SLURM_LOCALID=1
    SLURM_NNODES=3
    SLURM_NODEID=1
    SLURM_NTASKS=5
    SLURM_PROCID=3
    SLURM_STEP_ID=0
    SLURM_STEP_NODELIST=node[1-3]
    SLURM_STEP_NUM_NODES=3
    SLURM_STEP_NUM_TASKS=5
    SLURM_STEP_TASKS_PER_NODE=2(x2),1
    SLURM_TASKS_PER_NODE=2(x2),1";

/// Rank 1 of `salloc -N3 -n6 srun -N2 -n2`: the step has fewer nodes and tasks than its job.
pub(crate) const SMALLER_STEP: &str = "
    SLURMD_NODENAME=node2
    SLURM_DISTRIBUTION=cyclic
    SLURM_GTIDS=1
    SLURM_JOB_ID=6
    SLURM_JOB_NODELIST=node[1-3]
    SLURM_LOCALID=0
    SLURM_NNODES=2
    SLURM_NODEID=1
    SLURM_NTASKS=2
    SLURM_PROCID=1
    SLURM_STEP_ID=0
    SLURM_STEP_NODELIST=node[1-2]
    SLURM_STEP_NUM_NODES=2
    SLURM_STEP_NUM_TASKS=2
    SLURM_STEP_TASKS_PER_NODE=1(x2)
    SLURM_TASKS_PER_NODE=1(x2)";

/// The shell of `salloc -N2 -n4`.
pub(crate) const SALLOC: &str = "
    SLURM_JOB_ID=5
    SLURM_JOB_NODELIST=node[1-2]
    SLURM_NNODES=2
    SLURM_NTASKS=4
    SLURM_TASKS_PER_NODE=2(x2)";

/// The script of `sbatch -N2 -n4`.
pub(crate) const SBATCH: &str = "
    SLURMD_NODENAME=node1
    SLURM_GTIDS=0
    SLURM_JOB_ID=7
    SLURM_JOB_NODELIST=node[1-2]
    SLURM_LOCALID=0
    SLURM_NNODES=2
    SLURM_NODEID=0
    SLURM_NTASKS=4
    SLURM_PROCID=0
    SLURM_TASKS_PER_NODE=2(x2)";
