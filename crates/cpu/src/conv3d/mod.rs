//! Three-dimensional convolutions: forward, and the gradients to the input and to the filter.
//!
//! All are GEMMs of patches and filter. Patches are written in blocks of bounded memory, never those of a whole input; a
//! filter of one voxel without strides reads the input itself. Channels that come first are brought last, and back.
//!
//! ```
//! use thalweg_cpu::conv3d::{Conv3dGeometry, conv3d, conv3d_scratch};
//! use thalweg_cpu::conv::Pass;
//! use thalweg_cpu::window_axis::WindowAxis;
//! use thalweg_cpu::{Cpu, Isa, Layout, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // Two voxels in a line, and a filter that adds them.
//! let one = WindowAxis { input: 1, output: 1, window: 1, stride: 1, dilation: 1, pad: 0 };
//! let line = WindowAxis { input: 2, window: 2, ..one };
//! let g = Conv3dGeometry {
//!     batch: 1, axes: [one, one, line], in_c: 1, out_c: 1, layout: Layout::Nhwc,
//! };
//! let mut y = [0.0f32];
//! let mut scratch = vec![0; conv3d_scratch::<f32>(cpu.isa, pool.threads(), &g, Pass::Forward)];
//! conv3d(cpu, &g, &[2.0, 3.0], &[1.0, 1.0], &mut y, &mut scratch);
//! assert_eq!(y, [5.0]);
//! ```

mod geometry;
mod patches;
#[cfg(test)]
mod tests;

use crate::conv::{Pass, Real};
use crate::gemm::{Gemm, gemm, gemm_scratch};
use crate::scratch::{Scratch, for_chunks};
use crate::transpose::transpose_each;
use crate::{Cpu, Epilogue, Isa};
pub use geometry::Conv3dGeometry;
use patches::Block;

/// Numbers that are added by a task.
const ADDED: usize = 1 << 14;

/// The scratch that a pass needs on this many threads, in bytes.
pub fn conv3d_scratch<T: Real>(isa: Isa, threads: usize, g: &Conv3dGeometry, pass: Pass) -> usize {
    if g.is_empty() {
        return 0;
    }
    let (rows, all) = (g.rows::<T>(), g.batch * g.out_voxels());
    let gemms = [rows, all % rows].map(|rows| gemm_scratch::<T>(isa, threads, &g.gemm(pass, rows)));
    let own: usize = g.lens::<T>(pass).map(Scratch::bytes::<T>).iter().sum();
    own + gemms[0].max(gemms[1])
}

/// The memory of a pass, and its geometry.
struct PassMemory<'a, T> {
    g: &'a Conv3dGeometry,
    patches: &'a mut [T],
    partial: &'a mut [T],
    input: &'a mut [T],
    output: &'a mut [T],
    scratch: &'a mut [u8],
}

impl<'a, T: Real> PassMemory<'a, T> {
    fn new(g: &'a Conv3dGeometry, pass: Pass, scratch: &'a mut [u8]) -> Self {
        let mut scratch = Scratch::new(scratch);
        let [patches, partial, input, output] = g.lens::<T>(pass).map(|len| scratch.take::<T>(len));
        PassMemory {
            g,
            patches,
            partial,
            input,
            output,
            scratch: scratch.rest(),
        }
    }

    /// The blocks of all patches.
    fn blocks(&self) -> impl Iterator<Item = Block<'a>> + use<'a, T> {
        let (g, rows) = (self.g, self.g.rows::<T>());
        let all = g.batch * g.out_voxels();
        (0..all).step_by(rows).map(move |first| Block {
            g,
            first,
            rows: rows.min(all - first),
        })
    }
}

/// The product of two matrices.
fn multiply<T: Real>(
    cpu: Cpu<'_>,
    shape: &Gemm,
    operands: [&[T]; 2],
    to: &mut [T],
    scratch: &mut [u8],
) {
    gemm(cpu, shape, operands, None, Epilogue::NONE, to, scratch);
}

/// The channels of each volume, brought last.
fn channels_last<'a, T: Real>(
    cpu: Cpu<'_>,
    [voxels, channels]: [usize; 2],
    given: &'a [T],
    to: &'a mut [T],
) -> &'a [T] {
    if to.is_empty() {
        return given;
    }
    transpose_each(cpu, [channels, voxels], given, to);
    to
}

