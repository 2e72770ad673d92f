//! Tests of clusters whose tasks are processes, which are killed, stopped and cut off.

mod disk;
mod faults;
mod full_disk;
mod hosts;
mod in_step;
mod kills;
mod limits;
mod rank_hosts;
mod soak;
mod workers;
