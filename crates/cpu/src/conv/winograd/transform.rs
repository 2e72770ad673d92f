//! Transforms of tiles: `L x R'` for the tiles of a line, with small matrices on both sides and channels along the
//! vectors.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::Epilogue;
use crate::isa::{Isa, Level, Vectorize};

use super::matrices::{DataMatrix, IdentityMatrix, Linear, MAX_POINTS, SumMatrix, ValueMatrix};
use crate::vector::{Lanes, Vector};

/// The layout of tiles that lie side by side, before or after a transform. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct TileLayout {
    /// From a line of a tile, and from an element of a line, to the next.
    pub line: usize,
    pub pixel: usize,
    /// From a tile to the next.
    pub tile: usize,
}

/// Tiles to transform.
pub(super) struct TransformJob<'a> {
    pub from: *const f32,
    pub read: TileLayout,
    pub to: *mut f32,
    pub written: TileLayout,
    pub tiles: usize,
    pub channels: usize,
    /// `true` if the destination has room for full vectors, which are then filled with zeros.
    pub padded: bool,
    /// Number of lines, and of elements of the lines of all tiles, that are written: those behind are left out.
    pub limit: [usize; 2],
    /// The epilogue of each number before it is written.
    pub epilogue: Epilogue<'a, f32>,
}

impl TransformJob<'_> {
    /// All lines and elements of so many tiles and channels, and nothing done to them.
    pub(super) fn new(
        (from, read): (*const f32, TileLayout),
        (to, written): (*mut f32, TileLayout),
        tiles: usize,
        channels: usize,
    ) -> Self {
        TransformJob {
            from,
            read,
            to,
            written,
            tiles,
            channels,
            padded: false,
            limit: [usize::MAX; 2],
            epilogue: Epilogue::NONE,
        }
    }
}

/// # Safety
/// The job's source and destination are valid, and nothing else touches the destination meanwhile.
pub(super) type Transform = unsafe fn(Isa, &TransformJob<'_>);

/// The transform of a dimension.
pub(super) trait Dimension {
    /// Outputs of a tile, taps, and points.
    const M: usize;
    const R: usize;
    const N: usize;
    /// Of the input.
    type Data: Linear;
    /// Of the filter, and from points to outputs.
    type Taps: Linear;
    type Outputs: Linear;
    /// Of the gradient to the output, and from points to the gradient to the filter.
    type Grads: Linear;
    type TapGrads: Linear;
}

/// A dimension in which the filter has one tap.
pub(super) struct One;

/// `M` outputs of `R` taps at a time, by `N` points.
pub(super) struct Points<const N: usize, const M: usize, const R: usize>;

impl Dimension for One {
    const M: usize = 1;
    const R: usize = 1;
    const N: usize = 1;
    type Data = IdentityMatrix;
    type Taps = IdentityMatrix;
    type Outputs = IdentityMatrix;
    type Grads = IdentityMatrix;
    type TapGrads = IdentityMatrix;
}

impl<const N: usize, const M: usize, const R: usize> Dimension for Points<N, M, R> {
    const M: usize = M;
    const R: usize = R;
    const N: usize = N;
    type Data = DataMatrix<N>;
    type Taps = ValueMatrix<N, R>;
    type Outputs = SumMatrix<N, M>;
    type Grads = ValueMatrix<N, M>;
    type TapGrads = SumMatrix<N, R>;
}

/// The transforms of a filter's shape. Each field of two has lines first, columns second.
#[derive(Clone, Copy)]
pub(super) struct Transforms {
    /// Outputs of a tile.
    pub outputs: [usize; 2],
    /// Taps of the filter.
    pub taps: [usize; 2],
    /// Points, of which there are so many GEMMs.
    pub points: [usize; 2],
    pub of_data: Transform,
    pub of_taps: Transform,
    pub to_outputs: Transform,
    pub of_grads: Transform,
    pub to_tap_grads: Transform,
}

impl Transforms {
    pub(super) const fn new<L: Dimension, C: Dimension>() -> Self {
        Transforms {
            outputs: [L::M, C::M],
            taps: [L::R, C::R],
            points: [L::N, C::N],
            of_data: transform::<L::Data, C::Data>,
            of_taps: transform::<L::Taps, C::Taps>,
            to_outputs: transform::<L::Outputs, C::Outputs>,
            of_grads: transform::<L::Grads, C::Grads>,
            to_tap_grads: transform::<L::TapGrads, C::TapGrads>,
        }
    }

    /// Elements of a transformed tile.
    pub(super) const fn gemms(&self) -> usize {
        self.points[0] * self.points[1]
    }
}

/// # Safety
/// As [`Transform`].
unsafe fn transform<L: Linear, C: Linear>(isa: Isa, job: &TransformJob<'_>) {
    match isa.level() {
        Level::Portable => isa.run(InVectors::<Lanes<f32, 4>, L, C>(job, PhantomData)),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => isa.run(InVectors::<std::arch::x86_64::__m256, L, C>(
            job,
            PhantomData,
        )),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => isa.run(InVectors::<std::arch::x86_64::__m512, L, C>(
            job,
            PhantomData,
        )),
    }
}

/// A job in vectors `V`. It is made only for the instructions that `V` needs, and only by [`transform`].
struct InVectors<'a, V, L, C>(&'a TransformJob<'a>, PhantomData<(V, L, C)>);

impl<V: Vector<Elem = f32>, L: Linear, C: Linear> Vectorize for InVectors<'_, V, L, C> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let job = self.0;
        for tile in 0..job.tiles {
            let lines = job.limit[0].min(L::OUT);
            let pixels = (job.limit[1] - (tile * C::OUT).min(job.limit[1])).min(C::OUT);
            let mut channel = 0;
            while channel < job.channels {
                let left = (job.channels - channel).min(V::LANES);
                let from = job.from.wrapping_add(tile * job.read.tile + channel);
                let to = job.to.wrapping_add(tile * job.written.tile + channel);
                // SAFETY: the machine has the instructions of `V`, and the tile lies in the memory that the job's maker
                // vouches for.
                unsafe { block::<V, L, C>(job, from, to, [lines, pixels], channel, left) };
                channel += V::LANES;
            }
        }
    }
}

