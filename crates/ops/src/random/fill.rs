//! Loops that fill an output with random numbers block by block, and helpers of all random ops.

use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared};
use thalweg_graph::op::{AttrDef, int_attr, type_attr};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Element, Shape};

use crate::random::philox::Philox;
use crate::random::reserve::reserved_blocks;
use crate::random::seed_source::SeedSource;
use crate::support::elementwise::CHUNK;

/// Attributes of all random ops: the seeds, and the dtype of the shape.
pub(super) const SEED: AttrDef = int_attr("seed", 0);
/// The second seed; see [`SEED`].
pub(super) const SEED2: AttrDef = int_attr("seed2", 0);
/// The dtype of the shape; see [`SEED`].
pub(super) const SHAPE_TYPE: AttrDef = type_attr("T", DType::INDICES);

/// Maximum number of dimensions of a tensor, as in TensorFlow.
const MAX_RANK: usize = 254;

/// Shape rule: the output has the shape that input 0 lists.
pub(super) fn listed_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    listed_shape_of(cx, &Shape::scalar())
}

/// Shape rule: for each element of the shape that input 0 lists, the output has elements of shape `each`.
pub(super) fn listed_shape_of(cx: &mut Infer<'_>, each: &Shape) -> Result<(), InferError> {
    listed_shape_at(cx, 0, each)
}

/// Shape rule: for each element of the shape that input `input` lists, the output has elements of shape `each`.
pub(super) fn listed_shape_at(
    cx: &mut Infer<'_>,
    input: usize,
    each: &Shape,
) -> Result<(), InferError> {
    let list = cx.ranked(input, 1)?;
    let wrong = |reason: String| InferError::Value { input, reason };
    if let Some(rank) = list.dim(0)
        && rank > MAX_RANK
    {
        let reason = format!("it lists {rank} dimensions, but a tensor has at most {MAX_RANK}");
        return Err(wrong(reason));
    }
    let Some(each) = each.dims() else {
        cx.set(0, Shape::unknown());
        return Ok(());
    };
    let Some(dims) = cx.ints(input) else {
        let rank = list.dim(0).map(|rank| rank + each.len());
        cx.set(0, rank.map_or(Shape::unknown(), Shape::of_rank));
        return Ok(());
    };
    let size = cx.attrs().dtype("dtype").or(cx.attrs().dtype("Tout"));
    let size = size.map_or(size_of::<f64>(), DType::size);
    let known: Option<Vec<usize>> = dims.iter().map(|&d| usize::try_from(d).ok()).collect();
    let Some(known) = known else {
        let shown = &dims[..];
        return Err(wrong(format!(
            "{shown:?} is no shape: a dimension is negative"
        )));
    };
    let shape = Shape::partial(known.into_iter().map(Some).chain(each.iter().copied()));
    if let Some(dims) = shape.to_dims() {
        let bytes = checked_elements(&dims).and_then(|n| n.checked_mul(size));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(wrong(format!("no memory holds a tensor of shape {shape}")));
        }
    }
    cx.set(0, shape);
    Ok(())
}

/// GPU launches that draw the same numbers.
pub(super) fn launches(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let blocks = reserved_blocks(p.outputs[0].elements());
    let seeds = Philox::of(&p.node.attrs).seeds();
    Ok(crate::gpu::random(p, seeds, blocks))
}

/// Loop that draws `N` elements from each block.
struct FillBlocks<'a, T, F, const N: usize> {
    philox: &'a Philox,
    first: u64,
    out: &'a mut [T],
    draw: F,
}

impl<T: Element, F: Fn([u32; 4]) -> [T; N], const N: usize> Vectorize for FillBlocks<'_, T, F, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let (groups, rest) = self.out.as_chunks_mut::<N>();
        let mut last = [[T::default(); N]];
        let after = self.first.wrapping_add(groups.len() as u64);
        // One loop for whole and partial groups: a second call of `draw` would keep it from being inlined and vectorised.
        for (groups, first) in [(groups, self.first), (&mut last, after)] {
            for (i, group) in groups.iter_mut().enumerate() {
                *group = (self.draw)(self.philox.block(first.wrapping_add(i as u64)));
            }
        }
        rest.copy_from_slice(&last[0][..rest.len()]);
    }
}

/// Fills `out` with `N` elements from each block by `draw`, from block `first` on.
pub(super) fn fill<T: Element, const N: usize>(
    cpu: &thalweg_device::Cpu,
    philox: &Philox,
    first: u64,
    out: &mut [T],
    draw: impl Fn([u32; 4]) -> [T; N] + Copy + Sync,
) {
    const { assert!(CHUNK.is_multiple_of(N), "a block stands in one chunk") };
    for_chunks(cpu.pool(), out, CHUNK, &|i, out| {
        let first = first.wrapping_add((i * (CHUNK / N)) as u64);
        cpu.isa().run(FillBlocks {
            philox,
            first,
            out,
            draw,
        });
    });
}

/// Kernel that fills output 0 with `N` elements from each block by `draw`; it takes about
/// `cost` nanoseconds for each 16 elements.
pub(super) fn blockwise<T: Element, const N: usize>(
    p: &Prepare<'_>,
    cost: u64,
    draw: impl Fn([u32; 4]) -> [T; N] + Copy + Send + Sync + 'static,
) -> Prepared {
    let source = SeedSource::of(p);
    let elements = p.outputs.first().map_or(0, |o| o.elements());
    let run = move |cx: &KernelCx<'_>| {
        let out = cx.output::<T>(0)?;
        let (philox, first) = source.start(cx, out.len())?;
        fill(cx.cpu(), &philox, first, out, draw);
        Ok(())
    };
    Prepared::new(elements, run).with_cost(20 + elements as u64 * cost / 16)
}
