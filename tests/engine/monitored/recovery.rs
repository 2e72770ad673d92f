//! Monitored sessions that lose their session, resume, and wait for others.

use std::cell::Cell;
use std::time::Duration;

use thalweg::graph::OutputId;
use thalweg::prelude::*;
use thalweg::session::{Fetch, Trace};
use thalweg::tensor::Tensor;
use thalweg::train::hooks::*;
use thalweg::train::{MonitoredTrainingSession, Role, StepFailure, Steps, TrainError};
use thalweg_tests::folders::Folder;

use super::{logged, model};

#[test]
fn a_lost_session_is_recreated_from_the_last_checkpoint() {
    let folder = Folder::new("lost");
    let g = Graph::new();
    let model = model(&g);
    let (lines, log) = logged();
    // A hook that loses the session once, after step 5.
    struct LosesSessionOnce(bool);
    impl SessionRunHook for LosesSessionOnce {
        fn before_run(&mut self, _: &mut BeforeRun<'_>) -> Result<(), TrainError> {
            Ok(())
        }
        fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
            if run.step_before() == Some(4) && !std::mem::replace(&mut self.0, true) {
                let gone = std::io::Error::other("the server is gone");
                return Err(TrainError::step(StepFailure::Lost, gone));
            }
            Ok(())
        }
    }
    let mut made = 0;
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(folder.path())
        .save_checkpoint(Every::Steps(2))
        .hook(LosesSessionOnce(false))
        .hook(StopAtStepHook::last_step(8))
        .log(log)
        .start(|| {
            made += 1;
            // A new session has no values: they were lost with the old one.
            Session::new(&g)
        })
        .unwrap();
    let mut losses = Vec::new();
    while let Some((_, loss)) = session
        .run::<((), f32)>((model.train, model.loss), [])
        .unwrap()
    {
        losses.push(loss);
    }
    session.close().unwrap();
    assert_eq!(made, 2);
    // The step that was lost ran again, from the checkpoint of step 4.
    let wanted: Vec<f32> = (0..8).map(|i| 16.0 / 4f32.powi(i)).collect();
    assert_eq!(losses, wanted);
    let lines = lines.lock().unwrap();
    assert!(
        lines.iter().any(|l| l.contains("the server is gone")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|l| l.starts_with("restored ")),
        "{lines:?}"
    );
}

#[test]
fn checkpoints_that_are_passed_over_are_logged_with_their_reasons() {
    let folder = Folder::new("passed_over");
    let g = Graph::new();
    let model = model(&g);
    let trained = |last: i64| {
        let (lines, log) = logged();
        let mut session = MonitoredTrainingSession::new(&g)
            .checkpoint_dir(folder.path())
            .save_checkpoint(Every::Steps(1))
            .hook(StopAtStepHook::last_step(last))
            .log(log)
            .start(|| Session::new(&g))
            .unwrap();
        while session.run::<()>(model.train, []).unwrap().is_some() {}
        session.close().unwrap();
        let lines = lines.lock().unwrap();
        lines.clone()
    };
    trained(5);
    let newest = thalweg::checkpoint::state::latest_checkpoint(folder.path());
    let newest = newest.unwrap().unwrap().display().to_string();
    let of = |step: usize, end: &str| {
        let path = newest.strip_suffix('5').unwrap();
        std::path::PathBuf::from(format!("{path}{step}{end}"))
    };
    let data = ".data-00000-of-00001";
    std::fs::remove_file(of(5, data)).unwrap();
    std::fs::write(of(4, data), b"cut").unwrap();
    let mut flipped = std::fs::read(of(3, data)).unwrap();
    flipped[0] ^= 1;
    std::fs::write(of(3, data), flipped).unwrap();
    let lines = trained(6);
    let mut told = lines.iter().filter(|l| l.starts_with("warning: "));
    for (step, why) in [
        (5, "is not there"),
        (4, "not written to its end, or cut"),
        (3, "its checksum does not fit"),
    ] {
        let line = told.next().unwrap();
        let start = format!(
            "warning: the checkpoint {} is passed over: ",
            of(step, "").display()
        );
        assert!(line.starts_with(&start) && line.contains(why), "{line}");
    }
    assert_eq!(told.next(), None);
    let restored = format!("restored {}", of(2, "").display());
    assert!(lines.contains(&restored), "{lines:?}");
}

