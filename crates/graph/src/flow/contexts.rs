//! The control-flow context of each node: the loop frames and branches that it is in.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ops::{ENTER, EXIT, MERGE, SWITCH};
use crate::data::GraphData;
use crate::node::{Node, NodeId, OutputId};
use crate::op::Effect;

/// One level of control flow around a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Level {
    /// Inside the loop frame of this name.
    Frame(String),
    /// Behind the Switch on this value, on this side.
    Branch(OutputId, u32),
    /// Behind control flow that does not close in a known way.
    Unknown,
}

/// The number of a context: the frames and branches around a node, outermost first.
type Context = u32;

/// The context of nodes that run exactly once.
const ROOT: Context = 0;

/// The deepest nesting of loops whose frames are told apart by all their values.
const MAX_FRAME_DEPTH: usize = 16;
/// The most levels around a frame that are remembered by its name.
const MAX_LEVELS: u32 = 64;

/// The levels around a node: the two outermost, and their number.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) outer: Option<&'a Level>,
    pub(super) second: Option<&'a Level>,
    pub(super) depth: u32,
}

/// The numbers of the two outermost contexts around one, itself among them, and the number of its levels.
#[derive(Clone, Copy, Default)]
struct Ancestry {
    outer: Context,
    second: Context,
    depth: u32,
}

/// The context of each node. A node outside of all frames and branches runs exactly once.
///
/// The rules are those by which TensorFlow's `cond` and `while_loop` build: a branch begins at a
/// Switch and ends at a Merge of both sides, a frame begins at Enter and ends at Exit. Other
/// structures are taken to be inside, which is always correct and only costs speed.
#[derive(Default)]
pub struct Contexts {
    /// By number: the outer context, and the innermost level.
    contexts: Vec<(Context, Level)>,
    /// By number.
    ancestry: Vec<Ancestry>,
    numbers: FxHashMap<(Context, Level), Context>,
    by_node: Vec<Context>,
}

impl Contexts {
    /// Computes the contexts of the nodes in `order`, a topological order but for the back edges of
    /// loops.
    pub fn new(data: &GraphData, order: &[NodeId]) -> Contexts {
        let mut parents = FxHashMap::default();
        // A frame is as deep as the deepest value that comes into it; each turn finds one more level.
        for _ in 0..MAX_FRAME_DEPTH {
            let (contexts, found) = Contexts::within(data, order, &parents);
            if found == parents {
                return contexts;
            }
            parents = found;
        }
        Contexts::within(data, order, &parents).0
    }

    /// Computes the contexts with these levels around frames, by name, and returns the levels that it found.
    fn within(
        data: &GraphData,
        order: &[NodeId],
        parents: &FxHashMap<String, Vec<Level>>,
    ) -> (Contexts, FxHashMap<String, Vec<Level>>) {
        let mut all = Contexts {
            contexts: vec![(ROOT, Level::Unknown)],
            ancestry: vec![Ancestry::default()],
            ..Contexts::default()
        };
        let mut found: FxHashMap<String, Vec<Level>> = FxHashMap::default();
        let flows = |id: &NodeId| data.node(*id).op.effect == Effect::Flow;
        if !order.iter().any(flows) {
            return (all, found);
        }
        all.by_node = vec![ROOT; data.len()];
        let mut seen = vec![false; data.len()];
        for &id in order {
            let node = data.node(id);
            let inputs = node
                .inputs
                .iter()
                .filter(|i| seen.get(i.node.index()) == Some(&true));
            let inputs: SmallVec<[Context; 4]> = inputs.map(|&i| all.of_output(data, i)).collect();
            // A node that waits for an Exit is as far outside of the frame as a node that uses its
            // value.
            let context = |c: &NodeId| match name(data.node(*c)) {
                EXIT => all.outside_of_frame(all.by_node[c.index()]),
                _ => all.by_node[c.index()],
            };
            let controls = node.controls.iter().map(context);
            let controls: SmallVec<[Context; 4]> = controls.collect();
            let around = match name(node) {
                MERGE => all.merged(&inputs),
                _ => inputs.iter().fold(ROOT, |a, &b| all.both(a, b)),
            };
            let mut context = controls.iter().fold(around, |a, &b| all.both(a, b));
            if name(node) == ENTER {
                let frame = node.attrs.str("frame_name");
                let known = parents.get(frame);
                let known = known.map_or(ROOT, |levels| all.context(levels));
                context = all.both(context, known);
                let deepest = found.entry(frame.to_owned()).or_default();
                let depth = all.ancestry[context as usize].depth;
                if depth <= MAX_LEVELS && depth as usize > deepest.len() {
                    *deepest = all.levels_of(context);
                }
                context = all.inside(context, Level::Frame(frame.to_owned()));
            }
            if name(node) == "ControlTrigger" {
                context = all.frame(context);
            }
            all.by_node[id.index()] = context;
            seen[id.index()] = true;
        }
        (all, found)
    }

