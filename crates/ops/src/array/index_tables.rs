//! Kernels that copy elements by a table of offsets for each axis; the offset along one axis does not depend on the
//! others.

use bytemuck::Pod;
use smallvec::SmallVec;
use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Prepare, Prepared};

use crate::gpu::{gather_by_tables, scatter_by_tables};
use crate::support::elementwise::CHUNK;
use crate::support::raw_elements::{by_size, input_as, output_as};

/// Mapping of the elements of a tensor to those of another one: the offset is the sum of one entry for each axis.
#[derive(Clone)]
pub(super) struct IndexTables {
    /// By axis, then by index along it.
    tables: Vec<Vec<usize>>,
    /// Number of elements that are adjacent in both tensors.
    each: usize,
}

impl IndexTables {
    /// Tables of a tensor, outermost axis first; none of them may be empty.
    pub(super) fn new(mut tables: Vec<Vec<usize>>) -> IndexTables {
        let mut each = 1;
        while let Some(last) = tables.last() {
            if last.iter().enumerate().any(|(i, &at)| at != i * each) {
                break;
            }
            each *= last.len();
            tables.pop();
        }
        if tables.is_empty() {
            tables.push(vec![0]);
        }
        IndexTables { tables, each }
    }

    /// Innermost table.
    fn inner(&self) -> &[usize] {
        self.tables.last().map_or(&[], |t| t)
    }

    /// The slices of a row that are adjacent in the other tensor, too: the offset of each and its number of elements.
    fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for &at in self.inner() {
            match runs.last_mut() {
                Some((from, len)) if *from + *len == at => *len += self.each,
                _ => runs.push((at, self.each)),
            }
        }
        runs
    }

    /// Number of elements of a row: those that differ in the index along the innermost table's axis only.
    fn row(&self) -> usize {
        self.inner().len() * self.each
    }

    /// Offset of row `row`, by the tables of the outer axes.
    fn start(&self, mut row: usize) -> usize {
        let mut at = 0;
        for table in self.tables.iter().rev().skip(1) {
            at += table[row % table.len()];
            row /= table.len();
        }
        at
    }

    /// Kernel that fills each element of output 0 from the element of input 0 at its offset.
    pub(super) fn gather(self, p: &Prepare<'_>) -> Result<Prepared, KernelError> {
        by_size!(p.dtype(0), T => Ok(self.gather_kernel::<T>(p)))
    }

    fn gather_kernel<T: Pod + Send + Sync>(self, p: &Prepare<'_>) -> Prepared {
        let (n, dtype) = (p.outputs[0].elements(), p.dtype(0));
        let runs = self.runs();
        Prepared::new(n * 2, move |cx| {
            let x = input_as::<T>(cx, 0)?;
            // SAFETY: only elements of an input of the same dtype are written to it.
            let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
            let row = self.row();
            let rows = (CHUNK / row).max(1);
            for_chunks(cx.pool(), out, rows * row, &|task, part| {
                for (i, out) in part.chunks_exact_mut(row).enumerate() {
                    let from = &x[self.start(task * rows + i)..];
                    if runs.len() == row {
                        for (out, &at) in out.iter_mut().zip(self.inner()) {
                            *out = from[at];
                        }
                        continue;
                    }
                    let mut rest = out;
                    for &(at, len) in &runs {
                        let (run, behind) = rest.split_at_mut(len);
                        run.copy_from_slice(&from[at..][..len]);
                        rest = behind;
                    }
                }
            });
            Ok(())
        })
    }

    /// GPU launches of [`IndexTables::gather`].
    pub(super) fn gather_on_gpu(&self, p: &Prepare<'_>) -> Result<Launches, KernelError> {
        gather_by_tables(p, &self.tables, self.each)
    }

    /// GPU launches of [`IndexTables::scatter`].
    pub(super) fn scatter_on_gpu(&self, p: &Prepare<'_>) -> Result<Launches, KernelError> {
        scatter_by_tables(p, &self.tables, self.each)
    }

    /// Kernel that copies each element of input 0 to its offset in output 0; other elements are zeros.
    pub(super) fn scatter(self, p: &Prepare<'_>) -> Result<Prepared, KernelError> {
        by_size!(p.dtype(0), T => Ok(self.scatter_kernel::<T>(p)))
    }

    fn scatter_kernel<T: Pod + Send + Sync>(self, p: &Prepare<'_>) -> Prepared {
        let (n, dtype) = (p.outputs[0].elements(), p.dtype(0));
        Prepared::new(n * 2, move |cx| {
            let x = input_as::<T>(cx, 0)?;
            // SAFETY: only zeros and elements of an input of the same dtype are written to it.
            let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
            out.fill(T::zeroed());
            self.each_slice(x, |slice, at| {
                out[at..][..slice.len()].copy_from_slice(slice)
            });
            Ok(())
        })
    }

    /// Kernel that adds each element of input 0 to the element of output 0 at its offset.
    pub(super) fn add<T: Number>(self, p: &Prepare<'_>) -> Prepared {
        Prepared::new(p.inputs[0].elements() * 4, move |cx| {
            let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
            out.fill(T::ZERO);
            self.each_slice(x, |slice, at| {
                for (sum, &x) in out[at..].iter_mut().zip(slice) {
                    *sum = sum.add(x);
                }
            });
            Ok(())
        })
    }

    fn each_slice<T>(&self, x: &[T], mut body: impl FnMut(&[T], usize)) {
        for (row, x) in x.chunks_exact(self.row()).enumerate() {
            let start = self.start(row);
            for (slice, &at) in x.chunks_exact(self.each).zip(self.inner()) {
                body(slice, start + at);
            }
        }
    }
}

/// Stride of each axis, in elements.
pub(super) fn strides(dims: &[usize]) -> SmallVec<[usize; 6]> {
    crate::support::strided_copy::steps(dims)
        .iter()
        .map(|&s| s as usize)
        .collect()
}
