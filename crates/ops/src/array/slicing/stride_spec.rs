//! Resolution of a StridedSlice specification: begins, ends, strides and masks to a range for each dimension, by the
//! rules of TensorFlow's `ValidateStridedSliceOp`.

use thalweg_graph::{Attrs, Infer, InferError};
use thalweg_tensor::Shape;

use crate::support::shape_inputs::{ints_per_dim, invalid_value};

/// Maximum number of entries of a specification: masks have a bit for each.
const MAX_ENTRIES: usize = 32;

/// Masks: bit `i` belongs to entry `i`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Masks {
    begin: i64,
    end: i64,
    ellipsis: i64,
    new_axis: i64,
    shrink: i64,
}

impl Masks {
    pub(super) fn of(attrs: &Attrs) -> Masks {
        Masks {
            begin: attrs.int("begin_mask"),
            end: attrs.int("end_mask"),
            ellipsis: attrs.int("ellipsis_mask"),
            new_axis: attrs.int("new_axis_mask"),
            shrink: attrs.int("shrink_axis_mask"),
        }
    }
}

/// Range of one dimension of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DimRange {
    /// Index of the first element.
    pub(super) begin: i64,
    /// Step to the next element.
    pub(super) step: i64,
    /// Number of elements; `None` if unknown.
    pub(super) len: Option<usize>,
}

/// A specification, resolved for a shape.
#[derive(Clone, Debug)]
pub(super) struct StridedSpec {
    /// Range of each dimension of the input.
    pub(super) taken: Vec<DimRange>,
    /// Dimension of the output that each dimension of the input becomes; `None` if it is left out.
    pub(super) kept: Vec<Option<usize>>,
    /// Shape of the output: dimensions of the input that are kept, and new ones.
    pub(super) shape: Shape,
}

/// Input numbers of the entries of a specification, for errors.
#[derive(Clone, Copy)]
pub(super) struct EntryInputs {
    /// Input with the begins; ends and strides follow it.
    pub(super) begin: usize,
}

/// Begins, ends and strides; `None` if only their number is known.
pub(super) type SpecEntries<'a> = Option<(&'a [i64], &'a [i64], &'a [i64])>;

fn bit(mask: i64, i: usize) -> bool {
    i < MAX_ENTRIES && (mask >> i) & 1 == 1
}

/// Number of dimensions that the ellipsis of a specification of `n` entries covers.
fn ellipsis_dims(n: usize, masks: Masks, rank: usize) -> Option<usize> {
    let explicit = (0..n)
        .filter(|&i| !bit(masks.ellipsis, i) && !bit(masks.new_axis, i))
        .count();
    rank.checked_sub(explicit)
}

/// Resolves a specification of `n` entries for a tensor of these dimensions.
pub(super) fn resolve(
    dims: &[Option<usize>],
    n: usize,
    entries: SpecEntries<'_>,
    masks: Masks,
    at: EntryInputs,
) -> Result<StridedSpec, InferError> {
    if n > MAX_ENTRIES {
        return Err(invalid_value(
            at.begin,
            format!("{n} entries are more than {MAX_ENTRIES}"),
        ));
    }
    if (0..n).filter(|&i| bit(masks.ellipsis, i)).count() > 1 {
        return Err(InferError::Attr {
            attr: "ellipsis_mask",
            reason: "more than one ellipsis".to_owned(),
        });
    }
    let rest = ellipsis_dims(n, masks, dims.len()).ok_or_else(|| {
        invalid_value(
            at.begin,
            format!(
                "it takes more dimensions than the {} that a tensor of shape {} has",
                dims.len(),
                Shape::partial(dims.iter().copied())
            ),
        )
    })?;
    let mut spec = StridedSpec {
        taken: Vec::with_capacity(dims.len()),
        kept: Vec::with_capacity(dims.len()),
        shape: Shape::unknown(),
    };
    let mut shape = Vec::new();
    let whole = |d: Option<usize>| DimRange {
        begin: 0,
        step: 1,
        len: d,
    };
    let mut ellipsis = false;
    for i in 0..n {
        let d = spec.taken.len();
        if bit(masks.ellipsis, i) {
            ellipsis = true;
            for &dim in &dims[d..d + rest] {
                spec.taken.push(whole(dim));
                spec.kept.push(Some(shape.len()));
                shape.push(dim);
            }
        } else if bit(masks.new_axis, i) {
            shape.push(Some(1));
        } else {
            let entry = entries.map(|(b, e, s)| (b[i], e[i], s[i]));
            let taken = take(dims[d], entry, i, masks, at)?;
            spec.taken.push(taken);
            let shrinks = bit(masks.shrink, i);
            spec.kept.push((!shrinks).then_some(shape.len()));
            if !shrinks {
                shape.push(taken.len);
            }
        }
    }
    if !ellipsis {
        for &dim in &dims[spec.taken.len()..] {
            spec.taken.push(whole(dim));
            spec.kept.push(Some(shape.len()));
            shape.push(dim);
        }
    }
    spec.shape = Shape::partial(shape);
    Ok(spec)
}

