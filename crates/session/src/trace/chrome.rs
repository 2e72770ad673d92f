//! Traces of steps in Chrome's JSON format. A device is a process, and its threads are the process's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use thalweg_device::chrome_trace::{Arg, End, TraceEvent, Track, to_json};
use thalweg_graph::partition::{RECV, SEND};

use super::event::{Channel, Event, GPU_LANES, is_gpu};

/// The events as a file. No two processes or threads have the same number: some viewers take threads of one number for
/// one thread, whatever their processes. None is 0, which stands for the idle thread.
pub(super) fn json(events: &[Event]) -> String {
    let mut devices: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for event in events {
        let threads = devices.entry(&event.device).or_default();
        threads.insert(event.thread);
    }
    let mut tracks: BTreeMap<(&str, usize), (Track, String)> = BTreeMap::new();
    for (process, (&device, threads)) in (1..).zip(&devices) {
        for &thread in threads {
            let track = Track {
                process,
                thread: (devices.len() + tracks.len() + 1) as u64,
            };
            tracks.insert((device, thread), (track, thread_name(device, thread)));
        }
    }
    let processes = (1..).zip(devices.keys());
    let processes = processes.map(|(process, name)| TraceEvent::ProcessName { process, name });
    let threads = tracks.values();
    let threads = threads.map(|&(track, ref name)| TraceEvent::ThreadName { track, name });
    let args: Vec<_> = events
        .iter()
        .map(|event| {
            [
                ("op", Arg::Text(&event.op)),
                ("bytes", Arg::Number(event.bytes as u64)),
                ("nodes", Arg::Texts(&event.members)),
            ]
        })
        .collect();
    let flows = flows(events);
    let runs = events.iter().enumerate().flat_map(|(at, event)| {
        let track = tracks[&(&*event.device, event.thread)].0;
        let slice = TraceEvent::Slice {
            track,
            name: &event.node,
            category: Some(&event.op),
            start_us: event.start_us,
            duration_us: event.duration_us,
            args: &args[at],
        };
        let arrow = flows.get(&at).map(|&(end, id)| TraceEvent::Flow {
            end,
            track,
            name: "value",
            category: "transfer",
            id,
            at_us: event.start_us,
        });
        [Some(slice), arrow].into_iter().flatten()
    });
    to_json(processes.chain(threads).chain(runs))
}

/// Display name of a device's thread.
fn thread_name(device: &str, thread: usize) -> String {
    match (is_gpu(device), GPU_LANES.get(thread)) {
        (false, _) => format!("thread {thread}"),
        (true, Some(lane)) => (*lane).to_owned(),
        (true, None) => format!("host thread {}", thread - GPU_LANES.len()),
    }
}

/// The end of an arrow that an event is, and the arrow's number.
type Flow = (End, u64);

