use super::*;
use crate::testing::{SALLOC, SBATCH, SMALLER_STEP, SRUN, lookup};

type Place = (Launcher, [usize; 2], [Option<usize>; 2]);

/// Launcher, rank and size, local rank and local size.
fn place(lines: &str) -> Option<Place> {
    let rank = LaunchedRank::from_variables(&lookup(lines)).unwrap()?;
    let local = [rank.local_rank, rank.local_size];
    Some((rank.launcher, [rank.rank, rank.size], local))
}

fn error(lines: &str) -> String {
    let read = LaunchedRank::from_variables(&lookup(lines));
    read.unwrap_err().to_string()
}

/// Rank 1 of `mpirun -n 3` of Open MPI 4.1.4, by `env`.
const OPEN_MPI: &str = "
    OMPI_COMM_WORLD_LOCAL_RANK=1
    OMPI_COMM_WORLD_LOCAL_SIZE=3
    OMPI_COMM_WORLD_NODE_RANK=1
    OMPI_COMM_WORLD_RANK=1
    OMPI_COMM_WORLD_SIZE=3
    OMPI_UNIVERSE_SIZE=2
    PMIX_NAMESPACE=224919553
    PMIX_RANK=1";

/// Rank 1 of `mpirun -n 3` of MPICH 4.0.2, by `env`.
const MPICH: &str = "
    MPI_LOCALNRANKS=3
    MPI_LOCALRANKID=1
    PMI_FD=8
    PMI_RANK=1
    PMI_SIZE=3";

/// Rank 2 of `salloc -N2 -n4 mpirun -n 4` of MPICH, whose processes on each node are children of a task of a step.
const MPICH_IN_SALLOC: &str = "
    MPI_LOCALNRANKS=2
    MPI_LOCALRANKID=0
    PMI_RANK=2
    PMI_SIZE=4
    SLURM_JOB_ID=9
    SLURM_LOCALID=0
    SLURM_NODEID=1
    SLURM_NTASKS=4
    SLURM_PROCID=1
    SLURM_STEP_ID=0
    SLURM_STEP_NODELIST=node[3-4]
    SLURM_STEP_NUM_TASKS=2
    SLURM_STEP_TASKS_PER_NODE=1(x2)";

#[test]
fn each_launcher_gives_rank_size_and_place_on_the_host() {
    use Launcher::*;
    let all = [Some(1), Some(2)];
    let cases = [
        (
            Torchrun,
            "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
            all,
        ),
        (
            Horovod,
            "HOROVOD_RANK=3 HOROVOD_SIZE=4 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2",
            all,
        ),
        (
            Mvapich,
            "MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2 PMI_RANK=3 PMI_SIZE=4",
            all,
        ),
        (
            Pals,
            "PALS_RANKID=3 PMI_RANK=3 PMI_SIZE=4 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2",
            all,
        ),
        (Hydra, "PMI_RANK=3 PMI_SIZE=4", [None, None]),
        (
            Flux,
            "FLUX_TASK_RANK=3 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=1",
            [Some(1), None],
        ),
        (
            Jsrun,
            "JSM_NAMESPACE_RANK=3 JSM_NAMESPACE_SIZE=4 JSM_NAMESPACE_LOCAL_RANK=1 JSM_NAMESPACE_LOCAL_SIZE=2",
            all,
        ),
        (
            Kubernetes,
            "JOB_COMPLETION_INDEX=3 THALWEG_JOB_SIZE=4",
            [None, None],
        ),
    ];
    for (launcher, set, local) in cases {
        let lines = set.replace(' ', "\n");
        assert_eq!(place(&lines), Some((launcher, [3, 4], local)), "{set}");
    }
    assert_eq!(place(OPEN_MPI), Some((OpenMpi, [1, 3], [Some(1), Some(3)])));
    assert_eq!(place(MPICH), Some((Hydra, [1, 3], [Some(1), Some(3)])));
    assert_eq!(place(SRUN), Some((Srun, [3, 5], [Some(1), Some(2)])));
    assert_eq!(place(""), None);
}

#[test]
fn a_step_has_its_own_number_of_tasks() {
    let small = (Launcher::Srun, [1, 2], [Some(0), Some(1)]);
    assert_eq!(place(SMALLER_STEP), Some(small));
}

