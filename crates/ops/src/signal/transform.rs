//! Kernels of Fourier transforms: one dimension after the other, lines in parallel.

use std::sync::Arc;

use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use thalweg_cpu::parallel::{Disjoint, for_chunks};
use thalweg_cpu::thread_pool::ThreadPool;
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared};
use thalweg_tensor::Element;
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::shape::elements;

use super::define::half;
use crate::support::elementwise::CHUNK;

/// Number of lines across rows that are copied together, so that each read fetches a whole cache line.
const COLUMNS: usize = 8;

/// A float of a transform.
pub(super) trait Real: FftNum + Element + From<f32> {
    /// One divided by `n`.
    fn one_over(n: usize) -> Self;
}

impl Real for f32 {
    fn one_over(n: usize) -> f32 {
        (1.0 / n as f64) as f32
    }
}

impl Real for f64 {
    fn one_over(n: usize) -> f64 {
        1.0 / n as f64
    }
}

/// A transform along one dimension.
struct Axis<T: Real> {
    fft: Arc<dyn Fft<T>>,
    /// Elements of a line.
    len: usize,
    /// Elements between neighbours of a line.
    step: usize,
}

impl<T: Real> Axis<T>
where
    Complex<T>: Element,
{
    fn new(planner: &mut FftPlanner<T>, forward: bool, len: usize, step: usize) -> Axis<T> {
        let direction = match forward {
            true => FftDirection::Forward,
            false => FftDirection::Inverse,
        };
        let fft = planner.plan_fft(len, direction);
        Axis { fft, len, step }
    }

    /// Axes of the given lengths, of elements in row-major order, whose last dimension has `last` elements.
    fn all(lengths: &[usize], last: usize, forward: bool) -> Vec<Axis<T>> {
        let mut planner = FftPlanner::new();
        let mut step = last;
        let mut axes = Vec::new();
        for &len in lengths.iter().rev() {
            axes.push(Axis::new(&mut planner, forward, len, step));
            step = step.saturating_mul(len);
        }
        axes
    }

    /// Elements of memory that a thread needs: copied lines, and memory of the transform.
    fn room(&self) -> usize {
        let lines = match self.step {
            1 => 0,
            _ => COLUMNS.saturating_mul(self.len),
        };
        lines.saturating_add(self.fft.get_inplace_scratch_len())
    }

    /// Transforms all lines of `data`; `rooms` is memory of [`Axis::room`] elements for each thread.
    fn run(&self, pool: &ThreadPool, data: &mut [Complex<T>], rooms: &mut [Complex<T>]) {
        let (len, step) = (self.len, self.step);
        let blocks = data.len() / (len * step);
        let groups = step.div_ceil(COLUMNS);
        let data = Disjoint::new(data);
        over_tasks(pool, blocks * groups, self.room(), rooms, &|task, room| {
            let (block, column) = (task / groups, task % groups * COLUMNS);
            let width = COLUMNS.min(step - column);
            let start = block * len * step + column;
            if step == 1 {
                // SAFETY: each line belongs to one task.
                self.fft
                    .process_with_scratch(unsafe { data.slice(start, len) }, room);
                return;
            }
            let (lines, room) = room.split_at_mut(COLUMNS * len);
            for i in 0..len {
                // SAFETY: these columns of each row belong to one task.
                let row = unsafe { data.slice(start + i * step, width) };
                for (j, &x) in row.iter().enumerate() {
                    lines[j * len + i] = x;
                }
            }
            self.fft
                .process_with_scratch(&mut lines[..width * len], room);
            for i in 0..len {
                // SAFETY: as above.
                let row = unsafe { data.slice(start + i * step, width) };
                for (j, x) in row.iter_mut().enumerate() {
                    *x = lines[j * len + i];
                }
            }
        });
    }
}

/// Runs `body(i, room)` for `0..count` on the threads of a pool, each with its own `room` elements of `rooms`.
fn over_tasks<T: Send>(
    pool: &ThreadPool,
    count: usize,
    room: usize,
    rooms: &mut [T],
    body: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let threads = pool.threads().clamp(1, count.max(1));
    let rooms = Disjoint::new(rooms);
    pool.parallel_for(threads, &|thread| {
        // SAFETY: each thread's part is its own.
        let own = unsafe { rooms.slice(thread * room, room) };
        for i in (thread..count).step_by(threads) {
            body(i, own);
        }
    });
}

/// Estimated nanoseconds: a few for each element and factor of two of its line.
fn cost(elements: usize, lengths: &[usize]) -> u64 {
    let levels: u32 = lengths.iter().map(|n| n.max(&2).ilog2()).sum();
    100 + elements as u64 * u64::from(levels)
}