/// The convolution of `input` with `filter`, to `output`.
///
/// # Panics
/// If a slice is not as long as the geometry says, or the scratch is too small.
pub fn conv3d<T: Real>(
    cpu: Cpu<'_>,
    g: &Conv3dGeometry,
    input: &[T],
    filter: &[T],
    output: &mut [T],
    scratch: &mut [u8],
) {
    g.check([input.len(), filter.len(), output.len()]);
    if g.is_empty() {
        return output.fill(T::default());
    }
    let run = PassMemory::<T>::new(g, Pass::Forward, scratch);
    let blocks = run.blocks();
    let input = channels_last(cpu, [g.in_voxels(), g.in_c], input, run.input);
    let first_channels = !run.output.is_empty();
    let to = if first_channels {
        &mut *run.output
    } else {
        &mut *output
    };
    for block in blocks {
        let patches = block.read(cpu, input, run.patches);
        let shape = g.gemm(Pass::Forward, block.rows);
        let to = &mut to[block.first * g.out_c..][..block.rows * g.out_c];
        multiply(cpu, &shape, [patches, filter], to, run.scratch);
    }
    if first_channels {
        transpose_each(cpu, [g.out_voxels(), g.out_c], run.output, output);
    }
}

/// The gradient of a convolution to its input, from the gradient to its output.
///
/// # Panics
/// As [`conv3d`].
pub fn conv3d_input_grad<T: Real>(
    cpu: Cpu<'_>,
    g: &Conv3dGeometry,
    filter: &[T],
    output_grad: &[T],
    input_grad: &mut [T],
    scratch: &mut [u8],
) {
    g.check([input_grad.len(), filter.len(), output_grad.len()]);
    if g.is_empty() {
        return input_grad.fill(T::default());
    }
    let run = PassMemory::<T>::new(g, Pass::ToInput, scratch);
    let blocks = run.blocks();
    let grads = channels_last(cpu, [g.out_voxels(), g.out_c], output_grad, run.output);
    let first_channels = !run.input.is_empty();
    let to = if first_channels {
        &mut *run.input
    } else {
        &mut *input_grad
    };
    if g.is_pointwise() {
        let shape = g.gemm(Pass::ToInput, g.batch * g.out_voxels());
        multiply(cpu, &shape, [grads, filter], to, run.scratch);
    } else {
        to.fill(T::default());
        for block in blocks {
            let shape = g.gemm(Pass::ToInput, block.rows);
            let patches = &mut run.patches[..block.rows * g.patch()];
            let own = &grads[block.first * g.out_c..][..block.rows * g.out_c];
            multiply(cpu, &shape, [own, filter], patches, run.scratch);
            block.add(cpu, patches, to);
        }
    }
    if first_channels {
        transpose_each(cpu, [g.in_voxels(), g.in_c], run.input, input_grad);
    }
}

/// The gradient of a convolution to its filter, from the gradient to its output.
///
/// # Panics
/// As [`conv3d`].
pub fn conv3d_filter_grad<T: Real>(
    cpu: Cpu<'_>,
    g: &Conv3dGeometry,
    input: &[T],
    output_grad: &[T],
    filter_grad: &mut [T],
    scratch: &mut [u8],
) {
    g.check([input.len(), filter_grad.len(), output_grad.len()]);
    if g.is_empty() {
        return filter_grad.fill(T::default());
    }
    let run = PassMemory::<T>::new(g, Pass::ToFilter, scratch);
    let blocks = run.blocks();
    let input = channels_last(cpu, [g.in_voxels(), g.in_c], input, run.input);
    let grads = channels_last(cpu, [g.out_voxels(), g.out_c], output_grad, run.output);
    for block in blocks {
        let patches = block.read(cpu, input, run.patches);
        let shape = g.gemm(Pass::ToFilter, block.rows);
        let own = &grads[block.first * g.out_c..][..block.rows * g.out_c];
        let to = if block.first == 0 {
            &mut *filter_grad
        } else {
            &mut *run.partial
        };
        multiply(cpu, &shape, [patches, own], to, run.scratch);
        if block.first > 0 {
            let partial = &*run.partial;
            for_chunks(cpu.pool, filter_grad, ADDED, &|i, sums| {
                for (sum, x) in sums.iter_mut().zip(&partial[i * ADDED..]) {
                    *sum += *x;
                }
            });
        }
    }
}
