//! Checks of a trace's Chrome JSON, so that viewers show it.

use std::collections::BTreeMap;

use serde_json::Value;
use thalweg::session::Trace;

/// Checks that processes and threads are numbers with names, and that each arrow has both its ends, on a send and a
/// receive. Returns the devices that the arrows lead from and to, sorted.
pub fn arrows(trace: &Trace) -> Vec<[String; 2]> {
    let file: Value = serde_json::from_str(&trace.to_chrome_json()).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    let mut processes = BTreeMap::new();
    let mut threads = BTreeMap::new();
    let number = |event: &Value, key: &str| match event[key].as_u64() {
        Some(number) => number,
        None => panic!("no number '{key}': {event}"),
    };
    for event in events.iter().filter(|e| e["ph"] == "M") {
        let name = event["args"]["name"].as_str().unwrap().to_owned();
        let process = number(event, "pid");
        let before = match event["name"].as_str().unwrap() {
            "process_name" => processes.insert(process, name),
            _ => threads.insert((process, number(event, "tid")), name),
        };
        assert_eq!(before, None, "named twice: {event}");
    }
    let mut slices = Vec::new();
    let mut ends = BTreeMap::new();
    for event in events {
        let (process, thread) = (number(event, "pid"), number(event, "tid"));
        let at = event["ts"].as_f64();
        let end = match event["ph"].as_str().unwrap() {
            "M" => continue,
            "X" => {
                assert!(processes.contains_key(&process), "{event}");
                assert!(threads.contains_key(&(process, thread)), "{event}");
                slices.push((process, thread, at, event["cat"].clone()));
                continue;
            }
            "s" => 0,
            "f" => 1,
            other => panic!("{other}"),
        };
        let op = Value::from(["_Send", "_Recv"][end]);
        assert!(
            slices.contains(&(process, thread, at, op)),
            "on no event: {event}"
        );
        let arrow: &mut [Vec<u64>; 2] = ends.entry(number(event, "id")).or_default();
        arrow[end].push(process);
    }
    let mut all: Vec<[String; 2]> = ends
        .into_values()
        .map(|arrow| match [&arrow[0][..], &arrow[1][..]] {
            [[from], [to]] => [from, to].map(|p| processes[p].clone()),
            _ => panic!("an arrow without one start and one end: {file}"),
        })
        .collect();
    all.sort();
    all
}
