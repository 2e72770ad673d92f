//! What follows a product or a convolution before its result is stored.

use super::Cpu;
use super::scratch::for_chunks;
use bytemuck::Pod;

/// What is done to each output before it is stored: `max(x + bias, 0)`, or a part of that.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a, T> {
    /// One number for each output channel, or column.
    pub bias: Option<&'a [T]>,
    /// Whether numbers below zero become zero; NaN stays.
    pub relu: bool,
}

impl<T> Default for Epilogue<'_, T> {
    fn default() -> Self {
        Epilogue {
            bias: None,
            relu: false,
        }
    }
}

impl<T> Epilogue<'_, T> {
    /// Whether nothing is done.
    pub fn is_nothing(&self) -> bool {
        self.bias.is_none() && !self.relu
    }
}

impl<T: Pod + Send + Sync + PartialOrd + std::ops::AddAssign> Epilogue<'_, T> {
    /// What an output of this channel becomes.
    pub(super) fn of(&self, channel: usize, mut y: T) -> T {
        if let Some(bias) = self.bias {
            y += bias[channel];
        }
        if self.relu && y < T::zeroed() {
            y = T::zeroed();
        }
        y
    }

    /// Does it to outputs that are there. Their channels are the middle one of three dimensions, of which the last has
    /// `after` numbers.
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
