//! Beam search over prefixes of labels, as TensorFlow's `CTCBeamSearchDecoder`.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::{Memory, Reservation};

use super::scores::log_add;

const ZERO: f64 = f64::NEG_INFINITY;

/// Probabilities of a prefix, as logarithms: of ways that end in a blank, in its label, and both.
#[derive(Clone, Copy)]
struct Probability {
    blank: f64,
    label: f64,
    total: f64,
}

impl Probability {
    const NONE: Probability = Probability {
        blank: ZERO,
        label: ZERO,
        total: ZERO,
    };
}

/// A prefix: that of its parent and a label.
struct Prefix {
    parent: Option<usize>,
    label: usize,
    /// By label.
    children: Vec<(usize, usize)>,
    before: Probability,
    now: Probability,
}

/// Estimated bytes of a prefix: its own, and those of its place among its parent's children.
const PREFIX_BYTES: usize = size_of::<Prefix>() + 4 * size_of::<usize>();

/// A search over the times of a sequence.
pub(super) struct BeamSearch {
    /// The bytes of the prefixes.
    taken: Reservation,
    prefixes: Vec<Prefix>,
    /// Prefixes in the beam.
    beam: Vec<usize>,
    /// The place of the least likely one in a full beam, and its probability.
    least: Option<(usize, f64)>,
    width: usize,
    blank: usize,
}

impl BeamSearch {
    pub(super) fn new(width: usize, blank: usize, memory: &Arc<Memory>) -> BeamSearch {
        let certain = Probability {
            blank: 0.0,
            label: ZERO,
            total: 0.0,
        };
        let root = Prefix {
            parent: None,
            label: blank,
            children: Vec::new(),
            before: Probability::NONE,
            now: certain,
        };
        BeamSearch {
            taken: Reservation::of(Some(memory)),
            prefixes: vec![root],
            beam: vec![0],
            least: None,
            width,
            blank,
        }
    }

    /// Takes a time whose classes have these logarithms of probabilities.
    ///
    /// # Errors
    /// There is no memory for more prefixes.
    pub(super) fn step(&mut self, log_y: &[f64]) -> Result<(), KernelError> {
        let mut branches = std::mem::take(&mut self.beam);
        self.sort(&mut branches);
        for b in &branches {
            self.prefixes[*b].before = self.prefixes[*b].now;
        }
        for b in &branches {
            self.stay(*b, log_y);
        }
        self.beam.clone_from(&branches);
        self.find_least();
        for b in branches {
            self.grow(b, log_y)?;
        }
        Ok(())
    }

    /// Sorts prefixes from likely to unlikely.
    fn sort(&self, prefixes: &mut [usize]) {
        let total = |i: &usize| self.prefixes[*i].now.total;
        prefixes.sort_by(|a, b| total(b).total_cmp(&total(a)));
    }

    /// Updates a prefix that stays as it is, by a blank or its label.
    fn stay(&mut self, b: usize, log_y: &[f64]) {
        let Prefix {
            parent,
            label,
            before,
            mut now,
            ..
        } = self.prefixes[b];
        if let Some(parent) = parent {
            let parent = &self.prefixes[parent];
            if parent.now.total != ZERO {
                let from = match label == parent.label {
                    true => parent.before.blank,
                    false => parent.before.total,
                };
                now.label = log_add(now.label, from);
            }
            now.label += log_y[label];
        }
        now.blank = before.total + log_y[self.blank];
        now.total = log_add(now.blank, now.label);
        self.prefixes[b].now = now;
    }

    fn find_least(&mut self) {
        let totals = self.beam.iter().map(|i| self.prefixes[*i].now.total);
        let least = totals.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        self.least = least.filter(|_| self.beam.len() >= self.width);
    }

    /// `true` for a prefix that belongs into the beam.
    fn is_candidate(&self, total: f64) -> bool {
        total > ZERO && self.least.is_none_or(|(_, least)| total > least)
    }

    /// Adds the children of a prefix to the beam, where they are likely enough.
    fn grow(&mut self, b: usize, log_y: &[f64]) -> Result<(), KernelError> {
        let Prefix { label, before, .. } = self.prefixes[b];
        if !self.is_candidate(before.total) {
            return Ok(());
        }
        for (next, log_y) in log_y.iter().enumerate() {
            let known = self.prefixes[b].children.iter().find(|(l, _)| *l == next);
            let known = known.map(|(_, child)| *child);
            if next == self.blank || known.is_some_and(|c| self.prefixes[c].now.total != ZERO) {
                continue;
            }
            let from = match next == label {
                true => before.blank,
                false => before.total,
            };
            let total = log_y + from;
            if !self.is_candidate(total) {
                if let Some(child) = known {
                    self.prefixes[child].before = Probability::NONE;
                    self.prefixes[child].now = Probability::NONE;
                }
                continue;
            }
            let child = match known {
                Some(child) => child,
                None => self.add(b, next)?,
            };
            self.prefixes[child].now = Probability {
                blank: ZERO,
                label: total,
                total,
            };
            self.push(child);
        }
        Ok(())
    }

    fn add(&mut self, parent: usize, label: usize) -> Result<usize, KernelError> {
        let child = self.prefixes.len();
        if !self.taken.grow(PREFIX_BYTES) {
            let bytes = PREFIX_BYTES * (child + 1);
            return Err(KernelError::Memory { bytes });
        }
        self.prefixes.push(Prefix {
            parent: Some(parent),
            label,
            children: Vec::new(),
            before: Probability::NONE,
            now: Probability::NONE,
        });
        self.prefixes[parent].children.push((label, child));
        Ok(child)
    }

    /// Puts a prefix into the beam; the least likely one leaves a full one.
    fn push(&mut self, child: usize) {
        match self.least {
            None => self.beam.push(child),
            Some((place, _)) => {
                let gone = std::mem::replace(&mut self.beam[place], child);
                self.prefixes[gone].now = Probability::NONE;
            }
        }
        self.find_least();
    }

    /// The likeliest label sequences, at most `count`, with the logarithms of their probabilities.
    pub(super) fn best(&self, count: usize, merge_repeated: bool) -> Vec<(Vec<usize>, f64)> {
        let mut all = self.beam.clone();
        self.sort(&mut all);
        all.truncate(count);
        let path = |i: usize| (self.labels(i, merge_repeated), self.prefixes[i].now.total);
        all.into_iter().map(path).collect()
    }

    fn labels(&self, mut at: usize, merge_repeated: bool) -> Vec<usize> {
        let mut labels = Vec::new();
        let mut before = None;
        while let Some(parent) = self.prefixes[at].parent {
            let label = self.prefixes[at].label;
            if !merge_repeated || before != Some(label) {
                labels.push(label);
            }
            before = Some(label);
            at = parent;
        }
        labels.reverse();
        labels
    }
}
