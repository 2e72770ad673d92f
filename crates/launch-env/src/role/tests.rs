use super::*;
use crate::testing::{SALLOC, SMALLER_STEP, SRUN, lookup};

fn role(lines: &str) -> Result<Role> {
    Role::from_variables(&lookup(lines))
}

/// Place of rank 0 and its port.
fn rank_zero_of(lines: &str) -> (String, u16) {
    match role(lines).unwrap() {
        Role::Rank {
            coordinator: CoordinatorAddress::RankZero { host, port },
            ..
        } => (host, port),
        other => panic!("{other:?}"),
    }
}

const TORCHRUN: &str = "
    RANK=1
    WORLD_SIZE=4
    LOCAL_RANK=1
    LOCAL_WORLD_SIZE=2
    MASTER_ADDR=node7
    MASTER_PORT=29500";

#[test]
fn ranks_of_torchrun_meet_beside_its_store() {
    assert_eq!(rank_zero_of(TORCHRUN), ("node7".to_owned(), 29501));
    let local = TORCHRUN.replace("WORLD_SIZE=4", "WORLD_SIZE=2");
    assert_eq!(rank_zero_of(&local), ("127.0.0.1".to_owned(), 29501));
    let alone = "RANK=0\nWORLD_SIZE=1";
    assert_eq!(role(alone), Ok(Role::Single));
}

#[test]
fn ranks_of_a_step_meet_at_its_first_host_and_at_a_port_of_its_own() {
    assert_eq!(rank_zero_of(SRUN), ("node1".to_owned(), 20_031));
    let later = SMALLER_STEP.replace("STEP_ID=0", "STEP_ID=2");
    assert_eq!(rank_zero_of(&later), ("node1".to_owned(), 20_188));
    let last = SlurmStep {
        job: u32::MAX,
        step: 7,
    };
    assert!((20_000..32_000).contains(&port_of_step(last)));
    assert_eq!(role(SALLOC), Ok(Role::Single));
}

#[test]
fn variables_of_thalweg_go_before_what_a_launcher_tells() {
    let own = "\nTHALWEG_COORDINATOR=10.0.0.1\nTHALWEG_COORDINATOR_PORT=7000";
    let there = ("10.0.0.1".to_owned(), 7000);
    let mpi = "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2";
    let flux = "FLUX_TASK_RANK=1\nFLUX_JOB_SIZE=2";
    for lines in [TORCHRUN, SRUN, mpi, flux, "HOROVOD_RANK=0\nHOROVOD_SIZE=2"] {
        assert_eq!(rank_zero_of(&format!("{lines}{own}")), there, "{lines}");
    }
    assert!(matches!(role(mpi), Ok(Role::Mpi(rank)) if rank.size == 2));
}

#[test]
fn a_rank_that_does_not_know_where_rank_zero_is_says_what_to_set() {
    let text = "rank 1 of 2, started by flux run, does not know where rank 0 is: set THALWEG_COORDINATOR for all ranks, \
                the name or IP address of its host";
    let flux = "FLUX_TASK_RANK=1\nFLUX_JOB_SIZE=2";
    assert_eq!(role(flux).unwrap_err().to_string(), text);
    let error = role(&format!("{flux}\nTHALWEG_COORDINATOR=a")).unwrap_err();
    assert!(
        error.to_string().contains("set THALWEG_COORDINATOR_PORT"),
        "{error}"
    );
    let last = TORCHRUN.replace("29500", "65535");
    let error = role(&last).unwrap_err();
    assert!(
        error.to_string().contains("set THALWEG_COORDINATOR_PORT"),
        "{error}"
    );
    let error = role("HOROVOD_RANK=0\nHOROVOD_SIZE=2").unwrap_err();
    let text = "HOROVOD_GLOO_RENDEZVOUS_ADDR is not set beside HOROVOD_RANK";
    assert!(error.to_string().starts_with(text), "{error}");
    let arbitrary = role(&format!("{SRUN}\nSLURM_DISTRIBUTION=arbitrary")).unwrap_err();
    assert!(
        arbitrary.to_string().contains("arbitrary distribution"),
        "{arbitrary}"
    );
}

#[test]
fn mpi_is_offered_where_srun_serves_pmi() {
    let offered = |lines: &str| match role(lines).unwrap() {
        Role::Rank { has_mpi, .. } => has_mpi,
        other => panic!("{other:?}"),
    };
    assert!(!offered(SRUN));
    assert!(offered(&format!("{SRUN}\nPMIX_RANK=3")));
    assert!(!offered(&format!("{TORCHRUN}\nPMIX_RANK=3")));
}
