//! Kernels of Fourier transforms.

use bytemuck::Pod;
use thalweg_cpu::parallel::{Disjoint, for_chunks};
use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_tensor::Element;
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::shape::elements;

use super::define::half;
use super::plan::{NO_LENGTHS, Real, Transforms};
use crate::support::elementwise::CHUNK;
use crate::support::tensors::AccountedVec;

/// Estimated nanoseconds: a few for each element and factor of two of its line.
fn cost(elements: usize, lengths: &[usize]) -> u64 {
    let levels: u32 = lengths.iter().map(|n| n.max(&2).ilog2()).sum();
    (elements as u64).saturating_mul(u64::from(levels)) + 100
}

/// Kernel of a transform of complex numbers over the last `rank` dimensions.
pub(super) fn complex<T: Real>(
    p: &Prepare<'_>,
    rank: usize,
    forward: bool,
) -> Result<Prepared, KernelError>
where
    Complex<T>: Element + Pod,
{
    let dims = p.dims(0);
    if elements(dims) == 0 {
        return Ok(Prepared::new(0, |_| Ok(())));
    }
    let lengths = &dims[dims.len() - rank..];
    let transforms = Transforms::<T>::new(lengths, 1, None, forward);
    let scale = T::one_over(elements(lengths));
    Ok(Prepared::new(0, move |cx| {
        let (x, out) = (cx.input::<Complex<T>>(0)?, cx.output::<Complex<T>>(0)?);
        let planned = transforms.planned(cx)?;
        let mut memory = planned.memory(cx)?;
        out.copy_from_slice(x);
        for axis in &planned.axes {
            axis.run(cx.pool(), out, &mut memory);
        }
        if !forward {
            for_chunks(cx.pool(), out, CHUNK, &|_, out| {
                out.iter_mut().for_each(|x| *x = *x * scale);
            });
        }
        Ok(())
    })
    .with_cost(cost(elements(dims), lengths)))
}

/// Rows of a tensor, of which the first elements along each dimension are taken.
struct CroppedRows {
    /// Lengths that are taken, without those of rows; the first covers all dimensions that are not transformed.
    lengths: Vec<usize>,
    /// Dimensions of the tensor.
    dims: Vec<usize>,
    /// Elements of a row of the tensor.
    row: usize,
}

impl CroppedRows {
    /// Rows of a tensor of dimensions `dims`, for transforms of these lengths over its last dimensions.
    fn new(dims: &[usize], lengths: &[usize]) -> CroppedRows {
        let (outer, inner) = dims.split_at(dims.len() - lengths.len());
        let (&row, inner) = inner.split_last().unwrap_or((&1, &[]));
        let lengths = &lengths[..lengths.len().saturating_sub(1)];
        let all = [elements(outer)];
        CroppedRows {
            lengths: [&all, lengths].concat(),
            dims: [&all, inner].concat(),
            row,
        }
    }

    /// Number of rows that are taken.
    fn count(&self) -> usize {
        elements(&self.lengths)
    }

    /// The first element of row `i` of those that are taken.
    fn start(&self, mut i: usize) -> usize {
        let (mut at, mut scale) = (0, self.row);
        for (&len, &dim) in self.lengths.iter().zip(&self.dims).rev() {
            at += i % len * scale;
            i /= len;
            scale *= dim;
        }
        at
    }
}

/// Lengths in input 1.
fn lengths(p: &Prepare<'_>) -> Result<Vec<usize>, KernelError> {
    let lengths = p.ints(1)?.into_iter().map(|n| usize::try_from(n).ok());
    let lengths: Option<Vec<usize>> = lengths.collect();
    lengths.ok_or(KernelError::Argument("lengths of transforms"))
}

