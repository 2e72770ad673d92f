//! Hooks of monitored sessions: order of calls, logs, stops, feeds.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use thalweg::prelude::*;
use thalweg::session::Fetch;
use thalweg::tensor::Tensor;
use thalweg::train::hooks::*;
use thalweg::train::{MonitoredTrainingSession, Saver, Scaffold, TrainError};
use thalweg_tests::folders::Folder;

use super::{RecordingHook, logged, model};

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
