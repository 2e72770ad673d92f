//! Traces in Chrome's JSON format, as its "Trace Event Format" describes it. A device is a process, and
//! its threads are the process's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};
use thalweg_graph::partition::{RECV, SEND};

use super::event::{Channel, Event, GPU_LANES, is_gpu};

/// The numbers of a process and of a thread. No two are the same in a file: some viewers take threads of
/// one number for one thread, whatever their processes. None is 0, which stands for the idle thread.
type Track = (usize, usize);

/// The events as a file.
pub(super) fn json(events: &[Event]) -> String {
    let mut devices: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for event in events {
        let threads = devices.entry(&event.device).or_default();
        threads.insert(event.thread);
    }
    let mut written = Vec::new();
    let mut tracks: HashMap<(&str, usize), Track> = HashMap::new();
    for (number, (&device, threads)) in devices.iter().enumerate() {
        let process = number + 1;
        written.push(named("process_name", (process, 0), device));
        for &thread in threads {
            let track = (process, devices.len() + tracks.len() + 1);
            tracks.insert((device, thread), track);
            written.push(named("thread_name", track, &thread_name(device, thread)));
        }
    }
    let flows = flows(events);
    for (at, event) in events.iter().enumerate() {
        let track = tracks[&(&*event.device, event.thread)];
        written.push(json!({
            "name": event.node, "cat": event.op, "ph": "X",
            "ts": event.start_us, "dur": event.duration_us,
            "pid": track.0, "tid": track.1,
            "args": {"op": event.op, "bytes": event.bytes, "nodes": event.members},
        }));
        written.extend(flows.get(&at).map(|flow| arrow(flow, event, track)));
    }
    json!({"traceEvents": written, "displayTimeUnit": "ms"}).to_string()
}

/// Metadata event that names a process or a thread.
fn named(what: &str, (process, thread): Track, name: &str) -> Value {
    json!({"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}})
}

/// Display name of a device's thread.
fn thread_name(device: &str, thread: usize) -> String {
    match (is_gpu(device), GPU_LANES.get(thread)) {
        (false, _) => format!("thread {thread}"),
        (true, Some(lane)) => (*lane).to_owned(),
        (true, None) => format!("host thread {}", thread - GPU_LANES.len()),
    }
}

/// The end of an arrow that an event is, start or finish, and the arrow's number.
type Flow = (&'static str, usize);

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
        .flat_map(|(number, (from, to))| [(from, ("s", number)), (to, ("f", number))])
        .collect()
}

/// One end of an arrow, on the event that it belongs to; `bp` binds it to that one, not to the next.
fn arrow(&(end, number): &Flow, event: &Event, (process, thread): Track) -> Value {
    json!({
        "name": "value", "cat": "transfer", "ph": end, "id": number, "bp": "e",
        "ts": event.start_us, "pid": process, "tid": thread,
    })
}

#[cfg(test)]
mod tests {
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
