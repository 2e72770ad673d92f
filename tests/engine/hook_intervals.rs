//! Intervals of hooks: the steps at which they act, also after a restart.

use thalweg::prelude::*;
use thalweg::summary::EventReader;
use thalweg::summary::messages::event::What;
use thalweg::train::MonitoredTrainingSession;
use thalweg::train::hooks::{Every, StopAtStepHook};
use thalweg_tests::folders::Folder;

/// The steps of all summaries in a folder of event files.
fn summary_steps(folder: &Folder) -> Vec<i64> {
    let mut steps = Vec::new();
    for file in folder.files().iter().filter(|f| f.contains("tfevents")) {
        for event in EventReader::open(folder.join(file)).unwrap() {
            let event = event.unwrap();
            if let Some(What::Summary(summary)) = event.what
                && summary.value.iter().any(|v| v.tag == "loss")
            {
                steps.push(event.step);
            }
        }
    }
    steps.sort_unstable();
    steps
}

/// The steps are those of TensorFlow's SummarySaverHook: the first of each session, and then one in each interval.
#[test]
fn summaries_are_written_once_in_each_interval_of_steps() {
    let g = Graph::new();
    let w = g.variable("w", 4.0f32);
    let loss = w.value().square();
    g.scalar_summary("loss", loss);
    let step = create_global_step(&g);
    let train = GradientDescent::new(0.25).minimize_counting(loss, step);
    let folder = Folder::new("summary-steps");
    for last in [10, 16] {
        let mut session = MonitoredTrainingSession::new(&g)
            .checkpoint_dir(folder.path())
            .save_summaries(Every::Steps(4))
            .hook(StopAtStepHook::last_step(last))
            .quiet()
            .start(|| Session::new(&g))
            .unwrap();
        while let Some(()) = session.run(train, []).unwrap() {}
        session.close().unwrap();
    }
    assert_eq!(summary_steps(&folder), [1, 5, 9, 11, 15]);
}
