//! Monitored sessions and hooks: order of calls, recovery, stops.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg::graph::OutputId;
use thalweg::prelude::*;
use thalweg::session::{Fetch, Trace};
use thalweg::tensor::Tensor;
use thalweg::train::hooks::*;
use thalweg::train::{
    MonitoredTrainingSession, Role, Saver, Scaffold, StepFailure, Steps, TrainError,
};
use thalweg_tests::folders::Folder;

/// A graph whose loss halves with each step.
struct HalvingLoss<'g> {
    w: Variable<'g>,
    loss: Output<'g>,
    train: Operation<'g>,
}

fn model(g: &Graph) -> HalvingLoss<'_> {
    let w = g.variable("w", 4.0f32);
    let loss = w.value().square().named("loss");
    let step = create_global_step(g);
    let train = GradientDescent::new(0.25).minimize_counting(loss, step);
    HalvingLoss { w, loss, train }
}

/// A hook that records its calls.
struct RecordingHook(Rc<RefCell<Vec<String>>>);

impl SessionRunHook for RecordingHook {
    fn begin(&mut self, graph: &Graph) -> Result<(), TrainError> {
        // The graph may still grow.
        graph.constant(1.0f32);
        self.0.borrow_mut().push("begin".into());
        Ok(())
    }
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let step = session.needed_global_step()?;
        self.0.borrow_mut().push(format!("session at {step}"));
        Ok(())
    }
    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        let _ = run;
        self.0.borrow_mut().push("before".into());
        Ok(())
    }
    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let step = run.step_before().unwrap();
        self.0.borrow_mut().push(format!("after {step}"));
        Ok(())
    }
    fn end(&mut self, _: &Context<'_>) -> Result<(), TrainError> {
        self.0.borrow_mut().push("end".into());
        Ok(())
    }
}

fn logged() -> (
    Arc<Mutex<Vec<String>>>,
    impl Fn(&str) + Send + Sync + 'static,
) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let theirs = lines.clone();
    (lines, move |line: &str| {
        theirs.lock().unwrap().push(line.to_owned())
    })
}

#[test]
fn hooks_run_in_tensorflows_order() {
    let g = Graph::new();
    let model = model(&g);
    let notes = Rc::new(RefCell::new(Vec::new()));
    let mut session = MonitoredTrainingSession::new(&g)
        .hook(RecordingHook(notes.clone()))
        .hook(StopAtStepHook::num_steps(2))
        .quiet()
        .start(|| Session::new(&g))
        .unwrap();
    while let Some(()) = session.run(model.train, []).unwrap() {}
    assert!(session.should_stop());
    session.close().unwrap();
    let wanted = [
        "begin",
        "session at 0",
        "before",
        "after 0",
        "before",
        "after 1",
        "end",
    ];
    assert_eq!(*notes.borrow(), wanted);
}

#[test]
fn a_failing_step_ends_the_session_without_the_end_hook() {
    let g = Graph::new();
    let model = model(&g);
    let x = g.placeholder("x", DType::F32, []);
    let notes = Rc::new(RefCell::new(Vec::new()));
    let mut session = MonitoredTrainingSession::new(&g)
        .hook(RecordingHook(notes.clone()))
        .quiet()
        .start(|| Session::new(&g))
        .unwrap();
    assert!(session.run::<f32>(x, []).is_err());
    assert!(matches!(
        session.run::<()>(model.train, []),
        Err(TrainError::Closed)
    ));
    session.close().unwrap();
    assert!(!notes.borrow().contains(&"end".to_owned()));
}

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

