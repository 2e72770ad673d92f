//! Random graphs partitioned over several tasks, each with an engine of its own, compared with the naive interpreter.
//! Values go through memory instead of a network.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use thalweg::device::{KernelError, Ticket};
use thalweg::graph::OutputId;
use thalweg::prelude::*;
use thalweg::tensor::Tensor;
use thalweg_plan::{TaskPart, TaskPartitioner};
use thalweg_session::{Engine, Fetch, Runner, TaskChannels};
use thalweg_tests::random_graph::Gene;
use thalweg_tests::tasks::{JOB, compare};

/// Values in transit, and the receivers that wait for them.
#[derive(Default)]
struct Mailbox(Mutex<StepsState>);

#[derive(Default)]
struct StepsState {
    values: HashMap<i64, Tensor>,
    waiting: HashMap<i64, Ticket>,
    over: bool,
}

impl Mailbox {
    /// Ends all waiting: a task has failed.
    fn abort(&self) {
        let mut state = self.0.lock().unwrap();
        state.over = true;
        state.waiting.values().for_each(Ticket::wake);
    }
}

impl TaskChannels for Mailbox {
    fn send(&self, channel: i64, value: Tensor) -> Result<(), KernelError> {
        let mut state = self.0.lock().unwrap();
        assert!(state.values.insert(channel, value).is_none(), "sent twice");
        if let Some(ticket) = state.waiting.remove(&channel) {
            ticket.wake();
        }
        Ok(())
    }

    fn receive(&self, channel: i64, ticket: &Ticket) -> Result<Option<Tensor>, KernelError> {
        let mut state = self.0.lock().unwrap();
        if state.over {
            return Err(KernelError::Cancelled("another task has failed".to_owned()));
        }
        let value = state.values.remove(&channel);
        if value.is_none() {
            state.waiting.insert(channel, ticket.clone());
        }
        Ok(value)
    }
}

/// Tasks of one job, in this process.
struct Tasks {
    runners: Vec<Runner>,
    partitioner: TaskPartitioner,
    /// Task, and index there, of each device of the cluster.
    devices: Vec<(u32, u32)>,
}

impl Tasks {
    fn new(count: u32, cpus: usize) -> Tasks {
        let mut runners = Vec::new();
        let (mut specs, mut devices) = (Vec::new(), Vec::new());
        let mut master = None;
        for task in 0..count {
            let options = SessionOptions::new()
                .task(JOB, task)
                .cpus(cpus)
                .threads(cpus)
                .soft_placement(true);
            let engine = Engine::new(&options).unwrap();
            for (number, device) in engine.devices().iter().enumerate() {
                specs.push((device.name().clone(), task));
                devices.push((task, number as u32));
            }
            master.get_or_insert((engine.clone(), options.clone()));
            runners.push(Runner::new(engine, options));
        }
        let (engine, options) = master.unwrap();
        Tasks {
            runners,
            partitioner: TaskPartitioner::new(
                engine.machine().clone(),
                options.plan_options(),
                specs,
            ),
            devices,
        }
    }

    /// Runs a step; returns the values of the fetches, and the number of cut edges.
    fn run(
        &self,
        g: &Graph,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
    ) -> Result<(Vec<Option<Tensor>>, usize), String> {
        let given = feeds.iter().map(|(o, t)| (*o, t.dtype(), t.dims().into()));
        let given: Vec<_> = given.collect();
        let cut = self.partitioner.cut(&g.snapshot(), fetches, &given);
        let cut = cut.map_err(|e| e.to_string())?;
        let mail = Mailbox::default();
        let values = Mutex::new(vec![None; fetches.len()]);
        let run = |part: &TaskPart| -> Result<(), String> {
            let own = |d: &u32| {
                let (task, number) = self.devices[*d as usize];
                assert_eq!(task, part.task);
                number
            };
            let devices = part.devices.iter().map(own).collect();
            let runner = &self.runners[part.task as usize];
            let plan = runner.prepare(part, devices).map_err(|e| e.to_string())?;
            let own = part.feeds.iter().map(|&(i, _)| feeds[i].1.clone());
            let own: Vec<Tensor> = own.collect();
            let options = RunOptions::new().timeout(Duration::from_secs(30));
            let done = runner.run_part(&plan, &own, &mail, &options);
            let (fetched, _) = done.map_err(|e| {
                mail.abort();
                e.to_string()
            })?;
            let mut values = values.lock().unwrap();
            for (&(number, _), value) in part.fetches.iter().zip(fetched.into_values()) {
                values[number] = value;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let started: Vec<_> = cut.parts.iter().map(|p| scope.spawn(|| run(p))).collect();
            started.into_iter().try_for_each(|t| t.join().unwrap())
        })?;
        Ok((values.into_inner().unwrap(), cut.channels.len()))
    }
}

