//! Timelines of simulated steps, against the traces of real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg::dist::{ClusterOptions, Session};
use thalweg::graph::{GraphData, NodeId};
use thalweg::layers::{conv2d, dense, losses, max_pool};
use thalweg::parallel::{DataParallel, Task, Tower, VariableUpdate};
use thalweg::prelude::*;
use thalweg::session::{Event, Trace};
use thalweg::tensor::{Dims, Tensor};
use thalweg_session::Fetch;
use thalweg_simulate::{
    Barrier, Cluster, DeviceSpeed, HostSpeed, LinkSpeed, NodeCost, Prediction, ServerHosts,
    StepGraph, StepTemplate, TemplateTask, predict_servers,
};
use thalweg_tests::servers::{cluster, servers};

const BATCH: usize = 4;
const SIDE: usize = 8;

/// Two hosts: host 0 has the worker, host 1 the server.
fn two_hosts() -> Cluster {
    let link = LinkSpeed {
        latency: 1e-5,
        bandwidth: 1e9,
        call: 1e-5,
    };
    Cluster {
        name: "two hosts".to_owned(),
        hosts: None,
        servers: ServerHosts::Own,
        device: DeviceSpeed {
            gpu: false,
            per_worker: 1,
            flops: 1e9,
            bandwidth: 1e9,
        },
        host: HostSpeed {
            bandwidth: 1e9,
            copy_bandwidth: 1e9,
            tasks_at_full_speed: 1.0,
        },
        network: link,
        local: link,
        barrier: Barrier::None,
        straggling: 0.0,
        input: None,
    }
}

fn network<'g>(tower: &Tower<'g>, images: Output<'g>, labels: Output<'g>) -> Output<'g> {
    let x = tower.part(images);
    let x = max_pool(2, 2).on(conv2d(4, 3).on(x).relu());
    let x = dense(6).on(x.flatten()).relu();
    losses::sparse_softmax_cross_entropy(tower.part(labels), dense(3).on(x)).value()
}

/// Trace of a real step, and the template and the prediction of the same step.
struct Comparison {
    trace: Trace,
    template: StepTemplate,
    prediction: Prediction,
    data: Arc<GraphData>,
}

/// Runs and simulates a step of a worker and a server.
fn compared() -> Comparison {
    let g = Graph::new();
    g.set_seed(1);
    let dims = [BATCH as i64, SIDE as i64, SIDE as i64, 1];
    let images = g.placeholder("images", DType::F32, dims);
    let labels = g.placeholder("labels", DType::I32, [BATCH as i64]);
    let training = DataParallel::new(VariableUpdate::ParameterServer)
        .in_step(false)
        .task(Task {
            servers: 1,
            workers: 1,
            worker: Some(0),
        })
        .build(
            &g,
            |_| GradientDescent::new(0.1f32),
            |tower| network(tower, images, labels),
        )
        .unwrap();
    let all = servers(&cluster(&[("ps", 1), ("worker", 1)]));
    let session = Session::on(&all[1], &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let pixels: Vec<f32> = (0..BATCH * SIDE * SIDE).map(|i| (i as f32).sin()).collect();
    let feeds = [
        images.feed(Tensor::new(&[BATCH, SIDE, SIDE, 1], &pixels).unwrap()),
        labels.feed(Tensor::vector(&[0i32, 1, 2, 0])),
    ];
    let traced = RunOptions::new().traced();
    let (_, trace) = session.step_with(training.step, &feeds, &traced).unwrap();
    let fed =
        |x: Output<'_>, dims: &[usize]| (x.id(), x.dtype(), dims.iter().copied().collect::<Dims>());
    let step = StepGraph {
        graph: &g,
        fetches: vec![Fetch::Run(training.step.id())],
        feeds: vec![fed(images, &[BATCH, SIDE, SIDE, 1]), fed(labels, &[BATCH])],
        devices: 1,
        gpu: false,
    };
    let template = step.template(1).unwrap();
    Comparison {
        prediction: predict_servers(&template, &two_hosts(), 1, BATCH as u32),
        trace,
        template,
        data: g.snapshot(),
    }
}

impl Comparison {
    /// Names of the nodes that an event has computed, of those that take time in a simulation.
    fn kernels<'a>(&'a self, event: &'a Event) -> impl Iterator<Item = &'a str> {
        let own = event.members.is_empty().then_some(&event.node);
        let names = own.into_iter().chain(&event.members).map(String::as_str);
        let takes_time = |name: &&str| match self.data.nodes().find(|(_, n)| n.name == **name) {
            Some((_, node)) => NodeCost::of(&self.data, node) != NodeCost::default(),
            None => true,
        };
        names
            .filter(move |_| event.channel.is_none())
            .filter(takes_time)
    }

    /// Nodes that must run before each node, as their names.
    fn ancestors(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        // A node comes after its inputs.
        for (_, node) in self.data.nodes() {
            let inputs = node.inputs.iter().map(|input| input.node);
            let before: Vec<NodeId> = inputs.chain(node.controls.iter().copied()).collect();
            let mut own = BTreeSet::new();
            for id in before {
                let name = &*self.data.node(id).name;
                own.insert(name);
                own.extend(all.get(name).into_iter().flatten());
            }
            all.insert(&node.name, own);
        }
        all
    }
}

/// Place of a kernel in a timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    begin: f64,
    end: f64,
    /// Number among the kernels that run one after the other in one span.
    number: usize,
}

