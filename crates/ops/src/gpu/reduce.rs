//! GPU launches of reductions along dimensions.

use smallvec::SmallVec;
use thalweg_device::gpu::{Arg, Launch, Launches, THREADS};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::shape::elements;

use super::sources::REDUCE;

/// Maximum number of dimensions of a kind in `kernels/reduce.cu`, after neighbours of one kind are merged.
const MAX_DIMS: usize = 8;

/// Numbers of blocks and threads that fill a GPU: further segments would not be worth the cost of joining them.
const TARGET_BLOCKS: usize = 512;
const TARGET_THREADS: usize = 1 << 15;

/// Minimum number of elements of a segment, for a block and for a thread.
const MIN_PER_BLOCK: usize = 4096;
const MIN_PER_THREAD: usize = 64;

/// Kinds of launches in `kernels/reduce.cu`: one block for each segment, one thread for each segment, and
/// a join of the segments' results.
const BLOCK_PER_SEGMENT: usize = 0;
const THREAD_PER_SEGMENT: usize = 1;
const JOIN_SEGMENTS: usize = 2;

/// Merged neighbouring dimensions of one kind: (length, step).
type MergedDims = SmallVec<[(usize, usize); 4]>;

/// Reduces input 0, of these dimensions, along those that are `reduced`, by the function of
/// this name.
pub(crate) fn reduce(
    p: &Prepare<'_>,
    name: &'static str,
    dims: &[usize],
    reduced: &[bool],
) -> Result<Launches, KernelError> {
    let (mut kept, mut taken) = (MergedDims::new(), MergedDims::new());
    let (mut step, mut last) = (elements(dims), None);
    for (&len, &reduced) in dims.iter().zip(reduced) {
        step /= len.max(1);
        let kind = if reduced { &mut taken } else { &mut kept };
        match kind.last_mut() {
            _ if len == 1 => continue,
            Some((whole, own)) if last == Some(reduced) => (*whole, *own) = (*whole * len, step),
            _ => kind.push((len, step)),
        }
        last = Some(reduced);
    }
    let product = |dims: &MergedDims| dims.iter().map(|(len, _)| len).product::<usize>();
    // An empty tensor has no steps; the kept dimensions may still have elements.
    let (outputs, count) = (p.outputs[0].elements(), product(&taken));
    if outputs == 0 {
        return Ok(Launches::default());
    }
    let next_to_each_other = last != Some(false);
    let (share, enough) = match next_to_each_other {
        true => (MIN_PER_BLOCK, TARGET_BLOCKS),
        false => (MIN_PER_THREAD, TARGET_THREADS),
    };
    let segments = (count / share).clamp(1, (enough / outputs).max(1));
    let each = count.div_ceil(segments);
    let segments = count.div_ceil(each.max(1)).max(1);

    let units = outputs * segments;
    let job = [outputs, count, segments, each];
    let (kept, taken) = (to_struct(&kept)?, to_struct(&taken)?);
    let all = p.inputs[0].elements().max(units);
    let launch = |form: usize| {
        Launch::over(all, &REDUCE, name, &[p.dtype(0)])
            .input(0)
            .output(0)
            .arg(Arg::Scratch(0))
            .indices(&job)
            .indices(&kept)
            .indices(&taken)
            .indices(&[form])
    };
    let (form, blocks) = match next_to_each_other {
        true => (BLOCK_PER_SEGMENT, units),
        false => (THREAD_PER_SEGMENT, units.div_ceil(THREADS as usize)),
    };
    let mut first = launch(form);
    first.blocks = u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, 1 << 16);
    let mut launches = Launches::from(first);
    if segments > 1 {
        launches.list.push(launch(JOIN_SEGMENTS));
        // A partial result has at most 8 bytes.
        launches.scratch = units * 8;
    }
    Ok(launches)
}

/// Dimensions as `struct Space` of `kernels/reduce.cu`.
fn to_struct(dims: &MergedDims) -> Result<[usize; 1 + 2 * MAX_DIMS], KernelError> {
    if dims.len() > MAX_DIMS {
        return Err(KernelError::Invalid(format!(
            "its axes alternate {} times between those that are reduced and those that are not; a \
             GPU's kernel takes {MAX_DIMS}: Transpose, or place it on a CPU",
            dims.len()
        )));
    }
    let mut all = [0; 1 + 2 * MAX_DIMS];
    all[0] = dims.len();
    for (i, (len, step)) in dims.iter().enumerate() {
        all[1 + i] = *len;
        all[1 + MAX_DIMS + i] = *step;
    }
    Ok(all)
}
