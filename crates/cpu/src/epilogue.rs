//! Epilogues of GEMMs and convolutions: scale, bias and activation, before a result is stored.

use std::slice::SliceIndex;

use super::Cpu;
use super::number::Number;
use super::scratch::for_chunks;
use super::vector::{Lanes, Vector};
use bytemuck::Pod;

/// A function that is applied to each output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The number itself.
    #[default]
    None,
    /// `max(x, 0)`; NaN stays.
    Relu,
    /// `min(max(x, 0), 6)`; NaN stays.
    Relu6,
}

impl Activation {
    /// All of them.
    pub const ALL: &[Activation] = &[Activation::None, Activation::Relu, Activation::Relu6];

    /// Applies the activation to a vector of any width: this is all there is of its arithmetic.
    ///
    /// # Safety
    /// As [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn apply<V: Vector>(self, x: V) -> V {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Activation::None => x,
                Activation::Relu => x.at_least(V::zero()),
                Activation::Relu6 => {
                    let six = V::splat(V::Elem::from_f64(6.0));
                    x.at_least(V::zero()).at_most(six)
                }
            }
        }
    }
}

/// The operations on each output before it is stored: it is scaled, the bias is added, and then the activation applied.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a, T> {
    /// A factor for each output channel, or column.
    pub scale: Option<&'a [T]>,
    /// The bias of each output channel, or column.
    pub bias: Option<&'a [T]>,
    /// The activation, after the bias.
    pub activation: Activation,
}

impl<T> Epilogue<'_, T> {
    /// The identity.
    pub const NONE: Self = Epilogue {
        scale: None,
        bias: None,
        activation: Activation::None,
    };

    /// `true` if it is the identity.
    pub(crate) fn is_nothing(&self) -> bool {
        self.scale.is_none() && self.bias.is_none() && self.activation == Activation::None
    }

    /// Numbers that [`padded`](Epilogue::padded) needs for this many in each list.
    pub(super) const fn room(width: usize) -> usize {
        2 * width
    }

    /// `true` if its lists are those of so many channels or columns.
    pub(super) fn fits(&self, channels: usize) -> bool {
        let lists = [self.scale, self.bias];
        lists.into_iter().flatten().all(|l| l.len() == channels)
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
            activation: self.activation,
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

impl<T: Number> Epilogue<'_, T> {
    /// Applies the epilogue to an output of this channel.
    #[inline(always)]
    pub(super) fn of(&self, channel: usize, y: T) -> T {
        // SAFETY: a vector of a single lane needs no instructions.
        let Lanes([y]) = unsafe { self.of_lanes(channel, 1, Lanes([y])) };
        y
    }

    /// Applies the epilogue to the outputs of `count` channels from `first` on, the first lanes of a vector.
    ///
    /// # Safety
    /// As [`Vector`]; `0 < count <= V::LANES`.
    #[inline(always)]
    pub(super) unsafe fn of_lanes<V: Vector<Elem = T>>(
        &self,
        first: usize,
        count: usize,
        mut y: V,
    ) -> V {
        let lanes = |list: &[T]| {
            let list = &list[first..first + count];
            // SAFETY: the list has as many elements; the rest is the caller's promise.
            unsafe {
                match count == V::LANES {
                    true => V::load(list.as_ptr()),
                    false => V::load_first(list.as_ptr(), count),
                }
            }
        };
        // SAFETY: by the caller's promise.
        unsafe {
            if let Some(scale) = self.scale {
                y = y.mul(lanes(scale));
            }
            if let Some(bias) = self.bias {
                y = y.add(lanes(bias));
            }
            self.activation.apply(y)
        }
    }

    /// Applies the epilogue to outputs in place. Their channels are the middle one of three dimensions, of which the
    /// last has `after` numbers.
    pub(super) fn apply(&self, cpu: Cpu<'_>, channels: usize, after: usize, output: &mut [T]) {
        if self.is_nothing() || output.is_empty() {
            return;
        }
        for_chunks(cpu.pool, output, channels * after, &|_, image| {
            if after == 1 {
                // Without loops of one step.
                for (channel, y) in image.iter_mut().enumerate() {
                    *y = self.of(channel, *y);
                }
                return;
            }
            for (channel, numbers) in image.chunks_mut(after).enumerate() {
                for y in numbers {
                    *y = self.of(channel, *y);
                }
            }
        });
    }
}

#[cfg(test)]
impl Activation {
    /// Applies the activation by its definition: tests compare with this.
    pub(crate) fn of(self, x: f64) -> f64 {
        match self {
            Activation::None => x,
            Activation::Relu | Activation::Relu6 if x < 0.0 => 0.0,
            Activation::Relu6 if x > 6.0 => 6.0,
            Activation::Relu | Activation::Relu6 => x,
        }
    }
}
