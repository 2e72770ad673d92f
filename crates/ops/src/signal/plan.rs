//! Plans of Fourier transforms: one dimension after the other, lines in parallel.

use std::sync::{Arc, OnceLock};

use bytemuck::Pod;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use thalweg_cpu::parallel::Disjoint;
use thalweg_cpu::scratch::{Scratch, for_lanes, lanes_scratch};
use thalweg_cpu::thread_pool::ThreadPool;
use thalweg_device::{KernelCx, KernelError};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{Element, Reservation};

use crate::support::tensors::{AccountedVec, reserved};

pub(super) const NO_LENGTHS: KernelError = KernelError::Argument("lengths of transforms");

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
pub(super) struct Axis<T: Real> {
    fft: Arc<dyn Fft<T>>,
    /// Elements of a line.
    len: usize,
    /// Elements between neighbours of a line.
    step: usize,
}

impl<T: Real> Axis<T>
where
    Complex<T>: Element + Pod,
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

    /// Transforms all lines of `data`, with the memory of a plan.
    pub(super) fn run(&self, pool: &ThreadPool, data: &mut [Complex<T>], memory: &mut [u8]) {
        let (len, step) = (self.len, self.step);
        let blocks = data.len() / (len * step);
        let groups = step.div_ceil(COLUMNS);
        let data = Disjoint::new(data);
        let lane = Scratch::bytes::<Complex<T>>(self.room());
        for_lanes(pool, blocks * groups, memory, lane, &|task, bytes| {
            let room = Scratch::new(bytes).take::<Complex<T>>(self.room());
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

/// Numbers that a plan keeps for each element of a line, at most: two tables of a transform of twice the length.
const PLAN_NUMBERS: usize = 6;

/// Transforms along the dimensions of a node, planned in its first run: the input is there then, so that tables of its
/// length are no more than a few times its memory.
pub(super) struct Transforms<T: Real> {
    /// Lengths of transforms of complex numbers.
    lengths: Vec<usize>,
    /// Elements between neighbours along the last of them.
    step: usize,
    /// Length of rows that are transformed apart, if there are such rows.
    row: Option<usize>,
    forward: bool,
    planned: OnceLock<Planned<T>>,
}

/// The plans of a node's transforms.
pub(super) struct Planned<T: Real> {
    pub(super) axes: Vec<Axis<T>>,
    row: Option<Axis<T>>,
    _taken: Reservation,
}

impl<T: Real> Transforms<T>
where
    Complex<T>: Element + Pod,
{
    pub(super) fn new(
        lengths: &[usize],
        step: usize,
        row: Option<usize>,
        forward: bool,
    ) -> Transforms<T> {
        Transforms {
            lengths: lengths.to_vec(),
            step,
            row,
            forward,
            planned: OnceLock::new(),
        }
    }

    pub(super) fn planned(&self, cx: &KernelCx<'_>) -> Result<&Planned<T>, KernelError> {
        if self.planned.get().is_none() {
            let numbers: usize = self.lengths.iter().chain(&self.row).sum();
            let bytes = numbers.saturating_mul(PLAN_NUMBERS * size_of::<Complex<T>>());
            let taken = reserved(bytes, Some(cx.cpu().memory()))?;
            let row = |len| Axis::new(&mut FftPlanner::new(), self.forward, len, 1);
            let planned = Planned {
                axes: Axis::all(&self.lengths, self.step, self.forward),
                row: self.row.map(row),
                _taken: taken,
            };
            // Another run may have been faster; its plans are the same.
            let _ = self.planned.set(planned);
        }
        self.planned.get().ok_or(NO_LENGTHS)
    }
}

impl<T: Real> Planned<T>
where
    Complex<T>: Element + Pod,
{
    /// For each of `count` rows: fills it, transforms it, and passes it on.
    pub(super) fn each_row(
        &self,
        pool: &ThreadPool,
        count: usize,
        memory: &mut [u8],
        fill: &(dyn Fn(usize, &mut [Complex<T>]) + Sync),
        pass: &(dyn Fn(usize, &[Complex<T>]) + Sync),
    ) {
        let Some(row) = &self.row else { return };
        let lane = Scratch::bytes::<Complex<T>>(self.row_room());
        for_lanes(pool, count, memory, lane, &|i, bytes| {
            let room = Scratch::new(bytes).take::<Complex<T>>(self.row_room());
            let (whole, room) = room.split_at_mut(row.len);
            fill(i, whole);
            row.fft.process_with_scratch(whole, room);
            pass(i, whole);
        });
    }

    /// Elements of memory that a thread needs for rows: a row, and memory of its transform.
    fn row_room(&self) -> usize {
        let of = |row: &Axis<T>| row.len.saturating_add(row.room());
        self.row.as_ref().map_or(0, of)
    }

    /// Memory of all threads.
    pub(super) fn memory(&self, cx: &KernelCx<'_>) -> Result<AccountedVec<u8>, KernelError> {
        let rooms = self.axes.iter().map(Axis::room);
        let room = rooms.max().unwrap_or(0).max(self.row_room());
        let threads = cx.pool().threads();
        let bytes = lanes_scratch(threads, threads, Scratch::bytes::<Complex<T>>(room));
        AccountedVec::filled(bytes, 0, cx.cpu().memory())
    }
}
