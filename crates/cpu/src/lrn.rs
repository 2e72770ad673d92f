//! Local response normalization: each element over a power of the squares of its neighbours among the channels, which
//! come last.
//!
//! ```
//! use thalweg_cpu::lrn::{Response, lrn};
//! use thalweg_cpu::{Cpu, Isa, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // One pixel of three channels: each is divided by 1 + the squares of itself and its neighbours.
//! let g = Response { pixels: 1, channels: 3, radius: 1, bias: 1.0, alpha: 1.0, beta: 1.0 };
//! let (x, mut y) = ([1.0f32, 2.0, 1.0], [0.0; 3]);
//! let mut scratch = vec![0; g.scratch(pool.threads())];
//! lrn(cpu, &g, &x, &mut y, &mut scratch);
//! for (found, wanted) in y.iter().zip([1.0 / 6.0, 2.0 / 7.0, 1.0 / 6.0]) {
//!     assert!((found - wanted).abs() < 1e-6);
//! }
//! ```

use crate::Vectorize;
use bytemuck::cast_slice_mut;

use super::Cpu;
use super::scratch::{Disjoint, for_lanes, lanes_scratch};
use crate::number::Float;

/// The shape and parameters: elements are divided by `(bias + alpha * squares)^beta`.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// Pixels.
    pub pixels: usize,
    /// Channels of a pixel.
    pub channels: usize,
    /// Distance of the farthest neighbour, to each side.
    pub radius: usize,
    /// The term that is added to the scaled sum of squares.
    pub bias: f32,
    /// The factor of the sum of squares.
    pub alpha: f32,
    /// The exponent.
    pub beta: f32,
}

/// Elements of a task.
const TASK_ELEMENTS: usize = 16 * 1024;

impl Response {
    /// Pixels of a task.
    fn together(&self) -> usize {
        (TASK_ELEMENTS / self.channels.max(1)).max(1)
    }

    fn tasks(&self) -> usize {
        self.pixels.div_ceil(self.together())
    }

    /// Bytes that a task works in: the values with `radius` zeros to both sides, their windows' sums, and the powers.
    fn room(&self) -> usize {
        (3 * self.channels + 2 * self.radius) * size_of::<f32>()
    }

    /// Bytes of scratch memory.
    pub fn scratch(&self, threads: usize) -> usize {
        lanes_scratch(self.tasks(), threads, self.room())
    }

    /// One over the normalizer.
    #[inline(always)]
    fn power(&self, norm: f32) -> f32 {
        // The usual powers without logarithms.
        if self.beta == 0.75 {
            let root = norm.sqrt();
            1.0 / (root * root.sqrt())
        } else if self.beta == 0.5 {
            1.0 / norm.sqrt()
        } else if self.beta == 1.0 {
            1.0 / norm
        } else {
            norm.powf(-self.beta)
        }
    }
}

/// The room of a task, cut up.
struct Room<'a> {
    padded: &'a mut [f32],
    sums: &'a mut [f32],
    norms: &'a mut [f32],
}

impl<'a> Room<'a> {
    fn new(g: &Response, bytes: &'a mut [u8]) -> Room<'a> {
        let all: &mut [f32] = cast_slice_mut(&mut bytes[..g.room()]);
        all.fill(0.0);
        let (padded, rest) = all.split_at_mut(g.channels + 2 * g.radius);
        let (sums, norms) = rest.split_at_mut(g.channels);
        Room {
            padded,
            sums,
            norms,
        }
    }

    /// Fills in the values of each channel, and sums them over each channel's neighbours.
    #[inline(always)]
    fn windows(&mut self, g: &Response, of: impl Fn(usize) -> f32) {
        let own = &mut self.padded[g.radius..g.radius + g.channels];
        for (i, own) in own.iter_mut().enumerate() {
            *own = of(i);
        }
        self.sums.fill(0.0);
        for k in 0..=2 * g.radius {
            for (sum, x) in self.sums.iter_mut().zip(&self.padded[k..]) {
                *sum += x;
            }
        }
    }

    /// Returns the base of each channel's normalizer, before the power.
    #[inline(always)]
    fn normalize<T: Float<Wide = f32>>(&mut self, g: &Response, x: &[T]) {
        self.windows(g, |i| x[i].widen() * x[i].widen());
        for (norm, sum) in self.norms.iter_mut().zip(self.sums.iter()) {
            *norm = g.bias + g.alpha * sum;
        }
    }
}

struct Forward<'a, T> {
    g: &'a Response,
    x: &'a [T],
    y: &'a mut [T],
    room: Room<'a>,
}