fn take(
    dim: Option<usize>,
    entry: Option<(i64, i64, i64)>,
    i: usize,
    masks: Masks,
    at: EntryInputs,
) -> Result<DimRange, InferError> {
    let shrink = bit(masks.shrink, i);
    let unknown = DimRange {
        begin: 0,
        step: 1,
        len: if shrink { Some(1) } else { None },
    };
    let Some((begin, end, step)) = entry else {
        return Ok(unknown);
    };
    if step == 0 {
        return Err(invalid_value(
            at.begin + 2,
            format!("entry {i} is 0: a step must go on"),
        ));
    }
    if shrink && step < 0 {
        let reason = format!("entry {i} is {step}: of a dimension that is left out it must be 1");
        return Err(invalid_value(at.begin + 2, reason));
    }
    let Some(dim) = dim else {
        return Ok(unknown);
    };
    let dim = dim as i64;
    let forward = |x: i64| if x < 0 { x.saturating_add(dim) } else { x };
    if shrink {
        let begin = Some(forward(begin)).filter(|b| (0..dim).contains(b));
        let begin = begin.ok_or_else(|| {
            let reason = format!("index {i} is out of bounds: use {}..{dim}", -dim);
            invalid_value(at.begin, reason)
        })?;
        return Ok(DimRange {
            begin,
            step: 1,
            len: Some(1),
        });
    }
    // Valid first and end positions of a range in this direction.
    let (first, last) = if step > 0 { (0, dim) } else { (dim - 1, -1) };
    let clamp = |x: i64| forward(x).clamp(first.min(last), first.max(last));
    let begin = if bit(masks.begin, i) {
        first
    } else {
        clamp(begin)
    };
    let end = if bit(masks.end, i) { last } else { clamp(end) };
    let way = end - begin;
    let len = match way == 0 || (way < 0) != (step < 0) {
        true => 0,
        false => way / step + i64::from(way % step != 0),
    };
    Ok(DimRange {
        begin,
        step,
        len: usize::try_from(len).ok(),
    })
}

/// The specification whose begins are input `begin`, for a tensor of shape `shape`; `None` if not even the rank of
/// the result is known.
pub(super) fn spec(
    cx: &Infer<'_>,
    begin: usize,
    shape: &Shape,
) -> Result<Option<StridedSpec>, InferError> {
    let mut n = None;
    for i in begin..begin + 3 {
        let length = cx.ranked(i, 1)?.dim(0);
        if let (Some(a), Some(b)) = (n, length)
            && a != b
        {
            let reason = format!("it has {b} entries, and the begins have {a}");
            return Err(invalid_value(i, reason));
        }
        n = n.or(length);
    }
    let (Some(n), Some(dims)) = (n, shape.dims()) else {
        return Ok(None);
    };
    let values = [
        ints_per_dim(cx, begin)?,
        ints_per_dim(cx, begin + 1)?,
        ints_per_dim(cx, begin + 2)?,
    ];
    let entries: SpecEntries<'_> = match &values {
        [Some(b), Some(e), Some(s)] => Some((b, e, s)),
        _ => None,
    };
    let masks = Masks::of(cx.attrs());
    resolve(dims, n, entries, masks, EntryInputs { begin }).map(Some)
}
