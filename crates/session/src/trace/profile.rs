//! Profile: time and memory of traced steps by op and by layer.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use thalweg_tensor::text::{counted, grouped};

use super::event::{Event, Trace};
use super::layer_names::{LayerNames, Phase};

/// Time and memory of traced steps, by op and by layer; [`Trace::profile`] makes one of a single step. Figures are sums
/// over the steps. [`Display`](fmt::Display) prints tables of their means.
///
/// The time of an event is its own: less that of the events within it on the same thread, as those of a branch's nodes.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{LinalgOps, MathOps, NewGraph, SourceOps, StateOps};
/// use thalweg_session::{Feeding, RunOptions, Session};
/// use thalweg_tensor::{DType, Tensor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1, 64]);
/// let w = g.variable("dense/w", Tensor::zeros(DType::F32, &[64, 8])?);
/// let y = g.name_scope("dense", || x.matmul(w));
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// let feeds = [x.feed(Tensor::zeros(DType::F32, &[32, 64])?)];
/// let (_, trace) = session.step_with(y, feeds, &RunOptions::new().traced())?;
/// let profile = trace.profile();
/// assert_eq!(profile.layers[0].layer, "dense");
/// let product = profile.ops.iter().find(|o| o.op == "MatMul").unwrap();
/// assert_eq!((product.runs, product.bytes), (1, 32 * 8 * 4));
/// println!("{profile}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Number of steps.
    pub steps: usize,
    /// The ops, the longest first.
    pub ops: Vec<OpProfile>,
    /// The layers, in the order in which they first ran.
    pub layers: Vec<LayerProfile>,
    /// Microseconds from the first start to the last end of each step.
    pub span_us: f64,
    /// Bytes of the arenas in which a step's values lie; the largest of the steps.
    pub arena_bytes: usize,
}

/// An op in a [`Profile`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpProfile {
    /// The op, or the direction of a copy.
    pub op: String,
    /// Number of its runs.
    pub runs: usize,
    /// Their microseconds.
    pub us: f64,
    /// Bytes of their outputs.
    pub bytes: usize,
}

/// A layer in a [`Profile`]: the nodes of a scope that has variables, with their gradients and the updates of the
/// variables; or those of another scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerProfile {
    /// The scope; empty for nodes without one.
    pub layer: String,
    /// Number of runs.
    pub runs: usize,
    /// Microseconds of its nodes.
    pub forward_us: f64,
    /// Microseconds of their gradients.
    pub backward_us: f64,
    /// Microseconds of the updates of its variables.
    pub update_us: f64,
    /// Bytes of the outputs of all of these.
    pub bytes: usize,
}

impl LayerProfile {
    /// Microseconds of all phases.
    pub fn us(&self) -> f64 {
        self.forward_us + self.backward_us + self.update_us
    }
}

impl Profile {
    /// The profile of these steps.
    pub fn of<'t>(traces: impl IntoIterator<Item = &'t Trace>) -> Profile {
        let mut profile = Profile::default();
        let mut ops: HashMap<&str, OpProfile> = HashMap::new();
        let mut layers: BTreeMap<String, usize> = BTreeMap::new();
        for trace in traces {
            profile.steps += 1;
            profile.span_us += span(&trace.events);
            profile.arena_bytes = profile.arena_bytes.max(trace.arena_bytes);
            let names = LayerNames::of(&trace.events);
            for (event, (own_us, around)) in trace.events.iter().zip(own_times(&trace.events)) {
                let op = ops.entry(&event.op).or_default();
                op.runs += 1;
                op.us += own_us;
                op.bytes = op.bytes.saturating_add(event.bytes);
                let (layer, phase) = names.place(event, around);
                let at = *layers.entry(layer).or_insert_with_key(|layer| {
                    profile.layers.push(LayerProfile {
                        layer: layer.clone(),
                        ..LayerProfile::default()
                    });
                    profile.layers.len() - 1
                });
                let layer = &mut profile.layers[at];
                layer.runs += 1;
                layer.bytes = layer.bytes.saturating_add(event.bytes);
                match phase {
                    Phase::Forward => layer.forward_us += own_us,
                    Phase::Backward => layer.backward_us += own_us,
                    Phase::Update => layer.update_us += own_us,
                }
            }
        }
        profile.ops = ops
            .into_iter()
            .map(|(op, row)| OpProfile {
                op: op.to_owned(),
                ..row
            })
            .collect();
        let longest = |a: &OpProfile, b: &OpProfile| b.us.total_cmp(&a.us).then(a.op.cmp(&b.op));
        profile.ops.sort_by(longest);
        profile
    }

    /// Microseconds of all events.
    pub fn us(&self) -> f64 {
        self.ops.iter().map(|o| o.us).sum()
    }
}

/// Microseconds from the first start to the last end.
fn span(events: &[Event]) -> f64 {
    let start = events.iter().map(|e| e.start_us).reduce(f64::min);
    let end = events
        .iter()
        .map(|e| e.start_us + e.duration_us)
        .reduce(f64::max);
    start.zip(end).map_or(0.0, |(start, end)| end - start)
}

