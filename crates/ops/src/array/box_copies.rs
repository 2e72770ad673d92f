//! Kernels that only copy elements: a list of strided copies of boxes, which depend on the size of an element only.

use bytemuck::Pod;
use thalweg_device::gpu::{Arg, Launches};
use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_tensor::DType;

use crate::support::raw_elements::{by_size, input_as, output_as};
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

/// Source of a box's elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum CopySource {
    /// An input.
    Input(usize),
    /// A zero, read with steps of 0.
    Zero,
}

/// Copy of a box from a source to an output.
#[derive(Clone, Debug)]
pub(super) struct BoxCopy {
    pub(super) from: CopySource,
    pub(super) output: usize,
    pub(super) moved: StridedCopy,
}

impl BoxCopy {
    /// Copy into output 0.
    pub(super) fn of(from: CopySource, moved: StridedCopy) -> BoxCopy {
        BoxCopy {
            from,
            output: 0,
            moved,
        }
    }
}

/// The copies of a kernel, in order, those of one output adjacent. Together they write `elements` elements of
/// `dtype`.
#[derive(Debug)]
pub(super) struct BoxCopies {
    pub(super) dtype: DType,
    pub(super) elements: usize,
    pub(super) parts: Vec<BoxCopy>,
}

impl BoxCopies {
    /// A single copy, from input 0 to output 0.
    pub(super) fn one(p: &Prepare<'_>, moved: StridedCopy) -> BoxCopies {
        BoxCopies {
            dtype: p.dtype(0),
            elements: p.outputs[0].elements(),
            parts: vec![BoxCopy::of(CopySource::Input(0), moved)],
        }
    }

    /// CPU kernel.
    pub(super) fn on_cpu(self) -> Result<Prepared, KernelError> {
        let BoxCopies {
            dtype,
            elements,
            parts,
        } = self;
        by_size!(dtype, T => Ok(copy_kernel::<T>(dtype, elements, parts)))
    }

    /// GPU launches.
    pub(super) fn on_gpu(self) -> Result<Launches, KernelError> {
        let mut launches = Launches::default();
        for part in self.parts.iter().filter(|p| !p.moved.is_empty()) {
            let from = match part.from {
                CopySource::Input(i) => Some(Arg::Input(i)),
                CopySource::Zero => None,
            };
            let to = Arg::Output(part.output);
            let launch = crate::gpu::strided_copy(self.dtype, &part.moved, from, to)?;
            launches.list.push(launch);
        }
        Ok(launches)
    }
}

fn copy_kernel<T: Pod + Send + Sync>(
    dtype: DType,
    elements: usize,
    parts: Vec<BoxCopy>,
) -> Prepared {
    Prepared::new(elements, move |cx| {
        // An input is looked up once for all of its parts: a look compares it with every output.
        let mut input: (usize, &[T]) = (usize::MAX, &[]);
        for group in parts.chunk_by(|a, b| a.output == b.output) {
            // SAFETY: only zeros and elements of inputs of the same dtype are written to it.
            let to = unsafe { output_as::<T>(cx, group[0].output, dtype) }?;
            for part in group {
                match part.from {
                    CopySource::Input(i) => {
                        if input.0 != i {
                            input = (i, input_as(cx, i)?);
                        }
                        part.moved.run(cx.cpu(), input.1, to)?;
                    }
                    CopySource::Zero => part.moved.run(cx.cpu(), &[T::zeroed()], to)?,
                }
            }
        }
        Ok(())
    })
}

/// Copies that fill a tensor of `dims` except for the box of `(begin, len)` along each dimension; `from` is read with
/// steps of 0.
pub(super) fn fill_outside(
    dims: &[usize],
    inside: &[(usize, usize)],
    from: CopySource,
) -> Result<Vec<BoxCopy>, KernelError> {
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
            let axes: Vec<CopyAxis> = (0..dims.len())
                .map(|i| CopyAxis {
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
            parts.push(BoxCopy::of(from, StridedCopy::new(0, to, &axes)?));
        }
    }
    Ok(parts)
}
