//! The frames of loops, and their iterations.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use thalweg_plan::region::{Kind, RegionNode};
use thalweg_tensor::Tensor;

/// A value, or none where it is dead.
pub(super) type SlotValue = Option<Tensor>;

/// A frame and an iteration of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LoopPlace {
    frame: u32,
    iteration: u64,
}

impl LoopPlace {
    /// The place outside of all loops.
    pub(super) const ROOT: LoopPlace = LoopPlace {
        frame: 0,
        iteration: 0,
    };

    pub(super) fn is_root(self) -> bool {
        self == LoopPlace::ROOT
    }
}

/// The inputs of a node in one iteration, as they arrive.
pub(super) struct NodeState {
    /// Number of values that have not come.
    pub(super) values: u32,
    /// Number of control inputs that have not run.
    pub(super) controls: u32,
    pub(super) dead: bool,
    pub(super) ran: bool,
    pub(super) inputs: SmallVec<[SlotValue; 4]>,
    /// Of a Merge: which input came first.
    pub(super) merged: Option<u32>,
}

#[derive(Default)]
struct Iteration {
    states: FxHashMap<u32, NodeState>,
    /// Number of ready nodes and of frames that began in it, and one while it starts.
    holders: usize,
}

struct LoopFrame {
    outside: LoopPlace,
    name: String,
    /// Number of values that have not come in.
    awaited: usize,
    /// `true` if a value that came in was dead.
    dead: bool,
    iterations: FxHashMap<u64, Iteration>,
    /// The first iteration that is not over, and the one after the last that has begun.
    first: u64,
    next: u64,
    /// Values that are the same in every iteration, by the node that they came in through.
    constants: Vec<(u32, SlotValue)>,
    left: FxHashSet<u32>,
    left_dead: FxHashSet<u32>,
}

/// A frame that is over.
pub(super) struct FinishedFrame {
    /// The place in which it began.
    pub(super) outside: LoopPlace,
    /// The exits through which no value left it.
    pub(super) dead: Vec<u32>,
}

/// All frames that are not over.
pub(super) struct LoopFrames {
    frames: FxHashMap<u32, LoopFrame>,
    names: FxHashMap<(LoopPlace, String), u32>,
    count: u32,
}

impl LoopFrames {
    /// With the outermost frame.
    pub(super) fn new() -> LoopFrames {
        let root = LoopFrame {
            outside: LoopPlace::ROOT,
            name: String::new(),
            awaited: 0,
            dead: false,
            iterations: FxHashMap::from_iter([(0, Iteration::default())]),
            first: 0,
            next: 1,
            constants: Vec::new(),
            left: FxHashSet::default(),
            left_dead: FxHashSet::default(),
        };
        LoopFrames {
            frames: FxHashMap::from_iter([(0, root)]),
            names: FxHashMap::default(),
            count: 1,
        }
    }

    fn iteration(&mut self, at: LoopPlace) -> Option<&mut Iteration> {
        let frame = self.frames.get_mut(&at.frame)?;
        frame.iterations.get_mut(&at.iteration)
    }

    /// Holds an iteration, so that it is not over.
    pub(super) fn hold(&mut self, at: LoopPlace) {
        if let Some(iteration) = self.iteration(at) {
            iteration.holders += 1;
        }
    }

    /// Ends a hold.
    pub(super) fn release(&mut self, at: LoopPlace) {
        if let Some(iteration) = self.iteration(at) {
            iteration.holders = iteration.holders.saturating_sub(1);
        }
    }

    /// Returns the state of a node; `None` where the iteration is over.
    pub(super) fn state(
        &mut self,
        at: LoopPlace,
        node: u32,
        of: &RegionNode,
    ) -> Option<&mut NodeState> {
        let states = &mut self.iteration(at)?.states;
        Some(states.entry(node).or_insert_with(|| {
            let inputs = of.node.inputs.len();
            let slots = match of.kind {
                Kind::Merge { .. } => 0,
                _ => inputs,
            };
            NodeState {
                values: inputs as u32,
                controls: of.controls,
                dead: false,
                ran: false,
                inputs: SmallVec::from_elem(None, slots),
                merged: None,
            }
        }))
    }

