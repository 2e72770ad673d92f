//! Numeric kernels on slices, for CPUs. This crate knows no op, no graph and no tensor of a graph.
//!
//! Every function takes what it needs by argument: a [`Cpu`] (threads and instruction set), shapes, slices, and, where
//! it needs memory of its own, a scratch slice whose length a function named `*_scratch` returns. None of them
//! allocates. The terms of sums, and their order, follow from the shapes alone, so results are the same bit for bit on
//! any number of threads. They may differ in the last bits between instruction sets, which fuse and group differently.
//!
//! Slices whose lengths do not fit the shapes given with them are a mistake of the caller, not of a user: they panic.
//!
//! A ReLU after a GEMM, on two threads:
//!
//! ```
//! use thalweg_cpu::gemm::{Gemm, gemm, gemm_scratch};
//! use thalweg_cpu::{Activation, Cpu, Epilogue, Isa, ThreadPool};
//!
//! let pool = ThreadPool::new(2);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! let shape = Gemm { m: 1, n: 2, k: 2, transpose_a: false, transpose_b: false };
//! let epilogue =
//!     Epilogue { bias: Some(&[0.5f32, 0.5]), activation: Activation::Relu, ..Epilogue::NONE };
//!
//! let (a, b, mut c) = ([1.0f32, 2.0], [1.0, -3.0, 1.0, -3.0], [0.0; 2]);
//! let mut scratch = vec![0; gemm_scratch::<f32>(cpu.isa, pool.threads(), &shape)];
//! gemm(cpu, &shape, [&a, &b], None, epilogue, &mut c, &mut scratch);
//! assert_eq!(c, [3.5, 0.0]);
//! ```

mod activation;
pub mod batch_norm;
pub mod centroids;
pub mod conv;
pub mod conv3d;
mod cpu;
pub mod depthwise;
mod epilogue;
pub mod gemm;
pub mod gram;
mod halves;
pub mod isa;
mod layout;
pub mod linalg;
pub mod lrn;
mod micro_kernel;
pub mod number;
pub mod parallel;
pub mod pooling;
pub mod pooling3d;
pub mod qr;
pub mod scratch;
pub mod shares;
pub mod special;
pub mod thread_pool;
pub mod transpose;
mod vector;
pub mod window_axis;

pub use activation::Activation;
pub use cpu::Cpu;
pub use epilogue::{Epilogue, Residual};
pub use halves::{narrow_f16, widen_f16};
pub use isa::{Isa, Vectorize, Writer};
pub use layout::Layout;
pub use micro_kernel::Tiled;
pub use scratch::Scratch;
pub use thread_pool::ThreadPool;
pub use vector::Vectored;
