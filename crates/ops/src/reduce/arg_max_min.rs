//! ArgMax, ArgMin.

use smallvec::SmallVec;
use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape, dispatch};

use super::layout::TILE;
use super::max_min::Bounded;
use crate::support::elementwise::{CHUNK, Compute, Conversion};
use crate::support::shapes::expect_scalar;
use crate::support::widened::widened;

const INPUTS: &[Arg] = &[arg("input", "T"), arg("dimension", "Tidx").host()];
const OUTPUTS: &[Arg] = &[arg("output", "output_type")];
const T: AttrDef = type_attr("T", DType::PLAIN);

/// Index of the first largest element along an axis.
pub(crate) static ARG_MAX: Op = Op {
    def: OpDef {
        name: "ArgMax",
        summary: "The index of the first largest element along a dimension; NaN is passed over.",
        inputs: INPUTS,
        outputs: OUTPUTS,
        attrs: &[
            T,
            type_attr_or("Tidx", &[DType::I16, DType::I32, DType::I64], DType::I32),
            type_attr_or(
                "output_type",
                &[DType::I16, DType::U16, DType::I32, DType::I64],
                DType::I64,
            ),
        ],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare::<true>), gpu(launches)],
};

/// Index of the first smallest element along an axis.
pub(crate) static ARG_MIN: Op = Op {
    def: OpDef {
        name: "ArgMin",
        summary: "The index of the first smallest element along a dimension; NaN is passed over.",
        inputs: INPUTS,
        outputs: OUTPUTS,
        attrs: &[
            T,
            type_attr_or("Tidx", DType::INDICES, DType::I32),
            type_attr_or("output_type", DType::INDICES, DType::I64),
        ],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare::<false>), gpu(launches)],
};

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 1)?;
    let Some(dims) = cx.shape(0).dims() else {
        return Ok(());
    };
    if dims.is_empty() {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: cx.shape(0).clone(),
        });
    }
    let axis = cx.ints(1).and_then(|axis| axis.first().copied());
    let Some(axis) = axis else {
        cx.set(0, Shape::of_rank(dims.len() - 1));
        return Ok(());
    };
    let axis = cx.axis(1, axis, dims.len())?;
    let dtype = cx.attrs().dtype("output_type").unwrap_or(DType::I64);
    let highest = match dtype {
        DType::I16 => i16::MAX as usize,
        DType::U16 => u16::MAX as usize,
        DType::I32 => i32::MAX as usize,
        _ => i64::MAX as usize,
    };
    match dims[axis] {
        Some(0) => {
            return Err(InferError::Value {
                input: 1,
                reason: format!(
                    "dimension {axis} of {} has no element that could be found",
                    cx.shape(0)
                ),
            });
        }
        Some(n) if n - 1 > highest => {
            return Err(InferError::Attr {
                attr: "output_type",
                reason: format!("{dtype} does not hold the indices of {n} elements: use i64"),
            });
        }
        _ => {}
    }
    let left = dims.iter().enumerate().filter(|(i, _)| *i != axis);
    cx.set(0, Shape::partial(left.map(|(_, d)| *d)));
    Ok(())
}

/// Length of the axis, and its stride.
fn lengths(p: &Prepare<'_>) -> Result<(usize, usize), KernelError> {
    let dims = p.dims(0);
    let axis = p.ints(1)?.first().copied();
    let axis = axis.and_then(|axis| resolve_axis(axis, dims.len()));
    let axis = axis.ok_or(KernelError::Argument("an axis"))?;
    Ok((dims[axis], elements(&dims[axis + 1..])))
}

fn launches(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let (n, inner) = lengths(p)?;
    Ok(crate::gpu::position(p, n, inner))
}

fn prepare<const MAX: bool>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (n, inner) = lengths(p)?;
    let dtype = p.outputs.first().map_or(DType::I64, |o| o.dtype);
    // The shape rule refuses an index dtype that is too small.
    let stored = u64::conversion(dtype).ok_or(KernelError::DType(dtype))?;
    widened(p, &[0], &[], &|p| {
        dispatch!(p.dtype(0), [F32 F64 I64 U64], T => Ok(indices::<T, MAX>(n, inner, p, stored)), else
            Err(KernelError::DType(p.dtype(0))))
    })
}