/// A session that loses a server in the middle of its first restore: all variables but the last are assigned by then.
struct LostInRestore<'s, 'g> {
    session: &'s Session<'g>,
    lost: &'s Cell<bool>,
}

impl Steps for LostInRestore<'_, '_> {
    fn graph(&self) -> &Graph {
        self.session.graph()
    }

    fn run_step(
        &self,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), TrainError> {
        let restores = feeds.len() == fetches.len() && fetches.len() > 1;
        if !restores || self.lost.replace(true) {
            return Steps::run_step(self.session, fetches, feeds, options);
        }
        let but_last = fetches.len() - 1;
        Steps::run_step(self.session, &fetches[..but_last], feeds, options)?;
        let gone = std::io::Error::other("the server is gone");
        Err(TrainError::step(StepFailure::Lost, gone))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn random_state(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    fn set_random_state(&self, _: &[(String, u64)]) {}
}

#[test]
fn an_interrupted_restore_is_repeated() {
    let folder = Folder::new("half");
    let g = Graph::new();
    let model = model(&g);
    // Last by name, so it is assigned last.
    let z = g.variable("z", 1.0f32);
    let grow = z.assign_add(1.0f32);
    let lose = g.op("DestroyResourceOp").input(model.w.handle()).build();
    let session = Session::new(&g).unwrap();
    let monitored = || {
        MonitoredTrainingSession::new(&g)
            .checkpoint_dir(folder.path())
            .save_checkpoint(Every::Steps(1))
            .quiet()
    };
    let mut first = monitored().start(|| Session::new(&g)).unwrap();
    first.run::<((), ())>((model.train, grow), []).unwrap();
    first.close().unwrap();
    // The variables are newer than the checkpoint, and one server is restarted.
    session.run(g.initializers(), []).unwrap();
    for _ in 0..3 {
        session.run((model.train, grow), []).unwrap();
    }
    session.run(lose, []).unwrap();
    let lost = Cell::new(false);
    let again = monitored().start(|| {
        Ok::<_, TrainError>(LostInRestore {
            session: &session,
            lost: &lost,
        })
    });
    assert!(lost.get());
    assert_eq!(again.unwrap().global_step().unwrap(), Some(1));
    let (w, z): (f32, f32) = session.run((model.w, z), []).unwrap();
    assert_eq!((w, z), (2.0, 2.0));
}

#[test]
fn another_process_resumes_from_the_checkpoint() {
    let folder = Folder::new("goes_on");
    let train = |until: i64| {
        let g = Graph::new();
        let model = model(&g);
        let mut session = MonitoredTrainingSession::new(&g)
            .checkpoint_dir(folder.path())
            .hook(StopAtStepHook::last_step(until))
            .quiet()
            .start(|| Session::new(&g))
            .unwrap();
        let mut steps = 0;
        while let Some(()) = session.run(model.train, []).unwrap() {
            steps += 1;
        }
        let w: f32 = session.session().run(model.w, []).unwrap();
        session.close().unwrap();
        (steps, w)
    };
    assert_eq!(train(3), (3, 0.5));
    assert_eq!(train(5), (2, 0.125));
    assert_eq!(train(5), (0, 0.125));
}

#[test]
fn a_worker_waits_for_the_chief_and_names_the_missing_variables() {
    let g = Graph::new();
    model(&g);
    let started = MonitoredTrainingSession::new(&g)
        .role(Role::Worker)
        .wait(Duration::from_millis(20), Duration::from_millis(5))
        .quiet()
        .start(|| Session::new(&g));
    let Err(error) = started else {
        panic!("a worker without a chief began");
    };
    let text = error.to_string();
    assert!(
        text.contains("w, global_step") && text.contains("start it"),
        "{text}"
    );
}
