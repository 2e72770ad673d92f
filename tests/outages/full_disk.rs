//! A training whose folder is on a disk that is full from the start.
#![cfg(target_os = "linux")]

use std::sync::{Arc, Mutex};

use thalweg::checkpoint::state;
use thalweg::prelude::*;
use thalweg::train::MonitoredTrainingSession;
use thalweg::train::hooks::Every;

use super::small_disk::SmallDisk;

#[test]
fn a_training_on_a_full_disk_reports_it_and_saves_once_there_is_space() {
    let Some(disk) = SmallDisk::new("full_from_the_start", 1) else {
        return;
    };
    disk.fill();
    let g = Graph::new();
    let w = g.variable("w", vec![4.0f32; 1000]);
    let loss = w.value().square().mean();
    let step = create_global_step(&g);
    let train = GradientDescent::new(0.25).minimize_counting(loss, step);
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = said.clone();
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(disk.path())
        .save_checkpoint(Every::Steps(2))
        .log(move |line| lines.lock().unwrap().push(line.to_owned()))
        .start(|| Session::new(&g))
        .unwrap();
    let mut steps = |many: usize| {
        for _ in 0..many {
            let ran: Option<()> = session.run(train, []).unwrap();
            assert!(ran.is_some());
        }
    };
    // The result of a save is reported at the next one.
    steps(2);
    let told = said.lock().unwrap().join("\n");
    assert!(told.contains("no summaries are written: "), "{told}");
    assert!(told.contains("a checkpoint could not be saved"), "{told}");
    assert!(told.contains("No space left on device"), "{told}");
    let saved = || state::latest_checkpoint(disk.path()).unwrap();
    assert_eq!(saved(), None);
    disk.free();
    steps(4);
    session.close().unwrap();
    assert!(saved().is_some());
}
