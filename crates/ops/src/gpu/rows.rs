//! GPU launches of updates of rows by index: a stable sort of the row numbers, and updates in their order.

use thalweg_device::gpu::{ALIGNMENT, Arg, Fault, Launch, Launches};
use thalweg_device::{KernelError, Prepare};
use thalweg_graph::Attr;
use thalweg_tensor::DType;
use thalweg_tensor::shape::elements;

use super::fill::zero;
use super::gather::{gather_rows, short_segment_sum};
use super::sources::{OPTIMIZER, ROWS, SORT};
use super::strided_copy::{by_size, strided_copy};
use crate::support::strided_copy::{CopyAxis, StridedCopy};

/// Keys that a block of `kernels/sort.cu` takes, and bits of a pass.
const TILE: usize = 4096;
const DIGIT_BITS: u32 = 4;

/// Maximum number of dimensions that a vector of indices goes through in `kernels/sort.cu`.
const MAX_DEPTH: usize = 8;

/// Policy for an index that is out of range, as in `kernels/sort.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadIndices {
    /// An error.
    Refuse,
    /// An error, unless it is negative: its update is dropped.
    DropNegative,
    /// Its update is dropped.
    Drop,
}

impl BadIndices {
    /// The policy of a node, which may have an attribute for it.
    pub(crate) fn of(p: &Prepare<'_>) -> BadIndices {
        match p.node.attrs.get("bad_indices_policy") {
            Some(Attr::Str(policy)) if policy == "IGNORE" => BadIndices::Drop,
            _ => BadIndices::Refuse,
        }
    }
}

/// Rows of a tensor that vectors of indices name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedRows<'a> {
    /// The input with the indices.
    pub(crate) indices: usize,
    /// Lengths of the dimensions that a vector goes through.
    pub(crate) outer: &'a [usize],
    /// Number of vectors.
    pub(crate) count: usize,
    /// Elements of a row.
    pub(crate) inner: usize,
    /// Policy for an index out of range.
    pub(crate) bad: BadIndices,
}

/// Sorted row numbers in scratch memory.
pub(crate) struct SortedRows {
    launches: Vec<Launch>,
    scratch: usize,
    keys: usize,
    order: usize,
    status: Arg,
    count: usize,
    inner: usize,
    rows: usize,
    fault: Option<Fault>,
}

impl<'a> IndexedRows<'a> {
    /// The slices of a tensor of dimensions `whole` at the vectors of indices in input `indices`, of these dimensions.
    ///
    /// # Errors
    /// The vectors have more entries than the tensor has dimensions.
    pub(crate) fn of(
        indices: usize,
        dims: &[usize],
        whole: &'a [usize],
        bad: BadIndices,
    ) -> Result<IndexedRows<'a>, KernelError> {
        let depth = dims.last().copied().filter(|&d| d <= whole.len());
        let (outer, inner) = whole.split_at(depth.ok_or(KernelError::Argument("indices"))?);
        let vectors = dims.split_last().map_or(&[][..], |(_, vectors)| vectors);
        Ok(IndexedRows {
            indices,
            outer,
            count: elements(vectors),
            inner: elements(inner),
            bad,
        })
    }
}