impl thalweg_tests::tasks::Tasks for Tasks {
    fn run(
        &self,
        g: &Graph,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
    ) -> Result<Vec<Option<Tensor>>, String> {
        Tasks::run(self, g, fetches, feeds).map(|(values, _)| values)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        max_shrink_iters: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn steps_over_tasks_match_the_interpreter(
        genes in proptest::collection::vec(any::<Gene>(), 1..40),
        steps in proptest::collection::vec(any::<[u8; 3]>(), 1..4),
        size in prop_oneof![Just((2, 1)), Just((3, 2)), Just((4, 1)), Just((1, 2))],
    ) {
        compare(&genes, &steps, size, &Tasks::new(size.0, size.1 as usize))?;
    }
}

#[test]
fn a_variable_on_one_task_is_trained_by_another() {
    let g = Graph::new();
    let w = g.device("/job:worker/task:0", || g.variable("w", 0.5f32));
    let (loss, train, x) = g.device("/job:worker/task:1", || {
        let x = g.placeholder("x", DType::F32, [3]);
        let loss = (x * w - x * 3.0).square().mean();
        (loss, GradientDescent::new(0.1).minimize(loss), x)
    });
    let tasks = Tasks::new(2, 1);
    let runs: Vec<Fetch> = g
        .initializers()
        .iter()
        .map(|n| Fetch::Run(n.id()))
        .collect();
    tasks.run(&g, &runs, &[]).unwrap();
    let feed = [(x.id(), Tensor::vector(&[1.0f32, 2.0, 3.0]))];
    let fetches = [Fetch::Run(train.id()), Fetch::Value(loss.id())];
    let mut losses = Vec::new();
    for _ in 0..20 {
        let (values, crossed) = tasks.run(&g, &fetches, &feed).unwrap();
        // The weight there, and its gradient back: the nodes that wait for the update are on the update's task.
        assert_eq!(crossed, 2);
        losses.push(values[1].as_ref().unwrap().to_scalar::<f32>().unwrap());
    }
    assert!(losses[19] < losses[0] * 1e-3, "{losses:?}");
    let (values, _) = tasks.run(&g, &[Fetch::Value(w.value().id())], &[]).unwrap();
    let found = values[0].as_ref().unwrap().to_scalar::<f32>().unwrap();
    assert!((found - 3.0).abs() < 0.1, "{found}");
}

#[test]
fn a_failure_on_one_task_ends_the_others() {
    let g = Graph::new();
    let i = g.placeholder("i", DType::I32, [2]);
    let divisor = g.constant([0i32, 1]);
    let quotient = || g.op("FloorDiv").input(i).input(divisor).output();
    let there = g.device("/job:worker/task:1", quotient);
    let sum = g.device("/job:worker/task:0", || (there + 1).named("sum"));
    let tasks = Tasks::new(2, 1);
    let feed = [(i.id(), Tensor::vector(&[1i32, 2]))];
    let error = tasks.run(&g, &[Fetch::Value(sum.id())], &feed).unwrap_err();
    assert!(
        error.contains("division by zero") || error.contains("another task has failed"),
        "{error}"
    );
}