/// Kernel of a transform of real numbers to the half of their spectrum.
pub(super) fn forward<T: Real>(p: &Prepare<'_>) -> Result<Prepared, KernelError>
where
    Complex<T>: Element + Pod,
{
    let lengths = lengths(p)?;
    if p.outputs[0].elements() == 0 || p.inputs[0].elements() == 0 {
        return zeros::<Complex<T>>(p);
    }
    let (&len, outer) = lengths.split_last().ok_or(NO_LENGTHS)?;
    let rows = CroppedRows::new(p.dims(0), &lengths);
    let transforms = Transforms::<T>::new(outer, half(len), Some(len), true);
    let cost = cost(p.outputs[0].elements().saturating_mul(2), &lengths);
    Ok(Prepared::new(0, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<Complex<T>>(0)?);
        let planned = transforms.planned(cx)?;
        let mut memory = planned.memory(cx)?;
        let spectra = Disjoint::new(out);
        let fill = |i: usize, whole: &mut [Complex<T>]| {
            for (to, &x) in whole.iter_mut().zip(&x[rows.start(i)..]) {
                *to = Complex::new(x, T::from(0.0f32));
            }
        };
        planned.each_row(cx.pool(), rows.count(), &mut memory, &fill, &|i, whole| {
            // SAFETY: each row belongs to one task.
            let own = unsafe { spectra.slice(i * half(len), half(len)) };
            own.copy_from_slice(&whole[..half(len)]);
        });
        for axis in &planned.axes {
            axis.run(cx.pool(), out, &mut memory);
        }
        Ok(())
    })
    .with_cost(cost))
}

/// Kernel of a transform to real numbers from the half of their spectrum.
pub(super) fn inverse<T: Real>(p: &Prepare<'_>) -> Result<Prepared, KernelError>
where
    Complex<T>: Element + Pod,
{
    let lengths = lengths(p)?;
    if p.outputs[0].elements() == 0 || p.inputs[0].elements() == 0 {
        return zeros::<T>(p);
    }
    let (&len, outer) = lengths.split_last().ok_or(NO_LENGTHS)?;
    let rows = CroppedRows::new(p.dims(0), &lengths);
    let transforms = Transforms::<T>::new(outer, half(len), Some(len), false);
    let spectra = rows.count().saturating_mul(half(len));
    let scale = T::one_over(elements(&lengths));
    let cost = cost(p.outputs[0].elements().saturating_mul(2), &lengths);
    Ok(Prepared::new(0, move |cx| {
        let (x, out) = (cx.input::<Complex<T>>(0)?, cx.output::<T>(0)?);
        let planned = transforms.planned(cx)?;
        let mut memory = planned.memory(cx)?;
        let mut work = AccountedVec::filled(spectra, Complex::default(), cx.cpu().memory())?;
        for_chunks(cx.pool(), &mut work, half(len), &|i, to| {
            to.copy_from_slice(&x[rows.start(i)..][..half(len)]);
        });
        for axis in &planned.axes {
            axis.run(cx.pool(), &mut work, &mut memory);
        }
        let out = Disjoint::new(out);
        let fill = |i: usize, whole: &mut [Complex<T>]| {
            fill_spectrum(&work[i * half(len)..][..half(len)], whole);
        };
        planned.each_row(cx.pool(), rows.count(), &mut memory, &fill, &|i, whole| {
            // SAFETY: each row belongs to one task.
            let own = unsafe { out.slice(i * len, len) };
            for (to, x) in own.iter_mut().zip(whole) {
                *to = x.re * scale;
            }
        });
        Ok(())
    })
    .with_cost(cost))
}

/// The whole spectrum of real numbers from its half: the rest are the conjugates, in reverse. The first number, and of
/// an even length the one in the middle, are their own conjugates: their imaginary parts are left out.
fn fill_spectrum<T: Real>(from: &[Complex<T>], whole: &mut [Complex<T>]) {
    let len = whole.len();
    whole[..from.len()].copy_from_slice(from);
    for i in from.len()..len {
        whole[i] = from[len - i].conj();
    }
    let none = T::from(0.0f32);
    whole[0].im = none;
    if len.is_multiple_of(2) {
        whole[len / 2].im = none;
    }
}

/// Kernel of zeros, for a transform of no elements.
fn zeros<T: Element>(_: &Prepare<'_>) -> Result<Prepared, KernelError> {
    Ok(Prepared::new(0, |cx| {
        cx.output::<T>(0)?.fill(T::default());
        Ok(())
    }))
}
