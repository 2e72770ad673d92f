//! Run metadata: traces as TensorFlow's `RunMetadata`, which TensorBoard shows beside the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_graph::{Graph, GraphData};
use thalweg_graphdef::messages::{
    AllocationDescription, DeviceStepStats, NodeExecStats, NodeOutput, RunMetadata, StepStats,
    TensorDescription,
};
use thalweg_graphdef::{dtype, shape};
use thalweg_session::{Event, Trace};

/// The trace of a step of this graph as `RunMetadata`: for each device and node the times and the bytes of its outputs.
/// Of nodes that were computed together, the first has the time (a convolution, a product), and the others are listed
/// without one.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, SourceOps};
/// use thalweg_session::{Feeding, RunOptions, Session};
/// use thalweg_summary::SummaryWriter;
/// use thalweg_tensor::DType;
/// use thalweg_train::run_metadata;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1]);
/// let root = x.sqrt();
/// let session = Session::new(&g)?;
/// let (_, trace) = session.step_with(root, [x.feed([4.0f32])], &RunOptions::new().traced())?;
///
/// let logs = std::env::temp_dir().join(format!("thalweg-metadata-{}", std::process::id()));
/// let writer = SummaryWriter::create(&logs)?;
/// writer.graph(&g)?;
/// writer.run_metadata("step 1", &run_metadata(&g, &trace), 1)?;
/// writer.close()?;
/// # std::fs::remove_dir_all(&logs)?;
/// # Ok(())
/// # }
/// ```
pub fn run_metadata(graph: &Graph, trace: &Trace) -> RunMetadata {
    let end = trace.events.iter().map(|e| e.start_us + e.duration_us);
    let end = end.fold(0.0, f64::max);
    let took = Duration::try_from_secs_f64(end / 1e6).unwrap_or_default();
    let began = SystemTime::now().checked_sub(took).unwrap_or(UNIX_EPOCH);
    let members = trace.events.iter().flat_map(|event| {
        let device = &event.device;
        event.members.iter().map(move |m| (&**m, device.clone()))
    });
    RunMetadata {
        step_stats: Some(step_stats(graph, members, began, trace)),
        ..RunMetadata::default()
    }
}

/// Encodes the trace of a step that began at this time. `needed` are names and devices of nodes of the step; those that did
/// not run by themselves (constants, handles, nodes that others stand for) take no time, so that TensorFlow's tools show
/// them as used.
pub fn step_stats<'n>(
    graph: &Graph,
    needed: impl IntoIterator<Item = (&'n str, String)>,
    began: SystemTime,
    trace: &Trace,
) -> StepStats {
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let began = i64::try_from(began.as_micros()).unwrap_or(i64::MAX);
    let mut listed: BTreeSet<&str> = trace.events.iter().map(name).collect();
    let mut devices: BTreeMap<String, Vec<NodeExecStats>> = BTreeMap::new();
    for (name, device) in needed {
        let own = devices.entry(device).or_default();
        if listed.insert(name) {
            own.push(NodeExecStats {
                node_name: name.to_owned(),
                all_start_micros: began,
                scheduled_micros: began,
                ..NodeExecStats::default()
            });
        }
    }
    let data = graph.snapshot();
    for event in &trace.events {
        let own = devices.entry(event.device.clone()).or_default();
        own.push(stats(graph, &data, began, event));
    }
    let device =
        |(device, node_stats): (String, Vec<NodeExecStats>)| DeviceStepStats { device, node_stats };
    StepStats {
        dev_stats: devices.into_iter().map(device).collect(),
    }
}

/// The node that has the time of an event.
fn name(event: &Event) -> &str {
    event.members.first().unwrap_or(&event.node)
}

fn stats(graph: &Graph, data: &GraphData, began: i64, event: &Event) -> NodeExecStats {
    let start = began.saturating_add(event.start_us as i64);
    let took = event.duration_us.ceil() as i64;
    let node = graph.find(name(event)).and_then(|n| data.get(n.id()));
    let inputs = node.iter().flat_map(|n| &n.inputs);
    let inputs: Vec<String> = inputs.map(|i| data.output_name(*i)).collect();
    let outputs = node.iter().flat_map(|n| n.outputs.iter().enumerate());
    let output = outputs.map(|(slot, fact)| NodeOutput {
        slot: slot as i32,
        tensor_description: Some(TensorDescription {
            dtype: dtype::to_number(fact.dtype),
            shape: Some(shape::to_proto(&fact.shape)),
            allocation_description: Some(AllocationDescription {
                requested_bytes: if slot == 0 { event.bytes as i64 } else { 0 },
                allocated_bytes: 0,
                allocator_name: "cpu".to_owned(),
            }),
        }),
    });
    NodeExecStats {
        node_name: name(event).to_owned(),
        all_start_micros: start,
        op_start_rel_micros: 0,
        op_end_rel_micros: took,
        all_end_rel_micros: took,
        output: output.collect(),
        timeline_label: format!("{} = {}({})", name(event), event.op, inputs.join(", ")),
        scheduled_micros: start,
        thread_id: event.thread as u32,
    }
}

#[cfg(test)]
mod tests {
    use thalweg_ops::{DataFormat, NewGraph, NnOps, Padding, SourceOps};
    use thalweg_session::{Feeding, RunOptions, Session};
    use thalweg_tensor::{DType, Tensor};

    use super::*;

    #[test]
    fn every_node_of_a_fused_kernel_is_listed_and_one_has_the_time() {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [1, 8, 8, 3]);
        let filter = g.placeholder("filter", DType::F32, [3, 3, 3, 4]);
        let sums = x
            .conv2d(filter, [1, 1], Padding::Same, DataFormat::Nhwc)
            .named("a");
        let biased = sums
            .bias_add(g.constant([1.0f32; 4]), DataFormat::Nhwc)
            .named("b");
        let y = biased.relu().named("c");
        let session = Session::new(&g).unwrap();
        let options = RunOptions::new().traced();
        let feeds = [
            x.feed(Tensor::zeros(DType::F32, &[1, 8, 8, 3]).unwrap()),
            filter.feed(Tensor::zeros(DType::F32, &[3, 3, 3, 4]).unwrap()),
        ];
        let (_, trace) = session.step_with(y, feeds, &options).unwrap();
        let metadata = run_metadata(&g, &trace);
        let [device] = &metadata.step_stats.unwrap().dev_stats[..] else {
            panic!("one device");
        };
        let of = |name: &str| {
            let mut found = device.node_stats.iter().filter(|n| n.node_name == name);
            let first = found
                .next()
                .unwrap_or_else(|| panic!("{name} is not listed"));
            assert!(found.next().is_none(), "{name} is listed twice");
            first
        };
        for other in ["b", "c"] {
            assert_eq!(of(other).all_end_rel_micros, 0);
        }
        let first = of("a");
        assert!(first.all_end_rel_micros > 0);
        let output = first.output[0].tensor_description.clone().unwrap();
        assert_eq!(
            output.allocation_description.unwrap().requested_bytes,
            8 * 8 * 4 * 4
        );
    }
}
