//! Epilogues of GEMMs and convolutions: scale, bias, residual and activation.

use std::slice::SliceIndex;

use bytemuck::Pod;

use super::activation::Activation;
use super::number::Wide;
use super::scratch::for_chunks;
use super::vector::{Lanes, Vector, VectorCode, Vectored, run_in_vectors};
use super::{Cpu, Isa};

/// A tensor that is added to the outputs of a GEMM or convolution, element by element.
#[derive(Clone, Copy, Debug)]
pub struct Residual<'a, T> {
    values: &'a [T],
    /// Address of the first output.
    output: usize,
}

impl<'a, T> Residual<'a, T> {
    /// The values that belong to the elements of `output`.
    ///
    /// # Panics
    /// If there are more or fewer than outputs.
    pub fn new(values: &'a [T], output: &[T]) -> Self {
        assert_eq!(values.len(), output.len(), "one value for each output");
        Residual {
            values,
            output: output.as_ptr().addr(),
        }
    }

    /// `true` if the values are of this output, which is of numbers of their type.
    fn is_of<U>(&self, output: &[U]) -> bool {
        let same = self.output == output.as_ptr().addr() && size_of::<U>() == size_of::<T>();
        same && self.values.len() == output.len()
    }

    /// Pointer to the value of the output at this place.
    #[inline(always)]
    pub(super) fn at(&self, output: *const T) -> *const T {
        let distance = output.addr().wrapping_sub(self.output);
        self.values.as_ptr().wrapping_byte_add(distance)
    }
}

/// The operations on each output: it is scaled, the bias and the residual are added, and then the activation applied. Scale
/// and bias come before it is stored; Relu and Relu6, too, if there is no residual.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a, T> {
    /// A factor for each output channel, or column.
    pub scale: Option<&'a [T]>,
    /// The bias of each output channel, or column.
    pub bias: Option<&'a [T]>,
    /// A tensor of the output's dimensions, which is added after the bias. Of convolutions alone.
    pub residual: Option<Residual<'a, T>>,
    /// The activation, after the bias and the residual.
    pub activation: Activation,
}

impl<T> Epilogue<'_, T> {
    /// The identity.
    pub const NONE: Self = Epilogue {
        scale: None,
        bias: None,
        residual: None,
        activation: Activation::None,
    };

    /// `true` if it is the identity.
    pub(crate) fn is_nothing(&self) -> bool {
        let adds = self.bias.is_some() || self.residual.is_some();
        self.scale.is_none() && !adds && self.activation == Activation::None
    }

    /// Numbers that [`padded`](Epilogue::padded) needs for this many in each list.
    pub(super) const fn room(width: usize) -> usize {
        2 * width
    }

    /// `true` if its lists are those of so many channels or columns, and its residual that of this output.
    pub(super) fn fits<U>(&self, channels: usize, output: &[U]) -> bool {
        let lists = [self.scale, self.bias];
        let lists = lists.into_iter().flatten().all(|l| l.len() == channels);
        lists
            && self
                .residual
                .as_ref()
                .is_none_or(|residual| residual.is_of(output))
    }
}

impl<T> Default for Epilogue<'_, T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<'a, T: Pod> Epilogue<'a, T> {
    /// The epilogue of some of the channels.
    #[inline]
    pub(super) fn channels(self, which: impl SliceIndex<[T], Output = [T]> + Clone) -> Self {
        Epilogue {
            scale: self.scale.map(|scale| &scale[which.clone()]),
            bias: self.bias.map(|bias| &bias[which]),
            ..self
        }
    }

    /// The same, with lists that can be read in full vectors: copies in the halves of `room`, with zeros behind them. Without
    /// room the lists fill full vectors, and stay.
    pub(super) fn padded<'r>(self, room: &'r mut [T]) -> Epilogue<'r, T>
    where
        'a: 'r,
    {
        if room.is_empty() {
            return self;
        }
        let (scales, biases) = room.split_at_mut(room.len() / 2);
        let copied = |list: Option<&[T]>, room| list.map(|list| &*with_zeros(list, room));
        Epilogue {
            scale: copied(self.scale, scales),
            bias: copied(self.bias, biases),
            ..self
        }
    }

    /// The same, of numbers that are `U` under another name.
    ///
    /// # Panics
    /// If `U` has another size.
    pub(super) fn cast<U: Pod>(self) -> Epilogue<'a, U> {
        Epilogue {
            scale: self.scale.map(bytemuck::cast_slice),
            bias: self.bias.map(bytemuck::cast_slice),
            residual: self.residual.map(|residual| Residual {
                values: bytemuck::cast_slice(residual.values),
                output: residual.output,
            }),
            activation: self.activation,
        }
    }
}

