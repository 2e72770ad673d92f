//! Kernels whose every output element is an element of an input, or zero, by a function of its index.

use bytemuck::Pod;
use smallvec::SmallVec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_tensor::DType;

use crate::support::elementwise::CHUNK;
use crate::support::raw_elements::{by_size, input_as, output_as};

/// Source of an element.
#[derive(Clone, Copy, Debug)]
pub(super) enum ElementSource {
    /// An element of one of the listed inputs.
    From(usize, usize),
    /// Zero.
    Zero,
}

/// Source of each element of an output, by index.
type IndexMap = Box<dyn Fn(usize) -> ElementSource + Send + Sync>;

/// Kernel that fills output 0 from `inputs`, which have its dtype, element by element.
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
            for (i, out) in part.iter_mut().enumerate() {
                *out = match formula(task * CHUNK + i) {
                    ElementSource::From(input, at) => inputs[input][at],
                    ElementSource::Zero => T::zeroed(),
                };
            }
        });
        Ok(())
    })
}
