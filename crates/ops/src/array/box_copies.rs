//! Kernels that only copy elements: a list of strided copies of boxes, which depend on the size of an element only.

use bytemuck::Pod;
use thalweg_device::gpu::{Arg, Launches};
use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_tensor::DType;

use crate::support::moves::{Axis, Move, steps};
use crate::support::raw_elements::{input_as, output_as};

/// Source of a box's elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// An input.
    Input(usize),
    /// A zero, read with steps of 0.
    Zero,
}

/// Copy of a box from a source to an output.
#[derive(Clone, Debug)]
pub(super) struct MovedBox {
    pub(super) from: Source,
    pub(super) output: usize,
    pub(super) moved: Move,
}

impl MovedBox {
    /// Copy into output 0.
    pub(super) fn of(from: Source, moved: Move) -> MovedBox {
        MovedBox {
            from,
            output: 0,
            moved,
        }
    }
}

/// The copies of a kernel, in order, those of one output adjacent. Together they write `elements` elements of
/// `dtype`.
#[derive(Debug)]
pub(super) struct Moves {
    pub(super) dtype: DType,
    pub(super) elements: usize,
    pub(super) parts: Vec<MovedBox>,
}

impl Moves {
    /// A single copy, from input 0 to output 0.
    pub(super) fn one(p: &Prepare<'_>, moved: Move) -> Moves {
        Moves {
            dtype: p.dtype(0),
            elements: p.outputs[0].elements(),
            parts: vec![MovedBox::of(Source::Input(0), moved)],
        }
    }

    /// CPU kernel.
    pub(super) fn on_cpu(self) -> Result<Prepared, KernelError> {
        let Moves {
            dtype,
            elements,
            parts,
        } = self;
        match dtype.size() {
            1 => Ok(moving_as::<u8>(dtype, elements, parts)),
            2 => Ok(moving_as::<u16>(dtype, elements, parts)),
            4 => Ok(moving_as::<u32>(dtype, elements, parts)),
            8 => Ok(moving_as::<u64>(dtype, elements, parts)),
            _ => Err(KernelError::DType(dtype)),
        }
    }

    /// GPU launches.
    pub(super) fn on_gpu(self) -> Result<Launches, KernelError> {
        let mut launches = Launches::default();
        for part in self.parts.iter().filter(|p| !p.moved.is_empty()) {
            let from = match part.from {
                Source::Input(i) => Some(Arg::Input(i)),
                Source::Zero => None,
            };
            let to = Arg::Output(part.output);
            let launch = crate::gpu::strided_copy(self.dtype, &part.moved, from, to)?;
            launches.list.push(launch);
        }
        Ok(launches)
    }
}

fn moving_as<T: Pod + Send + Sync>(
    dtype: DType,
    elements: usize,
    parts: Vec<MovedBox>,
) -> Prepared {
    Prepared::new(elements, move |cx| {
        for group in parts.chunk_by(|a, b| a.output == b.output) {
            // SAFETY: only zeros and elements of inputs of the same dtype are written to it.
            let to = unsafe { output_as::<T>(cx, group[0].output, dtype) }?;
            for part in group {
                match part.from {
                    Source::Input(i) => part.moved.run(cx.cpu(), input_as(cx, i)?, to)?,
                    Source::Zero => part.moved.run(cx.cpu(), &[T::zeroed()], to)?,
                }
            }
        }
        Ok(())
    })
}

/// Copies that fill a tensor of `dims` except for the box of `(begin, len)` along each dimension; `from` is read with
/// steps of 0.
pub(super) fn around(
    dims: &[usize],
    inside: &[(usize, usize)],
    from: Source,
) -> Result<Vec<MovedBox>, KernelError> {
    let steps = steps(dims);
    let mut parts = Vec::with_capacity(2 * dims.len());
    for (k, &(begin, len)) in inside.iter().enumerate() {
        let after = begin + len;
        let slabs = [(0, begin), (after, dims[k].saturating_sub(after))];
        for (at, thick) in slabs {
            // Within the box along the dimensions before this one, the whole tensor along those after it.
            let range = |i: usize| match i.cmp(&k) {
                std::cmp::Ordering::Less => inside[i],
                std::cmp::Ordering::Equal => (at, thick),
                std::cmp::Ordering::Greater => (0, dims[i]),
            };
            let axes: Vec<Axis> = (0..dims.len())
                .map(|i| Axis {
                    len: range(i).1,
                    from: 0,
                    to: steps[i],
                })
                .collect();
            if axes.iter().any(|a| a.len == 0) {
                continue;
            }
            let to = (0..dims.len())
                .map(|i| range(i).0 * steps[i] as usize)
                .sum();
            parts.push(MovedBox::of(from, Move::new(0, to, &axes)?));
        }
    }
    Ok(parts)
}