#[test]
fn the_process_that_a_job_starts_on_its_own_is_no_rank() {
    assert_eq!(place(SALLOC), None);
    assert_eq!(place(SBATCH), None);
    // The shell of `salloc` with `use_interactive_step`.
    let interactive = format!("{SBATCH}\nSLURM_STEP_ID=4294967290\nSLURM_STEP_NUM_TASKS=1");
    assert_eq!(place(&interactive), None);
    // An item of an indexed Job, which need not be a rank.
    assert_eq!(place("JOB_COMPLETION_INDEX=3"), None);
}

#[test]
fn the_first_launcher_in_the_order_counts() {
    let within = |lines: &str| place(&format!("{lines}{SRUN}")).unwrap().0;
    assert_eq!(within(OPEN_MPI), Launcher::OpenMpi);
    let mpich = place(MPICH_IN_SALLOC);
    assert_eq!(mpich, Some((Launcher::Hydra, [2, 4], [Some(0), Some(2)])));
    assert_eq!(within("HOROVOD_RANK=0\nHOROVOD_SIZE=1"), Launcher::Horovod);
    assert_eq!(
        within("RANK=0\nWORLD_SIZE=1\nHOROVOD_RANK=0"),
        Launcher::Torchrun
    );
    let config = format!(r#"TF_CONFIG={{"cluster": {{"worker": ["a:1"]}}}}{SRUN}"#);
    let process = LaunchedProcess::from_variables(&lookup(&config)).unwrap();
    assert!(matches!(process, LaunchedProcess::Task(_)), "{process:?}");
}

#[test]
fn ranks_of_srun_with_pmi_are_those_of_srun() {
    // `srun --mpi=pmi2` and `--mpi=pmix` set these beside Slurm's own.
    for more in [
        "PMI_RANK=3\nPMI_SIZE=5\nPMI_JOBID=10.0",
        "PMIX_RANK=3\nPMIX_NAMESPACE=slurm.pmix.11.0",
    ] {
        let step = (Launcher::Srun, [3, 5], [Some(1), Some(2)]);
        assert_eq!(place(&format!("{more}{SRUN}")), Some(step), "{more}");
    }
}

#[test]
fn contradictions_name_the_variable_the_launcher_and_what_to_do() {
    let cases = [
        (
            "RANK=2\nWORLD_SIZE=2",
            "RANK=2 must be less than WORLD_SIZE=2: torchrun sets both; start the program with torchrun, or unset RANK",
        ),
        (
            "OMPI_COMM_WORLD_RANK=0",
            "OMPI_COMM_WORLD_SIZE is not set beside OMPI_COMM_WORLD_RANK: mpirun (Open MPI) sets both; start the program \
             with mpirun (Open MPI), or unset OMPI_COMM_WORLD_RANK",
        ),
        (
            "HOROVOD_RANK=one\nHOROVOD_SIZE=2",
            "HOROVOD_RANK=one is no number below 1048576: `thalweg launch hvd` sets it; start the program with `thalweg \
             launch hvd`, or unset it",
        ),
        (
            "RANK=0\nWORLD_SIZE=2\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=1",
            "LOCAL_RANK=1 must be less than LOCAL_WORLD_SIZE=1: torchrun sets both; start the program with torchrun, or \
             unset LOCAL_RANK",
        ),
        (
            "PMIX_RANK=0",
            "PMIX_RANK is set, and no variable has the number of ranks: start the program with srun, mpirun or `thalweg \
             launch hvd`, or unset PMIX_RANK",
        ),
        (
            "SLURM_STEP_ID=0\nSLURM_STEP_NUM_TASKS=2\nSLURM_JOB_ID=x",
            "SLURM_JOB_ID: it is no number",
        ),
    ];
    for (lines, text) in cases {
        assert_eq!(error(lines), text);
    }
    assert!(
        error("RANK=0\nWORLD_SIZE=99999999999")
            .contains("WORLD_SIZE=99999999999 is no number below")
    );
    let tasks = SRUN.replace("2(x2),1", "2");
    assert_eq!(
        error(&tasks),
        "SLURM_STEP_TASKS_PER_NODE: it has no entry for SLURM_NODEID"
    );
    let wrong = LaunchedProcess::from_variables(&lookup("TF_CONFIG={}")).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "TF_CONFIG: it has no \"cluster\" with jobs"
    );
}
