//! LoggingTensorHook: logs values of steps.

use std::time::Duration;

use thalweg_graph::OutputId;
use thalweg_session::Fetch;
use thalweg_tensor::{DType, Tensor, dispatch};

use super::context::Context;
use super::hook::SessionRunHook;
use super::run::{AfterRun, BeforeRun};
use super::timer::{Every, Timer};
use crate::error::TrainError;

/// Largest number of elements of a tensor that are logged.
const MAX_ELEMENTS: usize = 8;

/// Formats a line from names and values.
type Format = Box<dyn Fn(&[(&str, &Tensor)]) -> String>;

/// Logs the values of outputs every `n` steps, or in an interval of time: `tf.train.LoggingTensorHook`.
///
/// A line is `loss = 0.25, step = 100 (0.312 sec)`.
///
/// ```
/// use std::time::Duration;
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_train::hooks::LoggingTensorHook;
///
/// let g = Graph::new();
/// let loss = g.constant(0.25f32);
/// let hook = LoggingTensorHook::every_steps([("loss", loss.id())], 100);
/// let often = LoggingTensorHook::every_time([("loss", loss.id())], Duration::from_secs(10)).at_end();
/// # let _ = (hook, often);
/// ```
pub struct LoggingTensorHook {
    names: Vec<String>,
    outputs: Vec<OutputId>,
    every: Every,
    timer: Timer,
    steps: i64,
    due: bool,
    at_end: bool,
    format: Option<Format>,
}

impl LoggingTensorHook {
    /// Logs every so many steps of this session.
    pub fn every_steps(
        tensors: impl IntoIterator<Item = (impl Into<String>, OutputId)>,
        steps: u64,
    ) -> LoggingTensorHook {
        LoggingTensorHook::new(tensors, Every::Steps(steps))
    }

    /// Logs in intervals of this time.
    pub fn every_time(
        tensors: impl IntoIterator<Item = (impl Into<String>, OutputId)>,
        time: Duration,
    ) -> LoggingTensorHook {
        LoggingTensorHook::new(tensors, Every::Time(time))
    }

    fn new(
        tensors: impl IntoIterator<Item = (impl Into<String>, OutputId)>,
        every: Every,
    ) -> LoggingTensorHook {
        let (names, outputs) = tensors.into_iter().map(|(n, o)| (n.into(), o)).unzip();
        LoggingTensorHook {
            names,
            outputs,
            every,
            timer: Timer::new(every),
            steps: 0,
            due: false,
            at_end: false,
            format: None,
        }
    }

    /// Logs once more at the end; the values are then computed without feeds.
    pub fn at_end(self) -> LoggingTensorHook {
        LoggingTensorHook {
            at_end: true,
            ..self
        }
    }

    /// Sets the formatter of lines.
    pub fn formatter(
        self,
        format: impl Fn(&[(&str, &Tensor)]) -> String + 'static,
    ) -> LoggingTensorHook {
        LoggingTensorHook {
            format: Some(Box::new(format)),
            ..self
        }
    }

    fn line(&mut self, values: &[Option<Tensor>]) -> String {
        let elapsed = self.timer.done(self.steps);
        let named = self.names.iter().zip(values);
        let named: Vec<(&str, &Tensor)> = named
            .filter_map(|(name, value)| Some((&**name, value.as_ref()?)))
            .collect();
        if let Some(format) = &self.format {
            return format(&named);
        }
        let told = named
            .iter()
            .map(|(name, value)| format!("{name} = {}", formatted(value)));
        let told = told.collect::<Vec<_>>().join(", ");
        match elapsed {
            None => told,
            Some((_, time)) => format!("{told} ({:.3} sec)", time.as_secs_f64()),
        }
    }
}

/// Formats a value; of a large one the beginning.
fn formatted(tensor: &Tensor) -> String {
    let all: Vec<String> = match tensor.dtype() {
        DType::String => match tensor.as_strings() {
            Ok(all) => (all.iter().take(MAX_ELEMENTS))
                .map(|s| String::from_utf8_lossy(s).into_owned())
                .collect(),
            Err(e) => return e.to_string(),
        },
        dtype => dispatch!(
            dtype,
            [F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool],
            T => match tensor.as_slice::<T>() {
                Ok(all) => all.iter().take(MAX_ELEMENTS).map(ToString::to_string).collect(),
                Err(e) => return e.to_string(),
            },
            else return format!("({dtype})")
        ),
    };
    match (tensor.dims(), tensor.len() > MAX_ELEMENTS) {
        ([], _) => all.concat(),
        (_, false) => format!("[{}]", all.join(" ")),
        (dims, true) => format!("[{} ...] {dims:?}", all.join(" ")),
    }
}

impl SessionRunHook for LoggingTensorHook {
    fn after_create_session(&mut self, _: &Context<'_>) -> Result<(), TrainError> {
        self.timer = Timer::new(self.every);
        self.steps = 0;
        Ok(())
    }

    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        self.due = self.timer.is_due(self.steps);
        if self.due {
            self.outputs
                .iter()
                .for_each(|&o| run.fetch(Fetch::Value(o)));
        }
        Ok(())
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        if self.due {
            let line = self.line(run.values());
            run.context().log(&line);
        }
        self.steps += 1;
        Ok(())
    }

    fn needs_step_from(&self) -> i64 {
        // It counts the steps of its own session.
        i64::MAX
    }

    fn end(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        if self.at_end {
            let fetches: Vec<Fetch> = self.outputs.iter().map(|&o| Fetch::Value(o)).collect();
            let (values, _) = session
                .session()
                .run_step(&fetches, &[], &Default::default())?;
            let line = self.line(&values);
            session.log(&line);
        }
        Ok(())
    }
}