/// A copy of `list` at the front of `room`, and zeros.
fn with_zeros<'r, T: Pod>(list: &[T], room: &'r mut [T]) -> &'r mut [T] {
    let (copy, behind) = room.split_at_mut(list.len());
    copy.copy_from_slice(list);
    behind.fill(T::zeroed());
    room
}

impl<'a, T> Epilogue<'a, T> {
    /// The epilogue without what needs the place of an output, and what follows then: [`Epilogue::apply`].
    pub(super) fn split_at_residual(self) -> (Self, Self) {
        if self.residual.is_none() {
            return (self, Self::NONE);
        }
        let first = Epilogue {
            residual: None,
            activation: Activation::None,
            ..self
        };
        let then = Epilogue {
            scale: None,
            bias: None,
            ..self
        };
        (first, then)
    }

    /// `true` if [`Epilogue::end`] follows when outputs are stored: it has more code than each of a tile's registers may
    /// have a copy of.
    #[inline(always)]
    pub(super) fn has_end(&self) -> bool {
        self.residual.is_some() || !self.activation.is_short()
    }
}

impl<T: Wide> Epilogue<'_, T> {
    /// Applies the epilogue to an output of this channel, which has no residual.
    ///
    /// # Panics
    /// If there is a residual.
    pub(super) fn of(&self, channel: usize, y: T) -> T {
        assert!(self.residual.is_none(), "an output without a place");
        let mut y = [y];
        // SAFETY: a vector of a single lane needs no instructions.
        unsafe {
            Lanes(y) = self.begin(channel, 1, Lanes(y));
            self.end::<Lanes<T, 1>>(&mut y);
        }
        y[0]
    }

    /// The activation of vectors before they are stored: none where an [end](Epilogue::end) follows.
    #[inline(always)]
    pub(super) fn before_store(&self) -> Activation {
        match self.has_end() {
            true => Activation::None,
            false => self.activation,
        }
    }

    /// Applies the epilogue but for its [end](Epilogue::end) to the outputs of `count` channels from `first` on, the first
    /// lanes of a vector. They have no residual.
    ///
    /// # Safety
    /// As [`Vector`]; `0 < count <= V::LANES`.
    #[inline(always)]
    pub(super) unsafe fn begin<V: Vector<Elem = T>>(&self, first: usize, count: usize, y: V) -> V {
        debug_assert!(self.residual.is_none());
        // SAFETY: by the caller's promise.
        unsafe {
            let scale = of_channels(self.scale, first, count);
            let bias = of_channels(self.bias, first, count);
            self.activation.apply_short(moved([scale, bias], y))
        }
    }

    /// Adds the residual to outputs that follow each other in memory, and applies the activation, if there is an end.
    ///
    /// # Safety
    /// As [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn end<V: Vector<Elem = T>>(&self, outputs: &mut [T]) {
        if !self.has_end() {
            return;
        }
        let mut at = 0;
        while at < outputs.len() {
            let count = V::LANES.min(outputs.len() - at);
            let to = outputs[at..].as_mut_ptr();
            // SAFETY: there are as many outputs, and as many residuals; the rest is the caller's promise.
            unsafe {
                let mut y = load::<V>(to, count);
                if let Some(residual) = self.residual {
                    y = y.add(load(residual.at(to), count));
                }
                store(self.activation.apply(y), to, count);
            }
            at += V::LANES;
        }
    }
}

