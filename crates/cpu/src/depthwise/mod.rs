//! Depthwise convolution: every input channel has filters of its own, and as many output channels.
//!
//! With channels last, those of a pixel are summed in vectors, over all taps. With channels first, a line is added for
//! each tap. An input channel with several filters is repeated for each of them.
//!
//! ```
//! use thalweg_cpu::conv::ConvGeometry;
//! use thalweg_cpu::depthwise::depthwise;
//! use thalweg_cpu::{Cpu, Epilogue, Isa, Layout, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // An image of 2 x 2 pixels with two channels, which one filter of 2 x 2 for each channel covers.
//! let g = ConvGeometry {
//!     batch: 1, in_h: 2, in_w: 2, in_c: 2,
//!     out_h: 1, out_w: 1, out_c: 2,
//!     k_h: 2, k_w: 2, stride: [1, 1], dilation: [1, 1],
//!     pad_top: 0, pad_left: 0, layout: Layout::Nhwc,
//! };
//! let image = [1.0f32, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0];
//! let (filters, mut y) = ([1.0f32; 8], [0.0; 2]);
//! depthwise(cpu, &g, [&image, &filters], Epilogue::NONE, &mut y, &mut []);
//! assert_eq!(y, [10.0, 100.0]);
//! ```

mod axis;
mod channels_first;
mod channels_last;
mod filter;
mod gather;
mod multiplier;
#[cfg(test)]
mod tests;

pub use filter::{depthwise_filter_grad, depthwise_filter_grad_scratch};
pub use gather::{depthwise, depthwise_input_grad, depthwise_scratch};