impl IndexedRows<'_> {
    fn rows(&self) -> Result<usize, KernelError> {
        let rows = elements(self.outer);
        match u32::try_from(rows.max(self.count)) {
            Ok(most) if most < u32::MAX => Ok(rows),
            _ => Err(KernelError::Invalid(format!(
                "a GPU's kernel takes less than 2^32 rows and indices, and not {rows} and {}: place it on a CPU",
                self.count
            ))),
        }
    }

    fn fault(&self) -> Option<Fault> {
        let lens: Vec<String> = self.outer.iter().map(|len| format!("0..{len}")).collect();
        (self.bad != BadIndices::Drop).then(|| Fault {
            input: self.indices,
            reason: match self.bad {
                BadIndices::DropNegative => format!("the segment is not below {}", self.outer[0]),
                _ => format!("the index is not within {}", lens.join(" by ")),
            },
        })
    }

    /// Launch that turns vectors of indices into row numbers, and the status that it lowers.
    fn numbered(
        &self,
        p: &Prepare<'_>,
        [keys, order, status]: [usize; 3],
    ) -> Result<(Launch, Arg), KernelError> {
        let (depth, count) = (self.outer.len(), self.count);
        if depth > MAX_DEPTH {
            return Err(KernelError::Invalid(format!(
                "a GPU's kernel takes indices of {MAX_DEPTH} dimensions, and not {depth}: place it on a CPU"
            )));
        }
        let mut lens = [0; 1 + MAX_DEPTH];
        lens[0] = depth;
        lens[1..1 + depth].copy_from_slice(self.outer);
        // An index that is dropped is no fault of the node.
        let status = match self.bad {
            BadIndices::Drop => Arg::Scratch(status),
            _ => Arg::Status,
        };
        let longest = self.rows()?.max(p.inputs[self.indices].elements());
        let launch = Launch::over(longest, &SORT, "Rows", &[p.dtype(self.indices)])
            .input(self.indices)
            .arg(Arg::Scratch(keys))
            .arg(Arg::Scratch(order))
            .indices(&[count])
            .indices(&lens)
            .indices(&[self.rows()?])
            .value(self.bad as u32)
            .arg(status.clone());
        Ok((launch, status))
    }

    /// Sorts the rows.
    pub(crate) fn sorted(&self, p: &Prepare<'_>) -> Result<SortedRows, KernelError> {
        let (count, rows) = (self.count, self.rows()?);
        let bytes = (count * 4).next_multiple_of(ALIGNMENT);
        let (mut from, mut to) = ([0, bytes], [2 * bytes, 3 * bytes]);
        let status = 4 * bytes;
        let totals = status + ALIGNMENT;
        let blocks = count.div_ceil(TILE).max(1);
        let (first, status) = self.numbered(p, [from[0], from[1], status])?;
        let mut launches = Vec::new();
        if let Arg::Scratch(at) = status {
            launches.push(accepted(at));
        }
        launches.push(first);
        // The number behind all rows is a key too.
        let bits = usize::BITS - rows.leading_zeros();
        for shift in (0..bits).step_by(DIGIT_BITS as usize) {
            let launch = |name, blocks: usize| Launch {
                blocks: blocks as u32,
                ..Launch::over(
                    count.max(16 * blocks),
                    &SORT,
                    name,
                    &[p.dtype(self.indices)],
                )
            };
            let [keys, order] = from.map(Arg::Scratch);
            let counted = launch("SortCount", blocks)
                .arg(keys.clone())
                .arg(Arg::Scratch(totals))
                .indices(&[count])
                .indices(&[blocks])
                .value(shift);
            let summed = launch("SortScan", 1)
                .arg(Arg::Scratch(totals))
                .indices(&[16 * blocks]);
            let moved = launch("SortMove", blocks)
                .arg(keys)
                .arg(order)
                .arg(Arg::Scratch(totals))
                .arg(Arg::Scratch(to[0]))
                .arg(Arg::Scratch(to[1]))
                .indices(&[count])
                .indices(&[blocks])
                .value(shift);
            launches.extend([counted, summed, moved]);
            std::mem::swap(&mut from, &mut to);
        }
        Ok(SortedRows {
            launches,
            scratch: totals + (16 * blocks * 4).next_multiple_of(ALIGNMENT),
            keys: from[0],
            order: from[1],
            status,
            count,
            inner: self.inner,
            rows,
            fault: self.fault(),
        })
    }

    /// Gathers the rows of input `params`; a row that is left out is zeros.
    pub(crate) fn gathered(&self, p: &Prepare<'_>, params: Arg) -> Result<Launches, KernelError> {
        let count = self.count;
        let bytes = (count * 4).next_multiple_of(ALIGNMENT);
        let (first, status) = self.numbered(p, [0, bytes, 2 * bytes])?;
        let mut launches = Launches {
            scratch: 2 * bytes + ALIGNMENT,
            fault: self.fault(),
            ..Launches::default()
        };
        if let Arg::Scratch(at) = status {
            launches.list.push(accepted(at));
        }
        launches.list.push(first);
        // A number that stands for no row is refused here too, and told by a status of its own.
        let (unused, sizes) = (2 * bytes, [1, 1, self.rows()?, self.inner, count]);
        if status == Arg::Status {
            launches.list.push(accepted(unused));
        }
        launches.list.push(gather_rows(
            p,
            (params, by_size(p.outputs[0].dtype)?),
            (Arg::Scratch(0), DType::U32),
            sizes,
            Arg::Scratch(unused),
        ));
        Ok(launches)
    }
}

/// Launch that makes a status in scratch memory one of no fault.
fn accepted(at: usize) -> Launch {
    let ones = Launch::over(1, &SORT, "Accepted", &[DType::I32]);
    ones.arg(Arg::Scratch(at))
}

impl SortedRows {
    /// Adds the arguments that `TOUCHED` of `kernels/thalweg.cuh` names.
    fn touched(&self, launch: Launch) -> Launch {
        launch
            .arg(Arg::Scratch(self.keys))
            .arg(Arg::Scratch(self.order))
            .indices(&[self.count])
            .indices(&[self.inner])
            .indices(&[self.rows])
            .arg(self.status.clone())
    }

    /// The launches, with these behind the sort.
    fn then(self, before: Option<Launch>, launch: Launch) -> Launches {
        let mut list: smallvec::SmallVec<[Launch; 1]> = before.into_iter().collect();
        list.extend(self.launches);
        list.push(launch);
        Launches {
            list,
            scratch: self.scratch,
            fault: self.fault,
            ..Launches::default()
        }
    }

