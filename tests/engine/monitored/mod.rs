//! Monitored sessions and hooks: a model and a hook for the tests.

mod hooks;
mod recovery;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use thalweg::prelude::*;
use thalweg::train::TrainError;
use thalweg::train::hooks::*;

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
