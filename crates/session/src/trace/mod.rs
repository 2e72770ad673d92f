//! Traces: the time and place of each kernel's run in a step, in the form that trace viewers open.

mod chrome;
mod event;
mod layer_names;
mod profile;

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use thalweg_device::gpu::Command;
use thalweg_graph::op::Effect;
use thalweg_graph::partition::is_remote;
use thalweg_graph::{DeviceSpec, Node};
use thalweg_ops::fused::members;

use thalweg_plan::{Action, Plan, Program};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Memory, Reservation};

use event::{BETWEEN, FROM_GPU, GPU_LANES, TO_GPU, is_gpu};
pub use event::{Channel, Event, Trace, Traffic};
pub use profile::{LayerProfile, OpProfile, Profile};

impl Trace {
    /// The bytes that the step moved to, from and between GPUs.
    pub fn traffic(&self) -> Traffic {
        let bytes = |what: &str| {
            let events = self.events.iter().filter(|e| e.op == what);
            events.map(|e| e.bytes).sum()
        };
        Traffic {
            to_gpus: bytes(TO_GPU),
            from_gpus: bytes(FROM_GPU),
            between_gpus: bytes(BETWEEN),
        }
    }

    /// Time and memory of the step by op and by layer. [`Profile::of`] takes several steps.
    pub fn profile(&self) -> Profile {
        Profile::of([self])
    }

    /// The trace of a step that has waited for its input before: it then begins with an event of op `input`, on a device of
    /// this name.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg_session::{Event, Trace};
    ///
    /// let mut trace = Trace::default();
    /// trace.events.push(Event { op: "MatMul".to_owned(), ..Event::default() });
    /// let trace = trace.after_input(Duration::from_micros(40));
    /// let starts: Vec<_> = trace.events.iter().map(|e| (&*e.op, e.start_us)).collect();
    /// assert_eq!(starts, [("input", 0.0), ("MatMul", 40.0)]);
    /// ```
    #[must_use]
    pub fn after_input(mut self, waited: Duration) -> Trace {
        let duration_us = waited.as_secs_f64() * 1e6;
        for event in &mut self.events {
            event.start_us += duration_us;
        }
        let input = Event {
            node: INPUT.to_owned(),
            op: INPUT.to_owned(),
            device: INPUT.to_owned(),
            duration_us,
            ..Event::default()
        };
        self.events.insert(0, input);
        self
    }

    /// For each event the microseconds that it takes by itself, without those of events within it on the same thread (as
    /// the nodes of a branch), and the outermost event around it.
    pub fn own_times(&self) -> Vec<(f64, Option<&Event>)> {
        profile::own_times(&self.events)
    }

    /// The trace in Chrome's JSON format, which Perfetto and `chrome://tracing` open: a process for each
    /// device, with its threads, and an arrow from each send to its receive.
    pub fn to_chrome_json(&self) -> String {
        chrome::json(&self.events)
    }

    /// Writes [`Trace::to_chrome_json`] to a file.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn save(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        let mut file = std::fs::File::create(path)?;
        file.write_all(self.to_chrome_json().as_bytes())
    }
}

/// Op and device of the wait for input.
const INPUT: &str = "input";

/// The lane of an event among those of its device.
#[derive(Clone, Copy)]
enum Lane {
    Thread(ThreadId),
    OfGpu(usize),
}

/// Collects events while a step runs.
pub(crate) struct Recorder {
    start: Instant,
    recorded: Mutex<Recorded>,
}

struct Recorded {
    events: Vec<(Lane, Event)>,
    dropped: u64,
    /// Memory of the events.
    held: Reservation,
}

/// Estimate of the bytes that an event takes beside its texts, as it is and once it is written for TensorFlow's tools.
const EVENT_BYTES: usize = 1024;

impl Recorder {
    /// A recorder whose events count against this memory until the step ends.
    pub(crate) fn new(memory: Option<&Arc<Memory>>) -> Recorder {
        Recorder {
            start: Instant::now(),
            recorded: Mutex::new(Recorded {
                events: Vec::new(),
                dropped: 0,
                held: Reservation::of(memory),
            }),
        }
    }

