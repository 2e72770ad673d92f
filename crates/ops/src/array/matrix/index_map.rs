//! Kernels whose every output element is an element of an input, or zero, by a function of its index, run by run.

use bytemuck::Pod;
use smallvec::SmallVec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_tensor::DType;

use crate::support::elementwise::CHUNK;
use crate::support::raw_elements::{by_size, input_as, output_as};

/// Source of an element and of those behind it.
#[derive(Clone, Copy, Debug)]
pub(super) enum ElementSource {
    /// An element of one of the listed inputs.
    From {
        /// The number of the input in the list.
        input: usize,
        /// The index of the element.
        at: usize,
        /// The distance there from one element to the next.
        step: usize,
        /// Number of elements, from this one on, that are as far apart.
        len: usize,
    },
    /// So many zeros.
    Zeros(usize),
}

impl ElementSource {
    /// An element of an input that is alone.
    pub(super) fn one(input: usize, at: usize) -> ElementSource {
        ElementSource::From {
            input,
            at,
            step: 1,
            len: 1,
        }
    }
}

/// Source of each element of an output, by index. A run may go on behind the end of the output.
type IndexMap = Box<dyn Fn(usize) -> ElementSource + Send + Sync>;

/// Kernel that fills output 0 from `inputs`, which have its dtype.
pub(super) fn index_map(
    p: &Prepare<'_>,
    inputs: &'static [usize],
    formula: impl Fn(usize) -> ElementSource + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    let dtype = p.dtype(0);
    let n = p.outputs[0].elements();
    let formula: IndexMap = Box::new(formula);
    by_size!(dtype, T => Ok(index_map_kernel::<T>(n, dtype, inputs, formula)))
}

fn index_map_kernel<T: Pod + Send + Sync>(
    n: usize,
    dtype: DType,
    inputs: &'static [usize],
    formula: IndexMap,
) -> Prepared {
    Prepared::new(n * 16, move |cx| {
        let inputs: SmallVec<[&[T]; 3]> = inputs
            .iter()
            .map(|&i| input_as::<T>(cx, i))
            .collect::<Result<_, _>>()?;
        // SAFETY: only zeros and elements of inputs of the same dtype are written to it.
        let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
        for_chunks(cx.pool(), out, CHUNK, &|task, part| {
            let mut i = 0;
            while i < part.len() {
                let rest = part.len() - i;
                i += match formula(task * CHUNK + i) {
                    ElementSource::From {
                        input, at, len: 1, ..
                    } => {
                        part[i] = inputs[input][at];
                        1
                    }
                    ElementSource::From {
                        input,
                        at,
                        step,
                        len,
                    } => {
                        let len = len.clamp(1, rest);
                        let (to, from) = (&mut part[i..][..len], &inputs[input][at..]);
                        debug_assert!(from.len() > (len - 1) * step, "{len} elements");
                        match step {
                            1 => to.copy_from_slice(&from[..len]),
                            _ => {
                                let from = from.iter().step_by(step.max(1));
                                to.iter_mut().zip(from).for_each(|(to, x)| *to = *x);
                            }
                        }
                        len
                    }
                    ElementSource::Zeros(len) => {
                        let len = len.clamp(1, rest);
                        part[i..][..len].fill(T::zeroed());
                        len
                    }
                };
            }
        });
        Ok(())
    })
}
