//! Two-dimensional convolutions: forward, and the gradients to the input and to the filter.
//!
//! All are products through register tiles. A filter of one pixel, without padding, makes products of matrices
//! (`pointwise`), but for its gradient where that is small; some others take fewer multiplications between what tiles and
//! filter become at a few points (`winograd`). Gradients to few channels, or through a filter as wide as the image, add up
//! patches (`patches`). The rest have an offset per filter tap: a matrix of patches is never
//! written. There what pixels see is copied with padding written out and channels last, so that a pixel and its neighbour are a
//! fixed distance apart: by tasks, a band of lines at a time that fits the second-level cache, where the filter fits it
//! too (`band`); where it does not, once, unless the images lie so already, and tasks go along the filter in blocks
//! (`swept`). A layout with channels first differs in how images are copied in and out.
//!
//! ```
//! use thalweg_cpu::conv::{ConvGeometry, conv2d, conv2d_scratch};
//! use thalweg_cpu::{Cpu, Epilogue, Isa, Layout, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // An image of 3 x 3 pixels, a filter of 2 x 2, and one channel.
//! let g = ConvGeometry {
//!     batch: 1, in_h: 3, in_w: 3, in_c: 1,
//!     out_h: 2, out_w: 2, out_c: 1,
//!     k_h: 2, k_w: 2, stride: [1, 1], dilation: [1, 1],
//!     pad_top: 0, pad_left: 0, layout: Layout::Nhwc,
//! };
//! let image = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
//! let (filter, mut y) = ([1.0f32; 4], [0.0; 4]);
//! let mut scratch = vec![0; conv2d_scratch::<f32>(cpu.isa, pool.threads(), &g)];
//! conv2d(cpu, &g, &image, filter[..].into(), Epilogue::NONE, &mut y, &mut scratch);
//! assert_eq!(y, [12.0, 16.0, 24.0, 28.0]);
//! ```

mod algorithm;
mod band;
mod cache_blocked;
mod filter;
mod filter_grad;
mod forward;
mod geometry;
mod input_grad;
mod partial_sums;
mod patches;
mod pointwise;
#[cfg(test)]
pub(crate) mod tests;
mod winograd;

pub use filter::{Filter, Packing};
pub use filter_grad::{conv2d_filter_grad, conv2d_filter_grad_scratch};
pub use forward::{conv2d, conv2d_pack, conv2d_packing, conv2d_scratch};
pub use geometry::{ConvGeometry, Pass, Real};
pub use input_grad::{conv2d_input_grad, conv2d_input_grad_scratch};