    /// An instruction that has just run, whose outputs have so many bytes.
    pub(crate) fn add(
        &self,
        program: &Program,
        device: &DeviceSpec,
        at: u32,
        bytes: usize,
        start: Instant,
    ) {
        let node = program.node(at);
        let instruction = &program.instructions[at as usize];
        if let Action::Stage
        | Action::Segment(_)
        | Action::Check(_)
        | Action::IsInitialized { .. }
        | Action::Wait = instruction.action
        {
            // The commands that it submits are recorded separately.
            return;
        }
        let lane = Lane::Thread(std::thread::current().id());
        self.event(node, &[], (node.op.name, bytes), device, lane, start);
    }

    /// A command of a GPU that has just run, for this node and these others.
    pub(crate) fn command(
        &self,
        node: &Node,
        others: &[&Node],
        device: &DeviceSpec,
        command: &Command,
        start: Instant,
    ) {
        let (what, bytes, lane) = match command {
            Command::CopyIn { bytes, .. } => (TO_GPU, *bytes, 1),
            Command::CopyOut { bytes, .. } => (FROM_GPU, *bytes, 2),
            Command::Copy { bytes, .. } => ("copy", *bytes, 0),
            Command::Fill { bytes, .. } => ("fill", *bytes, 0),
            Command::Collective {
                dtype, elements, ..
            } => (node.op.name, elements * dtype.size(), 0),
            Command::Group { .. } => ("group collectives", 0, 0),
            Command::Join { .. } => ("wait for collectives", 0, 0),
            Command::Launch { .. } | Command::Call { .. } | Command::Replay { .. } => {
                (node.op.name, 0, 0)
            }
        };
        let lane = Lane::OfGpu(lane);
        self.event(node, others, (what, bytes), device, lane, start);
    }

    /// A copy of so many bytes from a GPU to another one, which has just run.
    pub(crate) fn between(&self, node: &Node, device: &DeviceSpec, bytes: usize, start: Instant) {
        self.event(node, &[], (BETWEEN, bytes), device, Lane::OfGpu(3), start);
    }

    fn event(
        &self,
        node: &Node,
        others: &[&Node],
        (what, bytes): (&str, usize),
        device: &DeviceSpec,
        lane: Lane,
        start: Instant,
    ) {
        let event = Event {
            node: node.name.clone(),
            op: what.to_owned(),
            device: device.to_string(),
            thread: 0,
            start_us: start.duration_since(self.start).as_secs_f64() * 1e6,
            duration_us: start.elapsed().as_secs_f64() * 1e6,
            bytes,
            members: match others {
                [] => members(node),
                // The node itself is the last.
                _ => others
                    .iter()
                    .chain([&node])
                    .map(|n| n.name.clone())
                    .collect(),
            },
            channel: matches!(node.op.effect, Effect::Send | Effect::Recv).then(|| Channel {
                number: node.attrs.int("channel"),
                remote: is_remote(node),
            }),
        };
        let texts = event.members.iter().map(|m| size_of::<String>() + m.len());
        let texts = texts.sum::<usize>() + node.name.len();
        let mut recorded = self.recorded.lock().unpoisoned();
        match recorded.held.grow(EVENT_BYTES + 4 * texts) {
            true => recorded.events.push((lane, event)),
            false => recorded.dropped += 1,
        }
    }

    pub(crate) fn finish(self, plan: &Plan) -> Trace {
        let recorded = self.recorded.into_inner().unpoisoned();
        let (mut events, dropped) = (recorded.events, recorded.dropped);
        events.sort_by(|a, b| a.1.start_us.total_cmp(&b.1.start_us));
        let mut threads: Vec<ThreadId> = Vec::new();
        let numbered = events.into_iter().map(|(lane, event)| {
            let thread = match lane {
                Lane::OfGpu(number) => number,
                Lane::Thread(id) => {
                    let known = threads.iter().position(|&t| t == id);
                    let number = known.unwrap_or_else(|| {
                        threads.push(id);
                        threads.len() - 1
                    });
                    match is_gpu(&event.device) {
                        true => GPU_LANES.len() + number,
                        false => number,
                    }
                }
            };
            Event { thread, ..event }
        });
        Trace {
            events: numbered.collect(),
            dropped,
            arena_bytes: plan.arena_bytes(),
        }
    }
}