/// Kernel of a transform of complex numbers over the last `rank` dimensions.
pub(super) fn complex<T: Real>(
    p: &Prepare<'_>,
    rank: usize,
    forward: bool,
) -> Result<Prepared, KernelError>
where
    Complex<T>: Element,
{
    let dims = p.dims(0);
    if elements(dims) == 0 {
        return Ok(Prepared::new(0, |_| Ok(())));
    }
    let lengths = &dims[dims.len() - rank..];
    let axes = Axis::<T>::all(lengths, 1, forward);
    let rooms = rooms(&axes, 0, p.cpu.pool());
    let scale = T::one_over(elements(lengths));
    Ok(Prepared::new(0, move |cx| {
        let (x, out) = (cx.input::<Complex<T>>(0)?, cx.output::<Complex<T>>(0)?);
        out.copy_from_slice(x);
        let rooms = cx.scratch::<Complex<T>>(rooms)?;
        axes.iter().for_each(|axis| axis.run(cx.pool(), out, rooms));
        if !forward {
            for_chunks(cx.pool(), out, CHUNK, &|_, out| {
                out.iter_mut().for_each(|x| *x = *x * scale);
            });
        }
        Ok(())
    })
    .with_scratch(rooms.saturating_mul(size_of::<Complex<T>>()))
    .with_cost(cost(elements(dims), lengths)))
}

/// Elements of memory for all threads, for each of these axes and for tasks that need `room` elements.
fn rooms<T: Real>(axes: &[Axis<T>], room: usize, pool: &ThreadPool) -> usize
where
    Complex<T>: Element,
{
    let most = axes.iter().map(Axis::room).max().unwrap_or(0).max(room);
    most.saturating_mul(pool.threads().max(1))
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
    Complex<T>: Element,
{
    let lengths = lengths(p)?;
    if p.outputs[0].elements() == 0 || p.inputs[0].elements() == 0 {
        return zeros::<Complex<T>>(p);
    }
    let (&len, outer) = lengths.split_last().ok_or(NO_LENGTHS)?;
    let rows = CroppedRows::new(p.dims(0), &lengths);
    let axes = Axis::<T>::all(outer, half(len), true);
    let line = Axis::<T>::new(&mut FftPlanner::new(), true, len, 1);
    let room = len.saturating_add(line.room());
    let rooms = rooms(&axes, room, p.cpu.pool());
    let cost = cost(p.outputs[0].elements().saturating_mul(2), &lengths);
    Ok(Prepared::new(0, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<Complex<T>>(0)?);
        let rooms = cx.scratch::<Complex<T>>(rooms)?;
        let spectra = Disjoint::new(out);
        over_tasks(cx.pool(), rows.count(), room, rooms, &|i, room| {
            let (whole, room) = room.split_at_mut(len);
            for (to, &x) in whole.iter_mut().zip(&x[rows.start(i)..]) {
                *to = Complex::new(x, T::from(0.0f32));
            }
            line.fft.process_with_scratch(whole, room);
            // SAFETY: each row belongs to one task.
            let own = unsafe { spectra.slice(i * half(len), half(len)) };
            own.copy_from_slice(&whole[..half(len)]);
        });
        axes.iter().for_each(|axis| axis.run(cx.pool(), out, rooms));
        Ok(())
    })
    .with_scratch(rooms.saturating_mul(size_of::<Complex<T>>()))
    .with_cost(cost))
}

/// Kernel of a transform to real numbers from the half of their spectrum.
pub(super) fn inverse<T: Real>(p: &Prepare<'_>) -> Result<Prepared, KernelError>
where
    Complex<T>: Element,
{
    let lengths = lengths(p)?;
    if p.outputs[0].elements() == 0 || p.inputs[0].elements() == 0 {
        return zeros::<T>(p);
    }
    let (&len, outer) = lengths.split_last().ok_or(NO_LENGTHS)?;
    let rows = CroppedRows::new(p.dims(0), &lengths);
    let axes = Axis::<T>::all(outer, half(len), false);
    let line = Axis::<T>::new(&mut FftPlanner::new(), false, len, 1);
    let room = len.saturating_add(line.room());
    let spectra = rows.count().saturating_mul(half(len));
    let scratch = spectra.saturating_add(rooms(&axes, room, p.cpu.pool()));
    let scale = T::one_over(elements(&lengths));
    let cost = cost(p.outputs[0].elements().saturating_mul(2), &lengths);
    Ok(Prepared::new(0, move |cx: &KernelCx<'_>| {
        let (x, out) = (cx.input::<Complex<T>>(0)?, cx.output::<T>(0)?);
        let (work, rooms) = cx.scratch::<Complex<T>>(scratch)?.split_at_mut(spectra);
        for_chunks(cx.pool(), work, half(len), &|i, to| {
            to.copy_from_slice(&x[rows.start(i)..][..half(len)]);
        });
        axes.iter()
            .for_each(|axis| axis.run(cx.pool(), work, rooms));
        let out = Disjoint::new(out);
        over_tasks(cx.pool(), rows.count(), room, rooms, &|i, room| {
            let (whole, room) = room.split_at_mut(len);
            fill_spectrum(&work[i * half(len)..][..half(len)], whole);
            line.fft.process_with_scratch(whole, room);
            // SAFETY: each row belongs to one task.
            let own = unsafe { out.slice(i * len, len) };
            for (to, x) in own.iter_mut().zip(whole) {
                *to = x.re * scale;
            }
        });
        Ok(())
    })
    .with_scratch(scratch.saturating_mul(size_of::<Complex<T>>()))
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

const NO_LENGTHS: KernelError = KernelError::Argument("lengths of transforms");
