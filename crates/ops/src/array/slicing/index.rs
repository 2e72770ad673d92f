//! Index types of `ArrayOps::at`: numbers and ranges, as in NumPy's basic slicing.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use thalweg_graph::{Output, Reason};

use crate::array::source_ops::SourceOps;

/// All remaining dimensions: NumPy's `...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest;

/// A new dimension of 1: NumPy's `newaxis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAxis;

/// Maximum number of parts: the op's masks have a bit for each.
const MAX_PARTS: usize = 63;

/// Index into one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One element; the dimension is removed.
    At(i64),
    /// The elements from one bound to before another, `step` apart. Negative bounds count from the end.
    Range {
        /// The first element; `None` for the first of all.
        from: Option<i64>,
        /// The element after the last; `None` for no bound.
        to: Option<i64>,
        /// Step between elements; negative for the reverse order.
        step: i64,
    },
    /// See [`Rest`].
    Rest,
    /// See [`NewAxis`].
    New,
}

impl Part {
    /// The elements from one bound to before another, either of which may be negative and count from the end: `1..-1`
    /// would be an empty range in Rust.
    pub fn between(from: i64, to: i64) -> Part {
        range(Some(from), Some(to))
    }

    /// Sets the step of a range: `Part::from(..).step_by(-1)` is all elements in reverse order.
    pub fn step_by(self, by: i64) -> Part {
        match self {
            Part::Range { from, to, .. } => Part::Range { from, to, step: by },
            other => other,
        }
    }
}

fn range(from: Option<i64>, to: Option<i64>) -> Part {
    Part::Range { from, to, step: 1 }
}

// The number types of indices.
macro_rules! indices {
    ($($number:ty)*) => {$(
        impl From<$number> for Part {
            fn from(at: $number) -> Part {
                Part::At(at as i64)
            }
        }
        impl From<Range<$number>> for Part {
            fn from(r: Range<$number>) -> Part {
                range(Some(r.start as i64), Some(r.end as i64))
            }
        }
        impl From<RangeFrom<$number>> for Part {
            fn from(r: RangeFrom<$number>) -> Part {
                range(Some(r.start as i64), None)
            }
        }
        impl From<RangeTo<$number>> for Part {
            fn from(r: RangeTo<$number>) -> Part {
                range(None, Some(r.end as i64))
            }
        }
        impl From<RangeInclusive<$number>> for Part {
            fn from(r: RangeInclusive<$number>) -> Part {
                range(Some(*r.start() as i64), after(*r.end() as i64))
            }
        }
        impl From<RangeToInclusive<$number>> for Part {
            fn from(r: RangeToInclusive<$number>) -> Part {
                range(None, after(r.end as i64))
            }
        }
    )*};
}

indices! { i32 i64 usize }

/// Exclusive end of a range whose last element is `last`: after -1, the last element, comes the end, not element 0.
fn after(last: i64) -> Option<i64> {
    last.checked_add(1).filter(|&to| to != 0)
}

impl From<RangeFull> for Part {
    fn from(_: RangeFull) -> Part {
        range(None, None)
    }
}

impl From<Rest> for Part {
    fn from(_: Rest) -> Part {
        Part::Rest
    }
}

impl From<NewAxis> for Part {
    fn from(_: NewAxis) -> Part {
        Part::New
    }
}

/// An index into a tensor: a part for each dimension, from the first on. Dimensions without a part are kept whole.
///
/// A part is a number, a range, [`Rest`], [`NewAxis`] or a [`Part`]; several parts form a tuple.
pub trait Index {
    /// The parts, in order.
    fn parts(self) -> Vec<Part>;
}

// Tuples of one to six parts; a single part stands for a tuple of one.
macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Into<Part>),*> Index for ($($name,)*) {
            #[allow(non_snake_case, reason = "the names are those of the types")]
            fn parts(self) -> Vec<Part> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    )*};
}

tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

// A blanket impl for everything that is a part would overlap with tuples.
macro_rules! alone {
    ($($part:ty)*) => {$(
        impl Index for $part {
            fn parts(self) -> Vec<Part> {
                vec![self.into()]
            }
        }
    )*};
}

alone! {
    i32 Range<i32> RangeFrom<i32> RangeTo<i32> RangeInclusive<i32> RangeToInclusive<i32>
    i64 Range<i64> RangeFrom<i64> RangeTo<i64> RangeInclusive<i64> RangeToInclusive<i64>
    usize Range<usize> RangeFrom<usize> RangeTo<usize> RangeInclusive<usize> RangeToInclusive<usize>
    RangeFull Rest NewAxis Part
}

impl Index for &[Part] {
    fn parts(self) -> Vec<Part> {
        self.to_vec()
    }
}

/// Adds the StridedSlice of these parts.
#[track_caller]
pub(crate) fn at<'g>(x: Output<'g>, index: impl Index) -> Output<'g> {
    let graph = x.graph();
    let parts = index.parts();
    if parts.len() > MAX_PARTS {
        let text = format!("an index of {} parts: {MAX_PARTS} at most", parts.len());
        return graph.fail("StridedSlice", "StridedSlice", Reason::Argument(text));
    }
    let mut bounds = [const { Vec::<i64>::new() }; 3];
    // The masks: a bit for each part.
    let [mut begin, mut end, mut rest, mut new, mut shrink] = [0i64; 5];
    for (i, part) in parts.iter().enumerate() {
        let bit = 1 << i;
        let [from, to, step] = match *part {
            Part::At(at) => {
                shrink |= bit;
                [at, at.wrapping_add(1), 1]
            }
            Part::Range { from, to, step } => {
                begin |= if from.is_none() { bit } else { 0 };
                end |= if to.is_none() { bit } else { 0 };
                [from.unwrap_or(0), to.unwrap_or(0), step]
            }
            Part::Rest => {
                rest |= bit;
                [0, 0, 1]
            }
            Part::New => {
                new |= bit;
                [0, 0, 1]
            }
        };
        for (bounds, bound) in bounds.iter_mut().zip([from, to, step]) {
            bounds.push(bound);
        }
    }
    let [from, to, step] = bounds.map(|b| graph.constant(b));
    graph
        .op("StridedSlice")
        .inputs([x, from, to, step])
        .attr("begin_mask", begin)
        .attr("end_mask", end)
        .attr("ellipsis_mask", rest)
        .attr("new_axis_mask", new)
        .attr("shrink_axis_mask", shrink)
        .output()
}