impl<T: Vectored> Epilogue<'_, T> {
    /// Applies the epilogue to outputs in place. Their channels are the middle one of three dimensions, of which the
    /// last has `after` numbers.
    pub(super) fn apply(&self, cpu: Cpu<'_>, channels: usize, after: usize, output: &mut [T]) {
        if self.is_nothing() || output.is_empty() {
            return;
        }
        // Pixels with all of their channels, or planes of one channel.
        let line = if after == 1 { channels } else { after };
        let lines = CHUNK.div_ceil(line);
        for_chunks(cpu.pool, output, line * lines, &|i, chunk| {
            let code = ApplyToLines {
                epilogue: self,
                channels,
                plane: (after > 1).then_some(i * lines),
                line,
                chunk,
            };
            run_in_vectors(cpu.isa, code);
        });
    }

    /// Applies the epilogue in place to outputs of one channel.
    pub(super) fn apply_to_plane(&self, isa: Isa, channel: usize, plane: &mut [T]) {
        if self.is_nothing() || plane.is_empty() {
            return;
        }
        let code = ApplyToLines {
            epilogue: self,
            channels: channel + 1,
            plane: Some(channel),
            line: plane.len(),
            chunk: plane,
        };
        run_in_vectors(isa, code);
    }
}

/// Numbers of a task of [`Epilogue::apply`], at least.
const CHUNK: usize = 4096;

/// Lines of an output that an epilogue is applied to.
struct ApplyToLines<'a, T> {
    epilogue: &'a Epilogue<'a, T>,
    channels: usize,
    /// Number of the first plane, where a line is one, of a single channel. Otherwise a line has all channels.
    plane: Option<usize>,
    line: usize,
    chunk: &'a mut [T],
}

impl<T: Vectored> VectorCode<T> for ApplyToLines<'_, T> {
    #[inline(always)]
    unsafe fn run<V: Vector<Elem = T>>(self) {
        let Epilogue { scale, bias, .. } = *self.epilogue;
        let short = self.epilogue.before_store();
        for (i, line) in self.chunk.chunks_exact_mut(self.line).enumerate() {
            let channel = self.plane.map(|plane| (plane + i) % self.channels);
            for (first, part) in line.chunks_mut(V::LANES).enumerate() {
                let (first, count) = (first * V::LANES, part.len());
                let to = part.as_mut_ptr();
                // SAFETY: the part has as many outputs; the rest is the caller's promise.
                unsafe {
                    let (scale, bias) = match channel {
                        Some(channel) => (splat(scale, channel), splat(bias, channel)),
                        None => (
                            of_channels(scale, first, count),
                            of_channels(bias, first, count),
                        ),
                    };
                    let y = moved([scale, bias], load::<V>(to, count));
                    store(short.apply_short(y), to, count);
                }
            }
            // SAFETY: by the caller's promise.
            unsafe { self.epilogue.end::<V>(line) };
        }
    }
}

/// Outputs times their scales, plus their biases.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn moved<V: Vector>([scale, bias]: [Option<V>; 2], mut y: V) -> V {
    // SAFETY: by the caller's promise.
    unsafe {
        if let Some(scale) = scale {
            y = y.mul(scale);
        }
        if let Some(bias) = bias {
            y = y.add(bias);
        }
        y
    }
}

/// The numbers of `count` channels from `first` on, if there is a list. A function in place of `map`: closures that are not
/// inlined are compiled for the baseline.
///
/// # Safety
/// As [`Vector`]; `0 < count <= V::LANES`.
#[inline(always)]
unsafe fn of_channels<V: Vector>(
    list: Option<&[V::Elem]>,
    first: usize,
    count: usize,
) -> Option<V> {
    let list = &list?[first..first + count];
    // SAFETY: the list has as many elements; the rest is the caller's promise.
    Some(unsafe { load(list.as_ptr(), count) })
}

/// The number of a channel in all lanes, if there is a list.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn splat<V: Vector>(list: Option<&[V::Elem]>, channel: usize) -> Option<V> {
    let number = list?[channel];
    // SAFETY: by the caller's promise.
    Some(unsafe { V::splat(number) })
}

/// The first `count` lanes of a vector.
///
/// # Safety
/// As [`Vector`]; `0 < count <= V::LANES`.
#[inline(always)]
unsafe fn load<V: Vector>(from: *const V::Elem, count: usize) -> V {
    // SAFETY: by the caller's promise.
    unsafe {
        match count == V::LANES {
            true => V::load(from),
            false => V::load_first(from, count),
        }
    }
}

/// Stores the first `count` lanes of a vector.
///
/// # Safety
/// As [`Vector`]; `0 < count <= V::LANES`.
#[inline(always)]
unsafe fn store<V: Vector>(y: V, to: *mut V::Elem, count: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        match count == V::LANES {
            true => y.store(to),
            false => y.store_first(to, count),
        }
    }
}