#[test]
fn hooks_log_stop_and_trace() {
    let folder = Folder::new("tell");
    let g = Graph::new();
    let model = model(&g);
    let bias = g.placeholder("bias", DType::F32, []);
    let shifted = model.loss + bias;
    let (lines, log) = logged();
    let (last, values) = FinalOpsHook::new([Fetch::Value(model.w.value().id())], []);
    let id = bias.id();
    let mut session = MonitoredTrainingSession::new(&g)
        .hook(StopAtStepHook::num_steps(5))
        .hook(LoggingTensorHook::every_steps(
            [("loss", model.loss.id())],
            2,
        ))
        .hook(StepCounterHook::new(Every::Steps(2)))
        .hook(ProfilerHook::new(Every::Steps(3), folder.path()))
        .hook(FeedFnHook::new(move || {
            Ok(vec![(id, Tensor::scalar(1.0f32))])
        }))
        .hook(last)
        .log(log)
        .start(|| Session::new(&g))
        .unwrap();
    let mut first = None;
    while let Some((_, loss)) = session
        .run::<((), f32)>((model.train, shifted), [])
        .unwrap()
    {
        first.get_or_insert(loss);
    }
    session.close().unwrap();
    assert_eq!(first, Some(17.0));
    assert_eq!(values.get().unwrap()[0], Some(Tensor::scalar(0.125f32)));
    let lines = lines.lock().unwrap();
    let losses: Vec<&String> = lines.iter().filter(|l| l.starts_with("loss = ")).collect();
    assert_eq!(losses.len(), 3, "{lines:?}");
    assert_eq!(losses[0], "loss = 16");
    assert!(losses[1].starts_with("loss = 1 (") && losses[1].ends_with(" sec)"));
    assert!(
        lines
            .iter()
            .any(|l| l.starts_with("global_step/sec: ")
                && l.ends_with("% of the time between steps)")),
        "{lines:?}"
    );
    assert!(
        folder.files().contains(&"timeline-4.json".to_owned()),
        "{:?}",
        folder.files()
    );
}

#[test]
fn feeding_an_output_by_hook_and_caller_is_an_error() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let id = x.id();
    let mut session = MonitoredTrainingSession::new(&g)
        .hook(FeedFnHook::new(move || {
            Ok(vec![(id, Tensor::scalar(1.0f32))])
        }))
        .quiet()
        .start(|| Session::new(&g))
        .unwrap();
    let error = session.run::<f32>(x, [x.feed(2.0f32)]).unwrap_err();
    assert!(
        matches!(&error, TrainError::FedTwice { output } if output == "x:0"),
        "{error}"
    );
}

#[test]
fn the_end_of_the_input_ends_the_loop_quietly() {
    let g = Graph::new();
    let queue = g
        .op("FIFOQueueV2")
        .attr("component_types", vec![DType::F32])
        .output();
    let close = g.op("QueueCloseV2").input(queue).build();
    let next = g
        .op("QueueDequeueV2")
        .input(queue)
        .attr("component_types", vec![DType::F32])
        .output();
    let mut session = MonitoredTrainingSession::new(&g)
        .quiet()
        .start(|| Session::new(&g))
        .unwrap();
    session.session().run(close, []).unwrap();
    assert_eq!(session.run::<f32>(next, []).unwrap(), None);
    assert!(session.should_stop());
    session.close().unwrap();
}

#[test]
fn a_scaffold_sets_the_initialization() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let warm = w.assign_add(9.0f32).id();
    let scaffold = Scaffold::new()
        .init_fn(move |session| {
            session
                .run_step(&[Fetch::Run(warm)], &[], &Default::default())
                .map(|_| ())
        })
        .saver(Saver::new(&g));
    let mut session = MonitoredTrainingSession::new(&g)
        .scaffold(scaffold)
        .quiet()
        .start(|| Session::new(&g))
        .unwrap();
    assert_eq!(session.run::<f32>(w, []).unwrap(), Some(10.0));
    // A variable left without a value is named.
    let begun = MonitoredTrainingSession::new(&g)
        .scaffold(Scaffold::new().init(Vec::<Operation<'_>>::new()))
        .wait(Duration::ZERO, Duration::ZERO)
        .quiet()
        .start(|| Session::new(&g));
    assert!(
        begun
            .err()
            .unwrap()
            .to_string()
            .contains("no value yet (w)")
    );
}

#[test]
fn hooks_are_due_at_exact_steps_without_reading_every_step() {
    let folder = Folder::new("exactly");
    let g = Graph::new();
    let model = model(&g);
    let saver = Saver::new(&g).max_to_keep(0);
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(folder.path())
        .scaffold(Scaffold::new().saver(saver))
        .save_checkpoint(Every::Steps(30))
        .log_step_count(None)
        .hook(StopAtStepHook::last_step(100))
        .quiet()
        .start(|| Session::new(&g))
        .unwrap();
    let mut steps = 0;
    while let Some(()) = session.run(model.train, []).unwrap() {
        steps += 1;
    }
    session.close().unwrap();
    assert_eq!(steps, 100);
    let saved = [0, 30, 60, 90, 100].map(|step| folder.join(&format!("model.ckpt-{step}.index")));
    assert!(
        saved.iter().all(|index| index.exists()),
        "{:?}",
        folder.files()
    );
    let all = folder
        .files()
        .into_iter()
        .filter(|name| name.ends_with(".index"));
    assert_eq!(all.count(), saved.len());
}