/// Returns the values of `left` channels in a list of the epilogue; zeros where there is none.
///
/// # Safety
/// As [`Vector`]; a list has these channels.
#[inline(always)]
unsafe fn of_channels<V: Vector<Elem = f32>>(
    list: Option<&[f32]>,
    channel: usize,
    left: usize,
) -> V {
    // SAFETY: by the caller's promise.
    unsafe {
        match list {
            Some(list) if left == V::LANES => V::load(list.as_ptr().wrapping_add(channel)),
            Some(list) => V::load_first(list.as_ptr().wrapping_add(channel), left),
            None => V::zero(),
        }
    }
}

/// Ends the epilogue of `left` channels of a tile's pixels.
///
/// # Safety
/// As [`Vector`], and as [`Transform`].
#[inline(always)]
unsafe fn end<V: Vector<Elem = f32>>(
    job: &TransformJob<'_>,
    to: *mut f32,
    [lines, pixels]: [usize; 2],
    left: usize,
) {
    for i in 0..lines {
        for j in 0..pixels {
            let to = to.wrapping_add(i * job.written.line + j * job.written.pixel);
            // SAFETY: by the caller's promise.
            unsafe {
                job.epilogue
                    .end::<V>(std::slice::from_raw_parts_mut(to, left))
            };
        }
    }
}

/// Transforms `left` channels of a tile.
///
/// # Safety
/// As [`Vector`], and as [`Transform`].
#[inline(always)]
unsafe fn block<V: Vector<Elem = f32>, L: Linear, C: Linear>(
    job: &TransformJob<'_>,
    from: *const f32,
    to: *mut f32,
    [lines, pixels]: [usize; 2],
    channel: usize,
    left: usize,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let whole = left == V::LANES;
        // Loops are plain ones, as iterators of these bodies are calls where a build does not optimise across units of
        // code. By column: the transforms of its lines. To clear all of it would take a fifth of a transform's time.
        let mut half = [const { MaybeUninit::<[V; MAX_POINTS]>::uninit() }; MAX_POINTS];
        let mut j = 0;
        while j < C::IN {
            let mut x = [V::zero(); MAX_POINTS];
            let mut i = 0;
            while i < L::IN {
                let from = from.wrapping_add(i * job.read.line + j * job.read.pixel);
                x[i] = match whole {
                    true => V::load(from),
                    false => V::load_first(from, left),
                };
                i += 1;
            }
            half[j].write(L::apply(&x));
            j += 1;
        }
        let short = job.epilogue.before_store();
        let scale = of_channels::<V>(job.epilogue.scale, channel, left);
        let bias = of_channels::<V>(job.epilogue.bias, channel, left);
        let mut i = 0;
        while i < L::OUT && i < lines {
            let mut x = [V::zero(); MAX_POINTS];
            let mut j = 0;
            while j < C::IN {
                // The loop above has written these columns.
                x[j] = half[j].assume_init_ref()[i];
                j += 1;
            }
            let y = C::apply(&x);
            j = 0;
            while j < C::OUT && j < pixels {
                let mut y = y[j];
                if job.epilogue.scale.is_some() {
                    y = y.mul(scale);
                }
                if job.epilogue.bias.is_some() {
                    y = y.add(bias);
                }
                let to = to.wrapping_add(i * job.written.line + j * job.written.pixel);
                y = short.apply_short(y);
                match whole || job.padded {
                    true => y.store(to),
                    false => y.store_first(to, left),
                }
                j += 1;
            }
            i += 1;
        }
        if job.epilogue.has_end() {
            end::<V>(job, to, [lines.min(L::OUT), pixels.min(C::OUT)], left);
        }
    }
}