    /// Returns the first iteration of the frame of this name that begins here.
    pub(super) fn enter(
        &mut self,
        at: LoopPlace,
        name: &str,
        enters: &FxHashMap<String, usize>,
    ) -> LoopPlace {
        let key = (at, name.to_owned());
        let frame = match self.names.get(&key) {
            Some(&frame) => frame,
            None => {
                let number = self.count;
                self.count += 1;
                self.names.insert(key, number);
                let frame = LoopFrame {
                    outside: at,
                    name: name.to_owned(),
                    awaited: enters.get(name).copied().unwrap_or(1),
                    dead: false,
                    iterations: FxHashMap::from_iter([(0, Iteration::default())]),
                    first: 0,
                    next: 1,
                    constants: Vec::new(),
                    left: FxHashSet::default(),
                    left_dead: FxHashSet::default(),
                };
                self.frames.insert(number, frame);
                self.hold(at);
                number
            }
        };
        LoopPlace {
            frame,
            iteration: 0,
        }
    }

    /// Counts one more value that has come in.
    pub(super) fn entered(&mut self, at: LoopPlace) {
        if let Some(frame) = self.frames.get_mut(&at.frame) {
            frame.awaited = frame.awaited.saturating_sub(1);
        }
    }

    /// Marks the frame: a value that came in is dead.
    pub(super) fn mark_dead(&mut self, at: LoopPlace) {
        if let Some(frame) = self.frames.get_mut(&at.frame) {
            frame.dead = true;
        }
    }

    /// Keeps a value for every iteration.
    pub(super) fn keep_constant(&mut self, at: LoopPlace, node: u32, value: SlotValue) {
        if let Some(frame) = self.frames.get_mut(&at.frame) {
            frame.constants.push((node, value));
        }
    }

    /// Returns the iterations after the first that have begun and are not over.
    pub(super) fn later(&self, at: LoopPlace) -> Vec<LoopPlace> {
        let Some(frame) = self.frames.get(&at.frame) else {
            return Vec::new();
        };
        (frame.first.max(1)..frame.next)
            .map(|iteration| LoopPlace { iteration, ..at })
            .collect()
    }

    /// The values that are the same in every iteration.
    pub(super) fn constants(&self, at: LoopPlace) -> Vec<(u32, SlotValue)> {
        let frame = self.frames.get(&at.frame);
        frame.map_or(Vec::new(), |f| f.constants.clone())
    }

    /// Returns the next iteration, and `true` if it begins now.
    pub(super) fn next(&mut self, at: LoopPlace) -> (LoopPlace, bool) {
        let iteration = at.iteration + 1;
        let mut begins = false;
        if let Some(frame) = self.frames.get_mut(&at.frame)
            && iteration == frame.next
        {
            frame.next += 1;
            frame.iterations.insert(iteration, Iteration::default());
            begins = true;
        }
        (LoopPlace { iteration, ..at }, begins)
    }

    /// Returns the place to which an exit's value goes; `None` for a dead value: a later iteration, or the end of the
    /// frame, decides.
    pub(super) fn exit(&mut self, at: LoopPlace, exit: u32, dead: bool) -> Option<LoopPlace> {
        let frame = self.frames.get_mut(&at.frame)?;
        match dead {
            true => {
                frame.left_dead.insert(exit);
                None
            }
            false => {
                frame.left.insert(exit);
                Some(frame.outside)
            }
        }
    }

    /// Drops the iterations of a frame that are over; returns the frame where it is over too.
    pub(super) fn finish(&mut self, at: LoopPlace) -> Option<FinishedFrame> {
        let frame = self.frames.get_mut(&at.frame)?;
        while frame.first < frame.next && frame.awaited == 0 {
            let iteration = frame.iterations.get(&frame.first);
            if iteration.is_some_and(|i| i.holders > 0) {
                return None;
            }
            frame.iterations.remove(&frame.first);
            frame.first += 1;
        }
        if frame.first < frame.next || at.frame == 0 {
            return None;
        }
        let frame = self.frames.remove(&at.frame)?;
        self.names.remove(&(frame.outside, frame.name));
        let dead = frame.left_dead.difference(&frame.left).copied();
        let mut dead: Vec<u32> = dead.collect();
        dead.sort_unstable();
        Some(FinishedFrame {
            outside: frame.outside,
            dead,
        })
    }
}