/// See [`Trace::own_times`].
pub(super) fn own_times(events: &[Event]) -> Vec<(f64, Option<&Event>)> {
    let mut by_thread: BTreeMap<(&str, usize), Vec<usize>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let thread = (&*event.device, event.thread);
        by_thread.entry(thread).or_default().push(at);
    }
    let mut own: Vec<(f64, Option<&Event>)> =
        events.iter().map(|e| (e.duration_us, None)).collect();
    for mut all in by_thread.into_values() {
        // Of two events that start together, the longer one is around the other.
        all.sort_by(|&a, &b| {
            let (a, b) = (&events[a], &events[b]);
            let starts = a.start_us.total_cmp(&b.start_us);
            starts.then(b.duration_us.total_cmp(&a.duration_us))
        });
        let mut around: Vec<usize> = Vec::new();
        for at in all {
            let end = |at: usize| events[at].start_us + events[at].duration_us;
            while around.last().is_some_and(|&outer| end(at) > end(outer)) {
                around.pop();
            }
            if let Some(&outer) = around.last() {
                own[outer].0 = (own[outer].0 - events[at].duration_us).max(0.0);
                own[at].1 = Some(&events[around[0]]);
            }
            around.push(at);
        }
    }
    own
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.max(1);
        let all = self.us().max(f64::MIN_POSITIVE);
        let ms = |us: f64| format!("{:.3}", us / 1e3 / steps as f64);
        let share = |us: f64| format!("{:.1}%", 100.0 * us / all);
        let bytes = |bytes: usize| grouped(bytes / steps);
        let runs = |runs: usize| grouped(runs / steps);
        let mut rows = vec![
            [
                "layer",
                "runs",
                "forward ms",
                "backward ms",
                "update ms",
                "share",
                "output bytes",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        rows.extend(self.layers.iter().map(|l| {
            let name = if l.layer.is_empty() {
                "(no scope)".to_owned()
            } else {
                l.layer.clone()
            };
            vec![
                name,
                runs(l.runs),
                ms(l.forward_us),
                ms(l.backward_us),
                ms(l.update_us),
                share(l.us()),
                bytes(l.bytes),
            ]
        }));
        aligned(f, &rows)?;
        writeln!(f)?;
        let mut rows = vec![
            ["op", "runs", "ms", "share", "output bytes"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(self.ops.iter().map(|o| {
            vec![
                o.op.clone(),
                runs(o.runs),
                ms(o.us),
                share(o.us),
                bytes(o.bytes),
            ]
        }));
        aligned(f, &rows)?;
        writeln!(f)?;
        let of = match self.steps {
            0 | 1 => counted(self.steps, "step"),
            n => format!("mean of {n} steps"),
        };
        let (span, all) = (ms(self.span_us), ms(self.us()));
        write!(
            f,
            "{of}: {span} ms from the first start to the last end; {all} ms in kernels and copies, over all threads"
        )?;
        match self.arena_bytes {
            0 => writeln!(f),
            bytes => writeln!(f, "; {} bytes of arenas", grouped(bytes)),
        }
    }
}

/// Writes rows in columns: the first to the left, the others to the right.
fn aligned(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|r| r[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => write!(f, "{cell:width$}")?,
                _ => write!(f, "  {cell:>width$}")?,
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(node: &str, op: &str, thread: usize, start_us: f64, duration_us: f64) -> Event {
        Event {
            node: node.to_owned(),
            op: op.to_owned(),
            thread,
            start_us,
            duration_us,
            bytes: 1000,
            ..Event::default()
        }
    }

    #[test]
    fn time_within_an_event_counts_once() {
        let events = vec![
            event("a/cond", "If", 0, 0.0, 100.0),
            event("Inner", "While", 0, 10.0, 50.0),
            event("Mul", "Mul", 0, 20.0, 30.0),
            event("Sub", "Sub", 0, 70.0, 10.0),
            // On another thread.
            event("b/Mul", "Mul", 1, 20.0, 30.0),
            event("b/Sub", "Sub", 0, 100.0, 5.0),
        ];
        let trace = Trace {
            events,
            ..Trace::default()
        };
        let profile = trace.profile();
        let ops: Vec<(&str, usize, f64)> =
            profile.ops.iter().map(|o| (&*o.op, o.runs, o.us)).collect();
        assert_eq!(
            ops,
            [
                ("Mul", 2, 60.0),
                ("If", 1, 40.0),
                ("While", 1, 20.0),
                ("Sub", 2, 15.0)
            ]
        );
        let layers: Vec<(&str, f64)> = profile.layers.iter().map(|l| (&*l.layer, l.us())).collect();
        assert_eq!(layers, [("a", 100.0), ("b", 35.0)]);
        assert_eq!((profile.us(), profile.span_us), (135.0, 105.0));
    }

    #[test]
    fn tables_have_the_means_of_several_steps() {
        let step = |us| Trace {
            events: vec![
                event("dense/w/Read/ReadVariableOp", "ReadVariableOp", 0, 0.0, us),
                event("dense/MatMul", "MatMul", 0, us, 2.0 * us),
                event(
                    "gradients/dense/MatMul_grad/MatMul",
                    "MatMul",
                    0,
                    3.0 * us,
                    us,
                ),
                event(
                    "Adam/update_dense/w/ResourceApplyAdam",
                    "ResourceApplyAdam",
                    0,
                    4.0 * us,
                    us,
                ),
            ],
            arena_bytes: 4096,
            ..Trace::default()
        };
        let text = Profile::of(&[step(1000.0), step(2000.0)]).to_string();
        assert_eq!(
            text,
            "\
layer  runs  forward ms  backward ms  update ms   share  output bytes
dense     4       4.500        1.500      1.500  100.0%         4,000

op                 runs     ms  share  output bytes
MatMul                2  4.500  60.0%         2,000
ReadVariableOp        1  1.500  20.0%         1,000
ResourceApplyAdam     1  1.500  20.0%         1,000

mean of 2 steps: 7.500 ms from the first start to the last end; 7.500 ms in kernels and copies, over all threads; 4,096 bytes of arenas
"
        );
    }

    #[test]
    fn a_trace_without_events_has_a_profile() {
        let profile = Trace::default().profile();
        assert_eq!((profile.us(), profile.layers.len()), (0.0, 0));
        assert!(profile.to_string().ends_with("over all threads\n"));
    }
}
