//! Reader of traces in Chrome's JSON format.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use thalweg_session::{Event, Trace};

use crate::failure::Failure;

/// Reads the slices of a trace that `Trace::save` or another program wrote. A slice without an op in its arguments has its
/// category for one.
pub(crate) fn read(path: &Path) -> Result<Trace, Failure> {
    let here = |reason: String| Failure::from(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| here(e.to_string()))?;
    let whole: Value =
        serde_json::from_str(&text).map_err(|e| here(format!("it is no trace in JSON: {e}")))?;
    let events = whole.get("traceEvents").unwrap_or(&whole).as_array();
    let events = events.ok_or_else(|| here("it has no list \"traceEvents\"".to_owned()))?;
    let mut processes: HashMap<u64, &str> = HashMap::new();
    for event in events.iter().filter(|e| e["name"] == "process_name") {
        if let (Some(pid), Some(name)) = (event["pid"].as_u64(), event["args"]["name"].as_str()) {
            processes.insert(pid, name);
        }
    }
    let slices = events.iter().filter(|e| e["ph"] == "X");
    let mut found: Vec<Event> = slices.filter_map(|e| slice(e, &processes)).collect();
    if found.is_empty() {
        return Err(here(
            "it has no event with a name, a start and a duration".to_owned(),
        ));
    }
    found.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
    Ok(Trace {
        events: found,
        ..Trace::default()
    })
}

fn slice(event: &Value, processes: &HashMap<u64, &str>) -> Option<Event> {
    let args = &event["args"];
    // TensorFlow's timelines have the op for a name, and the node among the arguments.
    let node = args["name"].as_str().or(event["name"].as_str())?;
    let op = args["op"].as_str().or(event["cat"].as_str());
    let pid = event["pid"].as_u64().unwrap_or(0);
    let members = args["nodes"].as_array().into_iter().flatten();
    Some(Event {
        node: node.to_owned(),
        op: op.unwrap_or(node).to_owned(),
        device: processes
            .get(&pid)
            .map_or_else(|| format!("process {pid}"), |p| (*p).to_owned()),
        thread: usize::try_from(event["tid"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX),
        start_us: event["ts"].as_f64()?,
        duration_us: event["dur"].as_f64()?,
        bytes: usize::try_from(args["bytes"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX),
        members: members
            .filter_map(|m| m.as_str().map(str::to_owned))
            .collect(),
        channel: None,
    })
}