impl<T: Float<Wide = f32>> Vectorize for Forward<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Forward { g, x, y, mut room } = self;
        let pixels = x
            .chunks_exact(g.channels)
            .zip(y.chunks_exact_mut(g.channels));
        for (x, y) in pixels {
            room.normalize(g, x);
            for ((y, x), norm) in y.iter_mut().zip(x).zip(room.norms.iter()) {
                *y = T::narrow(x.widen() * g.power(*norm));
            }
        }
    }
}

struct Backward<'a, T> {
    g: &'a Response,
    dy: &'a [T],
    x: &'a [T],
    y: &'a [T],
    dx: &'a mut [T],
    room: Room<'a>,
}

impl<T: Float<Wide = f32>> Vectorize for Backward<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Backward {
            g,
            dy,
            x,
            y,
            dx,
            mut room,
        } = self;
        let n = g.channels;
        let factor = 2.0 * g.alpha * g.beta;
        for (pixel, dx) in dx.chunks_exact_mut(n).enumerate() {
            let at = pixel * n..(pixel + 1) * n;
            let (dy, x, y) = (&dy[at.clone()], &x[at.clone()], &y[at]);
            room.normalize(g, x);
            let norms = std::mem::take(&mut room.norms);
            // The part of an element in the outputs of its neighbours.
            room.windows(g, |i| dy[i].widen() * y[i].widen() / norms[i]);
            for i in 0..n {
                let own = dy[i].widen() * g.power(norms[i]);
                dx[i] = T::narrow(own - factor * x[i].widen() * room.sums[i]);
            }
            room.norms = norms;
        }
    }
}

/// `x` over the power of its neighbours' squares.
///
/// # Panics
/// Where a slice is not as long as `g` says.
pub fn lrn<T: Float<Wide = f32>>(
    cpu: Cpu<'_>,
    g: &Response,
    x: &[T],
    y: &mut [T],
    scratch: &mut [u8],
) {
    over_pixels(cpu, g, y, scratch, &|at, y, room| {
        let x = &x[at..at + y.len()];
        cpu.isa.run_over::<T, _>(Forward { g, x, y, room });
    });
}

/// The gradient of [`lrn`], of which `y` is the result.
///
/// # Panics
/// Where a slice is not as long as `g` says.
pub fn lrn_grad<T: Float<Wide = f32>>(
    cpu: Cpu<'_>,
    g: &Response,
    [dy, x, y]: [&[T]; 3],
    dx: &mut [T],
    scratch: &mut [u8],
) {
    over_pixels(cpu, g, dx, scratch, &|at, dx, room| {
        let [dy, x, y] = [dy, x, y].map(|t| &t[at..at + dx.len()]);
        cpu.isa.run_over::<T, _>(Backward {
            g,
            dy,
            x,
            y,
            dx,
            room,
        });
    });
}

/// Runs `body(at, part, room)` for some pixels at a time, of which `at` is the first element.
fn over_pixels<T: Float>(
    cpu: Cpu<'_>,
    g: &Response,
    out: &mut [T],
    scratch: &mut [u8],
    body: &(dyn Fn(usize, &mut [T], Room<'_>) + Sync),
) {
    if out.is_empty() {
        return;
    }
    let (len, chunk) = (out.len(), g.together() * g.channels);
    let out = Disjoint::new(out);
    for_lanes(cpu.pool, g.tasks(), scratch, g.room(), &|task, bytes| {
        let at = task * chunk;
        // SAFETY: each task runs once, and their parts do not overlap.
        let part = unsafe { out.slice(at, chunk.min(len - at)) };
        body(at, part, Room::new(g, bytes));
    });
}
