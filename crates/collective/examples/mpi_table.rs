//! All collectives over MPI: `mpirun -n 3 target/debug/examples/mpi_table`.

#[path = "../tests/support/conformance.rs"]
mod conformance;

use thalweg_collective::{CollectiveError, Join, Ranks};

fn main() -> Result<(), CollectiveError> {
    let join = Join::from_env()?;
    let mut ranks = Ranks::join(&join)?;
    assert!(ranks.size() > 1, "start it with mpirun");
    conformance::check_all(&mut ranks);
    if ranks.rank() == 0 {
        println!("the table of collectives passes on {} ranks", ranks.size());
    }
    Ok(())
}