    /// Combines rows of `target` with those of input `updates`, or with its one element, by a function of
    /// `kernels/rows.cu`. `before` runs first.
    pub(crate) fn combined(
        self,
        p: &Prepare<'_>,
        name: &'static str,
        updates: usize,
        target: Arg,
        before: Option<Launch>,
    ) -> Result<Launches, KernelError> {
        let dtype = p.dtype(updates);
        let types = match name {
            "UpdateRows" => by_size(dtype)?,
            _ => dtype,
        };
        let n = self.count * self.inner;
        let one_for_all = usize::from(p.dims(updates).is_empty());
        // Elements of all rows are counted, and not those of the updates alone.
        let longest = n.max(self.rows.saturating_mul(self.inner));
        let launch = Launch::over(longest, &ROWS, name, &[types])
            .arg(target)
            .input(updates)
            .indices(&[n])
            .indices(&[one_for_all]);
        let launch = self.touched(launch);
        Ok(self.then(before, launch))
    }
}

/// Number of ids, and of reads of them, up to which they are not sorted first: each element of the output reads all ids.
const MAX_UNSORTED: usize = 512;
const MAX_READS: usize = 1 << 22;

/// Sums the slices of input 0 for each id in input 1. The ids are in any order.
///
/// # Errors
/// There are too many segments.
pub(crate) fn segment_sum(
    p: &Prepare<'_>,
    segments: usize,
    inner: usize,
) -> Result<Launches, KernelError> {
    let ids = p.inputs[1].elements();
    let reads = ids.saturating_mul(segments).saturating_mul(inner);
    if ids <= MAX_UNSORTED && reads <= MAX_READS {
        return Ok(short_segment_sum(p, segments, inner));
    }
    let rows = IndexedRows {
        indices: 1,
        outer: &[segments],
        count: p.inputs[1].elements(),
        inner,
        bad: BadIndices::DropNegative,
    };
    let zeros = zero(p, 0)?;
    let sorted = rows.sorted(p)?;
    sorted.combined(p, "AddRows", 0, Arg::Output(0), Some(zeros))
}

/// Updates of rows of the variable behind input 0, by indices in input 1 and updates in input 2.
pub(crate) fn scatter(p: &Prepare<'_>, name: &'static str) -> Result<Launches, KernelError> {
    let (outer, inner) = variable_rows(p)?;
    let rows = IndexedRows {
        indices: 1,
        outer: &[outer],
        count: p.inputs[1].elements(),
        inner,
        bad: BadIndices::Refuse,
    };
    let sorted = rows.sorted(p)?;
    sorted.combined(p, name, 2, Arg::Variable(0), None)
}

/// Updates of slices of the variable behind input 0, by vectors of indices in input 1 and updates in input 2.
pub(crate) fn scatter_nd_variable(
    p: &Prepare<'_>,
    name: &'static str,
) -> Result<Launches, KernelError> {
    let rows = IndexedRows::of(1, p.dims(1), p.dims(0), BadIndices::of(p))?;
    rows.sorted(p)?.combined(p, name, 2, Arg::Variable(0), None)
}

/// Number of rows of the variable behind input 0, and elements of each.
fn variable_rows(p: &Prepare<'_>) -> Result<(usize, usize), KernelError> {
    let (&rows, row) = p.dims(0).split_first().ok_or_else(|| {
        KernelError::Invalid("the variable is a scalar, which has no rows".into())
    })?;
    Ok((rows, elements(row)))
}

/// Updates of slices: of zeros, or of input `of`, as output 0.
pub(crate) fn scatter_nd(
    p: &Prepare<'_>,
    name: &'static str,
    (rows, updates): (IndexedRows<'_>, usize),
    of: Option<usize>,
) -> Result<Launches, KernelError> {
    let before = match of {
        None => Some(zero(p, 0)?),
        Some(input) => {
            let all = CopyAxis {
                len: p.inputs[input].elements(),
                from: 1,
                to: 1,
            };
            let all = StridedCopy::new(0, 0, &[all])?;
            match all.is_empty() {
                true => None,
                false => {
                    let from = Some(Arg::Input(input));
                    Some(strided_copy(p.dtype(input), &all, from, Arg::Output(0))?)
                }
            }
        }
    };
    let sorted = rows.sorted(p)?;
    sorted.combined(p, name, updates, Arg::Output(0), before)
}

/// Optimizer step for rows, by the function of `kernels/optimizer.cu` with this name.
pub(crate) fn sparse_step(p: &Prepare<'_>, name: &'static str) -> Result<Launches, KernelError> {
    let named = |wanted: &str| p.node.op.inputs.iter().position(|arg| arg.name == wanted);
    let (Some(indices), Some(grad)) = (named("indices"), named("grad")) else {
        return Err(KernelError::Argument("a gradient of rows"));
    };
    let (outer, inner) = variable_rows(p)?;
    let rows = IndexedRows {
        indices,
        outer: &[outer],
        count: p.inputs[indices].elements(),
        inner,
        bad: BadIndices::Refuse,
    };
    let sorted = rows.sorted(p)?;
    let n = sorted.count * inner;
    let longest = n.max(outer.saturating_mul(inner));
    let launch = Launch::over(longest, &OPTIMIZER, name, &[p.dtype(grad)]);
    let launch = super::variables::optimizer_arguments(p, launch, n, Some(indices));
    let launch = sorted.touched(launch);
    Ok(sorted.then(None, launch))
}