/// The ends of arrows, by event: of channels with both.
fn flows(events: &[Event]) -> HashMap<usize, Flow> {
    let mut ends: BTreeMap<(&str, Channel), [Option<usize>; 2]> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let Some(channel) = event.channel else {
            continue;
        };
        let task = match channel.remote {
            true => "",
            false => event.device.split("/device:").next().unwrap_or_default(),
        };
        let own = ends.entry((task, channel)).or_default();
        match &*event.op {
            op if op == SEND.name => own[0].get_or_insert(at),
            op if op == RECV.name => own[1].get_or_insert(at),
            _ => continue,
        };
    }
    let pairs = ends.into_values().filter_map(|[from, to]| from.zip(to));
    (1..)
        .zip(pairs)
        .flat_map(|(number, (from, to))| {
            [(from, (End::Start, number)), (to, (End::Finish, number))]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// An event of a task's device; a channel's number, and whether it is remote.
    fn event(
        op: &str,
        task: u32,
        device: &str,
        thread: usize,
        channel: Option<(i64, bool)>,
    ) -> Event {
        Event {
            node: format!("a {op}"),
            op: op.to_owned(),
            device: format!("/job:worker/replica:0/task:{task}/device:{device}"),
            thread,
            start_us: 1.0,
            duration_us: 2.0,
            bytes: 4,
            members: Vec::new(),
            channel: channel.map(|(number, remote)| Channel { number, remote }),
        }
    }

    fn written(events: &[Event]) -> Vec<Value> {
        let whole: Value = serde_json::from_str(&json(events)).unwrap();
        whole["traceEvents"].as_array().unwrap().clone()
    }

    /// The events with this `ph`.
    fn with<'a>(written: &'a [Value], ph: &str) -> Vec<&'a Value> {
        written.iter().filter(|e| e["ph"] == ph).collect()
    }

    #[test]
    fn devices_and_threads_have_numbers_of_their_own_and_names() {
        let events = [
            event("Add", 0, "CPU:0", 0, None),
            event("Add", 0, "CPU:0", 1, None),
            event("Add", 1, "CPU:0", 0, None),
            event("MatMul", 1, "GPU:0", 0, None),
            event("_Recv", 1, "GPU:0", 4, None),
        ];
        let written = written(&events);
        let number = |e: &Value, key: &str| e[key].as_u64().unwrap();
        let mut names = BTreeMap::new();
        let mut numbers = BTreeSet::from([0]);
        for name in with(&written, "M") {
            let text = name["args"]["name"].as_str().unwrap();
            let key = match name["name"].as_str().unwrap() {
                "process_name" => (number(name, "pid"), 0),
                "thread_name" => (number(name, "pid"), number(name, "tid")),
                other => panic!("{other}"),
            };
            names.insert(key, text);
            let own = if key.1 == 0 { key.0 } else { key.1 };
            assert!(
                numbers.insert(own),
                "{own} stands for two things: {written:?}"
            );
        }
        let found: Vec<[&str; 2]> = with(&written, "X")
            .into_iter()
            .map(|e| {
                [
                    names[&(number(e, "pid"), 0)],
                    names[&(number(e, "pid"), number(e, "tid"))],
                ]
            })
            .collect();
        assert_eq!(
            found,
            [
                ["/job:worker/replica:0/task:0/device:CPU:0", "thread 0"],
                ["/job:worker/replica:0/task:0/device:CPU:0", "thread 1"],
                ["/job:worker/replica:0/task:1/device:CPU:0", "thread 0"],
                ["/job:worker/replica:0/task:1/device:GPU:0", "kernels"],
                ["/job:worker/replica:0/task:1/device:GPU:0", "host thread 0"],
            ]
        );
    }

    #[test]
    fn an_arrow_leads_from_each_send_to_the_receive_of_its_channel() {
        let events = [
            event("_Send", 0, "CPU:0", 0, Some((3, false))),
            event("_Send", 1, "CPU:0", 0, Some((3, false))),
            event("_Send", 0, "CPU:0", 0, Some((3, true))),
            event("_Recv", 1, "CPU:1", 0, Some((3, false))),
            event("_Recv", 1, "CPU:1", 0, Some((3, true))),
            event("_Recv", 0, "CPU:1", 0, Some((3, false))),
            // To a client, of a task without a trace, and one that is recorded twice.
            event("_Send", 0, "CPU:0", 0, Some((-1, true))),
            event("_Recv", 0, "CPU:0", 0, Some((7, true))),
            event("_Send", 0, "CPU:0", 0, Some((3, false))),
        ];
        let written = written(&events);
        let of = |ph: &str| -> BTreeMap<u64, [u64; 2]> {
            let ends = with(&written, ph).into_iter();
            ends.map(|e| {
                (
                    e["id"].as_u64().unwrap(),
                    [&e["pid"], &e["tid"]].map(|v| v.as_u64().unwrap()),
                )
            })
            .collect()
        };
        // The processes are, in this order: tasks 0 and 1 with their devices 0 and 1.
        let (starts, ends) = (of("s"), of("f"));
        let pairs: Vec<[u64; 2]> = starts
            .iter()
            .map(|(id, [from, _])| [*from, ends[id][0]])
            .collect();
        assert_eq!(
            BTreeSet::from_iter(pairs),
            BTreeSet::from([[1, 2], [3, 4], [1, 4]])
        );
        assert_eq!(starts.len(), ends.len());
        assert_eq!(with(&written, "s").len() + with(&written, "f").len(), 6);
        assert!(with(&written, "f").iter().all(|e| e["bp"] == "e"));
    }
}
