//! FFT, IFFT, RFFT and IRFFT in one to three dimensions.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::Gradient;
use thalweg_tensor::DType;

use super::define::{complex_op, complex_shape, real_op, real_shape};
use super::gradient::{complex_gradient, forward_gradient, inverse_gradient};
use super::transform::{complex, forward, inverse};

/// Transform of complex numbers over the last `RANK` dimensions.
const fn complex_transform<const RANK: usize, const FORWARD: bool>(
    name: &'static str,
    summary: &'static str,
) -> Op {
    Op {
        def: complex_op(
            name,
            summary,
            complex_shape::<RANK>,
            Gradient::Rule(complex_gradient::<RANK, FORWARD>),
        ),
        kernels: const { &[cpu(complex_kernel::<RANK, FORWARD>)] },
    }
}

fn complex_kernel<const RANK: usize, const FORWARD: bool>(
    p: &Prepare<'_>,
) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::C64 => complex::<f32>(p, RANK, FORWARD),
        DType::C128 => complex::<f64>(p, RANK, FORWARD),
        other => Err(KernelError::DType(other)),
    }
}

/// Transform of real numbers over the last `RANK` dimensions.
const fn real_transform<const RANK: usize>(name: &'static str, summary: &'static str) -> Op {
    Op {
        def: OpDef {
            gradient: Gradient::Rule(forward_gradient::<RANK>),
            ..real_op(name, summary, true, real_shape::<RANK, true>)
        },
        kernels: const {
            &[cpu(|p| match p.dtype(0) {
                DType::F32 => forward::<f32>(p),
                DType::F64 => forward::<f64>(p),
                other => Err(KernelError::DType(other)),
            })]
        },
    }
}

/// Transform to real numbers over the last `RANK` dimensions.
const fn transform_to_real<const RANK: usize>(name: &'static str, summary: &'static str) -> Op {
    Op {
        def: OpDef {
            gradient: Gradient::Rule(inverse_gradient::<RANK>),
            ..real_op(name, summary, false, real_shape::<RANK, false>)
        },
        kernels: const {
            &[cpu(|p| match p.dtype(0) {
                DType::C64 => inverse::<f32>(p),
                DType::C128 => inverse::<f64>(p),
                other => Err(KernelError::DType(other)),
            })]
        },
    }
}

/// Fourier transform.
pub(crate) static FFT: Op = complex_transform::<1, true>(
    "FFT",
    "The discrete Fourier transform along the last dimension.",
);

/// Inverse Fourier transform.
pub(crate) static IFFT: Op = complex_transform::<1, false>(
    "IFFT",
    "The inverse discrete Fourier transform along the last dimension.",
);

/// Fourier transform in two dimensions.
pub(crate) static FFT_2D: Op = complex_transform::<2, true>(
    "FFT2D",
    "The discrete Fourier transform along the last two dimensions.",
);

/// Inverse Fourier transform in two dimensions.
pub(crate) static IFFT_2D: Op = complex_transform::<2, false>(
    "IFFT2D",
    "The inverse discrete Fourier transform along the last two dimensions.",
);

/// Fourier transform in three dimensions.
pub(crate) static FFT_3D: Op = complex_transform::<3, true>(
    "FFT3D",
    "The discrete Fourier transform along the last three dimensions.",
);

/// Inverse Fourier transform in three dimensions.
pub(crate) static IFFT_3D: Op = complex_transform::<3, false>(
    "IFFT3D",
    "The inverse discrete Fourier transform along the last three dimensions.",
);

/// Fourier transform of real numbers.
pub(crate) static RFFT: Op = real_transform::<1>(
    "RFFT",
    "The discrete Fourier transform of real numbers along the last dimension, cut to a length: the half of it that tells the other.",
);

/// Inverse Fourier transform to real numbers.
pub(crate) static IRFFT: Op = transform_to_real::<1>(
    "IRFFT",
    "The real numbers of a length whose half spectrum is along the last dimension.",
);

/// Fourier transform of real numbers in two dimensions.
pub(crate) static RFFT_2D: Op = real_transform::<2>(
    "RFFT2D",
    "The discrete Fourier transform of real numbers along the last two dimensions, cut to lengths: the half of it that tells the other.",
);

/// Inverse Fourier transform to real numbers in two dimensions.
pub(crate) static IRFFT_2D: Op = transform_to_real::<2>(
    "IRFFT2D",
    "The real numbers of two lengths whose half spectrum is along the last two dimensions.",
);

/// Fourier transform of real numbers in three dimensions.
pub(crate) static RFFT_3D: Op = real_transform::<3>(
    "RFFT3D",
    "The discrete Fourier transform of real numbers along the last three dimensions, cut to lengths: the half of it that tells the other.",
);

/// Inverse Fourier transform to real numbers in three dimensions.
pub(crate) static IRFFT_3D: Op = transform_to_real::<3>(
    "IRFFT3D",
    "The real numbers of three lengths whose half spectrum is along the last three dimensions.",
);