/// Row of a device's processor in the timeline.
fn processor(device: &str) -> &'static str {
    match device.contains("/job:worker/") {
        true => "host 0, processor",
        false => "host 1, processor",
    }
}

/// Places of all kernels, by row and name.
fn places(prediction: &Prediction) -> BTreeMap<(&str, &str), Place> {
    let spans = prediction.spans();
    let kernels = spans.flat_map(|span| {
        let nodes = span.nodes.iter().enumerate();
        nodes.map(move |(number, name)| {
            let place = Place {
                begin: span.begin,
                end: span.end,
                number,
            };
            ((span.resource, &**name), place)
        })
    });
    kernels.collect()
}

#[test]
fn the_timeline_has_each_kernel_of_a_traced_step_on_its_task() {
    let step = compared();
    let places = places(&step.prediction);
    let mut ops = BTreeSet::new();
    for event in &step.trace.events {
        for name in step.kernels(event) {
            let key = (processor(&event.device), name);
            assert!(places.contains_key(&key), "{event:?}: {places:#?}");
            ops.insert((processor(&event.device), &*event.op));
        }
    }
    let on = |host: &str| ops.iter().filter(|(on, _)| on.contains(host)).count();
    assert!(on("host 0") >= 5 && on("host 1") >= 1, "{ops:?}");
}

#[test]
fn the_timeline_keeps_the_order_that_a_traced_step_depends_on() {
    let step = compared();
    let (places, ancestors) = (places(&step.prediction), step.ancestors());
    let kernels: Vec<(&Event, &str)> = step
        .trace
        .events
        .iter()
        .flat_map(|event| step.kernels(event).map(move |name| (event, name)))
        .collect();
    let mut pairs = 0;
    for &(event, name) in &kernels {
        let Some(before) = ancestors.get(name) else {
            continue;
        };
        let others = kernels
            .iter()
            .filter(|(other, earlier)| before.contains(earlier) && !std::ptr::eq(*other, event));
        for &(other, earlier) in others {
            let at = |event: &Event, name| places[&(processor(&event.device), name)];
            let (first, then) = (at(other, earlier), at(event, name));
            let same = first.begin == then.begin && first.end == then.end;
            let in_order = match same {
                true => first.number < then.number,
                false => first.end <= then.begin + 1e-12,
            };
            assert!(in_order, "{earlier} {first:?}, {name} {then:?}");
            pairs += 1;
        }
    }
    assert!(pairs > 20, "{pairs}");
}

#[test]
fn messages_of_the_template_have_the_bytes_of_a_traced_step() {
    let step = compared();
    let to = |device: &str| match device.contains("/job:worker/") {
        true => TemplateTask::Worker,
        false => TemplateTask::Server(0),
    };
    let remote = |op: &'static str| {
        let events = step.trace.events.iter();
        events.filter(move |e| e.op == op && e.channel.is_some_and(|c| c.remote))
    };
    let mut real: Vec<(TemplateTask, u64)> = remote("_Recv")
        .map(|e| (to(&e.device), e.bytes as u64))
        .collect();
    let messages = step.template.messages();
    let mut simulated: Vec<(TemplateTask, u64)> =
        messages.map(|(_, to, bytes)| (to, bytes as u64)).collect();
    real.sort_unstable();
    simulated.sort_unstable();
    assert_eq!(simulated, real);
    // Six variables: a value of each, and a gradient.
    assert!(real.len() >= 12, "{real:?}");
    let sent: BTreeSet<&str> = remote("_Send").map(|e| &*e.node).collect();
    let sending = step.prediction.spans();
    let sending = sending.filter(|s| s.resource.ends_with("sending"));
    let nodes: BTreeSet<String> = sending
        .flat_map(|s| s.nodes.iter().map(|n| n.to_string()).collect::<Vec<_>>())
        .collect();
    assert_eq!(
        nodes.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        sent
    );
}
