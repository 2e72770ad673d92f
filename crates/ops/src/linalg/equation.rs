//! Equations of Einsum: the labels of the dimensions of its inputs and of its output.

use smallvec::SmallVec;
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::Shape;
use thalweg_tensor::text::counted;

/// Label of a dimension: a letter, or the place from the right in an ellipsis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Label {
    Letter(char),
    Broadcast(usize),
}

/// Labels of one tensor, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// Letters before the ellipsis, or all if there is none.
    pub(super) before: Vec<char>,
    /// Letters after the ellipsis, if there is one.
    pub(super) after: Option<Vec<char>>,
}

fn invalid(reason: impl Into<String>) -> InferError {
    InferError::Attr {
        attr: "equation",
        reason: reason.into(),
    }
}

impl Term {
    fn parse(text: &str) -> Result<Term, InferError> {
        let letters = |text: &str| -> Result<Vec<char>, InferError> {
            match text.chars().find(|c| !c.is_ascii_alphabetic()) {
                Some(c) => Err(invalid(format!(
                    "{c:?} is no label: use letters and one ellipsis"
                ))),
                None => Ok(text.chars().collect()),
            }
        };
        Ok(match text.split_once("...") {
            None => Term {
                before: letters(text)?,
                after: None,
            },
            Some((before, after)) => Term {
                before: letters(before)?,
                after: Some(letters(after)?),
            },
        })
    }

    /// All letters, including repetitions.
    pub(super) fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.before
            .iter()
            .chain(self.after.iter().flatten())
            .copied()
    }

    /// Number of dimensions that the ellipsis stands for in a tensor of this rank.
    pub(super) fn broadcast(&self, rank: usize) -> Result<usize, InferError> {
        let own = self.letters().count();
        match (rank.checked_sub(own), &self.after) {
            (Some(rest), Some(_)) => Ok(rest),
            (Some(0), None) => Ok(0),
            _ => Err(invalid(format!(
                "it has {} for a tensor of {}",
                counted(own, "label"),
                counted(rank, "dimension")
            ))),
        }
    }

    /// Label of each dimension, if the ellipsis stands for `broadcast` of them.
    pub(super) fn labels(&self, broadcast: usize) -> Vec<Label> {
        let before = self.before.iter().map(|&c| Label::Letter(c));
        let Some(after) = &self.after else {
            return before.collect();
        };
        let middle = (0..broadcast).rev().map(Label::Broadcast);
        let after = after.iter().map(|&c| Label::Letter(c));
        before.chain(middle).chain(after).collect()
    }

    /// The term as written.
    pub(super) fn text(&self) -> String {
        let before: String = self.before.iter().collect();
        match &self.after {
            None => before,
            Some(after) => before + "..." + &after.iter().collect::<String>(),
        }
    }
}

/// An equation: the labels of one or two inputs, and of the output.
#[derive(Clone, Debug)]
pub(super) struct Equation {
    pub(super) inputs: Vec<Term>,
    pub(super) output: Term,
}

impl Equation {
    pub(super) fn parse(text: &str, inputs: usize) -> Result<Equation, InferError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (from, to) = text
            .split_once("->")
            .ok_or_else(|| invalid("it must have a '->' before the labels of the output"))?;
        let terms: Result<Vec<Term>, _> = from.split(',').map(Term::parse).collect();
        let equation = Equation {
            inputs: terms?,
            output: Term::parse(to)?,
        };
        let n = equation.inputs.len();
        if n != inputs || n > 2 {
            return Err(invalid(format!(
                "it has {}, the node {inputs}: Einsum takes one or two",
                counted(n, "input")
            )));
        }
        let known = |c: char| equation.inputs.iter().any(|t| t.letters().any(|l| l == c));
        let unknown = equation.output.letters().find(|&c| !known(c));
        match unknown {
            Some(c) => Err(invalid(format!("{c:?} of the output is in no input"))),
            None => Ok(equation),
        }
    }

    /// Labels of each input and of the output, for inputs of these ranks.
    pub(super) fn labels(
        &self,
        ranks: &[usize],
    ) -> Result<(Vec<Vec<Label>>, Vec<Label>), InferError> {
        let mut most = 0;
        let mut labels = Vec::with_capacity(ranks.len());
        for (term, &rank) in self.inputs.iter().zip(ranks) {
            let broadcast = term.broadcast(rank)?;
            most = most.max(broadcast);
            labels.push(term.labels(broadcast));
        }
        Ok((labels, self.output.labels(most)))
    }
}

/// Sizes of labels.
#[derive(Debug, Default)]
pub(super) struct LabelSizes(SmallVec<[(Label, Option<usize>); 8]>);

impl LabelSizes {
    pub(super) fn of(&self, label: Label) -> Option<usize> {
        self.0
            .iter()
            .find(|(l, _)| *l == label)
            .and_then(|(_, d)| *d)
    }

    /// All labels, in order of first occurrence.
    pub(super) fn labels(&self) -> impl Iterator<Item = Label> + '_ {
        self.0.iter().map(|(l, _)| *l)
    }

    fn add(&mut self, label: Label, d: Option<usize>) -> Result<(), InferError> {
        let Some((_, known)) = self.0.iter_mut().find(|(l, _)| *l == label) else {
            self.0.push((label, d));
            return Ok(());
        };
        let broadcasts = matches!(label, Label::Broadcast(_));
        *known = match (*known, d) {
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(1), other) | (other, Some(1)) if broadcasts => other,
            (Some(a), Some(b)) => {
                return Err(invalid(format!(
                    "a label has {} in one place and {b} in another",
                    counted(a, "element")
                )));
            }
            (a, b) => a.or(b),
        };
        Ok(())
    }

    /// Sizes of the labels of tensors with these dimensions.
    pub(super) fn new<'a>(
        tensors: impl Iterator<Item = (&'a [Label], SmallVec<[Option<usize>; 6]>)>,
    ) -> Result<LabelSizes, InferError> {
        let mut sizes = LabelSizes::default();
        for (labels, dims) in tensors {
            for (&label, d) in labels.iter().zip(dims) {
                sizes.add(label, d)?;
            }
        }
        Ok(sizes)
    }
}

/// Shape rule of Einsum.
pub(super) fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let equation = Equation::parse(cx.attrs().str("equation"), cx.inputs())?;
    let ranks: Option<Vec<usize>> = (0..cx.inputs()).map(|i| cx.shape(i).rank()).collect();
    let Some(ranks) = ranks else {
        if equation.output.after.is_none() {
            cx.set(0, Shape::of_rank(equation.output.before.len()));
        }
        return Ok(());
    };
    let (labels, output) = equation.labels(&ranks)?;
    let tensors = labels.iter().enumerate().map(|(i, labels)| {
        let dims = cx.shape(i).dims().unwrap_or_default();
        (&labels[..], dims.iter().copied().collect())
    });
    let sizes = LabelSizes::new(tensors)?;
    let shape = Shape::partial(output.iter().map(|&l| sizes.of(l)));
    if let Some(dims) = shape.to_dims()
        && thalweg_tensor::shape::checked_elements(&dims).is_none_or(|n| n > isize::MAX as usize)
    {
        return Err(invalid(format!("an output of shape {shape} is too large")));
    }
    cx.set(0, shape);
    Ok(())
}