/// Kernel for elements `T`; `stored` converts indices to the output's dtype.
fn indices<T: Bounded, const MAX: bool>(
    n: usize,
    inner: usize,
    p: &Prepare<'_>,
    stored: Conversion<u64>,
) -> Prepared {
    let width = stored.size;
    // A task has at most as many outputs as a tile; tasks depend on the shape only.
    let most = (CHUNK / n.max(1)).clamp(1, TILE);
    Prepared::new(p.inputs[0].elements(), move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output_bytes(0)?);
        let (pool, cpu) = (cx.pool(), cx.cpu());
        let write = |x: &[T], step: usize, out: &mut [u8]| {
            let outputs = out.len() / width;
            let find = FindExtremes::<T, MAX> {
                x,
                n,
                step,
                outputs,
            };
            let found = cpu.isa().run_over::<T, _>(find);
            stored.narrow(&found, out);
        };
        if inner == 1 {
            for_chunks(pool, out, most * width, &|i, out| {
                write(&x[i * most * n..], 1, out);
            });
        } else if inner <= most {
            // Whole matrices in a task.
            let each = most / inner.max(1) * inner;
            for_chunks(pool, out, each * width, &|i, out| {
                for (j, out) in out.chunks_mut(inner * width).enumerate() {
                    write(&x[(i * each + j * inner) * n..], inner, out);
                }
            });
        } else {
            let tile = most.max(MIN_COLUMNS).min(inner);
            for (i, out) in out.chunks_mut(inner * width).enumerate() {
                for_chunks(pool, out, tile * width, &|j, out| {
                    write(&x[i * n * inner + j * tile..], inner, out);
                });
            }
        }
        Ok(())
    })
}

/// Minimum number of columns of a task: enough to read whole cache lines of a row.
const MIN_COLUMNS: usize = 256;

/// Indices of a tile, on the stack.
type TileIndices = SmallVec<[u64; TILE]>;

/// Finds the extremes of `outputs` consecutive rows (`step` 1), or of as many columns of a matrix whose rows are
/// `step` elements apart.
struct FindExtremes<'a, T, const MAX: bool> {
    x: &'a [T],
    n: usize,
    step: usize,
    outputs: usize,
}

/// Number of rows whose indices are counted from the first of them.
const BLOCK: usize = 1 << 20;
/// Number of elements of a row that are compared in parallel.
const LANES: usize = 32;

impl<T: Bounded, const MAX: bool> Vectorize for FindExtremes<'_, T, MAX> {
    type Out = TileIndices;
    #[inline(always)]
    fn run(self) -> TileIndices {
        let mut found = TileIndices::new();
        if self.step == 1 {
            for row in self.x.chunks(self.n.max(1)).take(self.outputs) {
                found.push(first_extreme::<T, MAX>(row) as u64);
            }
            return found;
        }
        found.resize(self.outputs, 0);
        let mut best = SmallVec::<[T; TILE]>::new();
        best.resize(self.outputs, worst::<T, MAX>());
        // `u32` indices are as wide as most elements, which suits vector instructions.
        let mut short = SmallVec::<[u32; TILE]>::new();
        for first in (0..self.n).step_by(BLOCK) {
            short.clear();
            short.resize(self.outputs, u32::MAX);
            let rows = self.x[first * self.step..].chunks(self.step);
            for (i, row) in rows.take(BLOCK.min(self.n - first)).enumerate() {
                let i = i as u32;
                for ((best, at), &x) in best.iter_mut().zip(&mut short).zip(row) {
                    let better = is_better::<T, MAX>(x, *best);
                    *best = if better { x } else { *best };
                    *at = if better { i } else { *at };
                }
            }
            for (found, &at) in found.iter_mut().zip(&short) {
                if at != u32::MAX {
                    *found = first as u64 + u64::from(at);
                }
            }
        }
        found
    }
}

#[inline(always)]
fn worst<T: Bounded, const MAX: bool>() -> T {
    if MAX { T::LOWEST } else { T::HIGHEST }
}

#[inline(always)]
fn is_better<T: Bounded, const MAX: bool>(x: T, than: T) -> bool {
    if MAX { x > than } else { x < than }
}

/// Index of the first extreme of a row; 0 if all elements are NaN.
#[inline(always)]
fn first_extreme<T: Bounded, const MAX: bool>(row: &[T]) -> usize {
    let better = |x: T, than| {
        if is_better::<T, MAX>(x, than) {
            x
        } else {
            than
        }
    };
    let mut lanes = [worst::<T, MAX>(); LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for part in whole {
        for (lane, x) in lanes.iter_mut().zip(part) {
            *lane = better(*x, *lane);
        }
    }
    let mut best = worst::<T, MAX>();
    if !whole.is_empty() {
        best = lanes.into_iter().fold(best, |best, x| better(x, best));
    }
    best = rest.iter().fold(best, |best, x| better(*x, best));
    let is_best = |x: &T| *x == best;
    // Without an early exit, so that a vector of elements is compared at once.
    let hit = |part: &[T; LANES]| part.iter().fold(false, |hit, x| hit | is_best(x));
    let from = whole.iter().position(hit).unwrap_or(whole.len()) * LANES;
    let at = row[from..].iter().position(is_best);
    at.map_or(0, |at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_elements_is_found_and_nan_is_none() {
        let mut row = [0.0f32; 100];
        row[0] = f32::NAN;
        (row[37], row[70]) = (2.0, 2.0);
        (row[90], row[99]) = (-1.0, -1.0);
        assert_eq!(first_extreme::<f32, true>(&row), 37);
        assert_eq!(first_extreme::<f32, false>(&row), 90);
        assert_eq!(first_extreme::<f32, true>(&[f32::NAN; 40]), 0);
    }
}