    /// The context of the innermost frame, outside of the branches in it: that of a node that is never dead.
    fn frame(&self, mut at: Context) -> Context {
        while at != ROOT && !matches!(self.contexts[at as usize].1, Level::Frame(_)) {
            at = self.contexts[at as usize].0;
        }
        at
    }

    /// The context of these levels.
    fn context(&mut self, levels: &[Level]) -> Context {
        levels
            .iter()
            .fold(ROOT, |at, level| self.inside(at, level.clone()))
    }

    /// `true` if a node may run never or many times, or is a control-flow node itself.
    pub fn in_control_flow(&self, node: &Node, id: NodeId) -> bool {
        node.op.effect == Effect::Flow || self.by_node.get(id.index()).is_some_and(|&c| c != ROOT)
    }

    /// The levels around a node.
    pub(super) fn place(&self, id: NodeId) -> Place<'_> {
        let at = self.by_node.get(id.index()).copied().unwrap_or(ROOT);
        let Ancestry {
            outer,
            second,
            depth,
        } = self.ancestry[at as usize];
        let level = |at: Context| (at != ROOT).then(|| &self.contexts[at as usize].1);
        Place {
            outer: level(outer),
            second: level(second),
            depth,
        }
    }

    /// The levels of a context, outermost first.
    fn levels_of(&self, mut at: Context) -> Vec<Level> {
        let mut levels = Vec::new();
        while at != ROOT {
            let (around, level) = &self.contexts[at as usize];
            levels.push(level.clone());
            at = *around;
        }
        levels.reverse();
        levels
    }

    /// The context in which an output has a value.
    fn of_output(&mut self, data: &GraphData, output: OutputId) -> Context {
        let node = data.node(output.node);
        let context = self.by_node[output.node.index()];
        match (name(node), node.inputs.get(1)) {
            (SWITCH, Some(&on)) => {
                self.inside(context, Level::Branch(value_of(data, on), output.index))
            }
            (EXIT, _) => self.outside_of_frame(context),
            _ => context,
        }
    }

    fn inside(&mut self, around: Context, token: Level) -> Context {
        let next = self.contexts.len() as Context;
        let key = (around, token);
        let number = *self.numbers.entry(key.clone()).or_insert(next);
        if number == next {
            self.contexts.push(key);
            let of = self.ancestry[around as usize];
            self.ancestry.push(match of.depth {
                0 => Ancestry {
                    outer: next,
                    second: ROOT,
                    depth: 1,
                },
                1 => Ancestry {
                    second: next,
                    depth: 2,
                    ..of
                },
                depth => Ancestry {
                    depth: depth + 1,
                    ..of
                },
            });
        }
        number
    }

    /// The context around the innermost frame.
    fn outside_of_frame(&self, mut at: Context) -> Context {
        while at != ROOT {
            let (around, token) = &self.contexts[at as usize];
            at = *around;
            if matches!(token, Level::Frame(_)) {
                break;
            }
        }
        at
    }

    /// The context of a node that needs values of both.
    fn both(&mut self, a: Context, b: Context) -> Context {
        if a == b || self.is_around(b, a) {
            return a;
        }
        if self.is_around(a, b) {
            return b;
        }
        let mut common = a;
        while !self.is_around(common, b) {
            common = self.contexts[common as usize].0;
        }
        self.inside(common, Level::Unknown)
    }

    fn is_around(&self, outer: Context, mut inner: Context) -> bool {
        while inner > outer {
            // Inner contexts have larger numbers.
            inner = self.contexts[inner as usize].0;
        }
        inner == outer
    }

    /// The context of a node that takes whichever input arrives.
    fn merged(&mut self, inputs: &[Context]) -> Context {
        if let &[a, b] = inputs {
            let ((around, one), (same, other)) =
                (&self.contexts[a as usize], &self.contexts[b as usize]);
            if let (Level::Branch(p, i), Level::Branch(q, j)) = (one, other)
                && (around, p) == (same, q)
                && i != j
                && a != ROOT
                && b != ROOT
            {
                return *around;
            }
        }
        let Some((&first, others)) = inputs.split_first() else {
            return ROOT;
        };
        if others.iter().all(|&other| other == first) {
            return first;
        }
        // It may run where one of its inputs is dead, or all but one.
        let mut common = first;
        for &other in others {
            while !self.is_around(common, other) {
                common = self.contexts[common as usize].0;
            }
        }
        self.inside(common, Level::Unknown)
    }
}

/// The output that Identity nodes pass on: `cond` has two names for the value that decides.
pub(super) fn value_of(data: &GraphData, mut output: OutputId) -> OutputId {
    while let Some(node) = data.get(output.node)
        && node.op.name == "Identity"
        && let Some(&input) = node.inputs.first()
        && input.node < output.node
    {
        output = input;
    }
    output
}

/// The name of a node's op; for an op on references, the name of the op on handles: RefSwitch is a
/// Switch.
pub(super) fn name(node: &Node) -> &'static str {
    node.op.on_handles.unwrap_or(node.op.name)
}
