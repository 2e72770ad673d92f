//! Tests of clusters whose tasks are processes, which are killed, stopped and cut off.

mod faults;
mod full_disk;
mod hosts;
mod kills;
mod lost_workers;
mod rank_hosts;
mod small_disk;
mod soak;
mod synchronous;
mod system_limits;
