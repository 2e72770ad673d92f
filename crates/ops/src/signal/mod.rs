//! Fourier transforms, and features of sounds.

mod define;
mod fft;
mod gradient;
mod plan;
mod spectrogram;
mod transform;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &fft::FFT,
    &fft::IFFT,
    &fft::FFT_2D,
    &fft::IFFT_2D,
    &fft::FFT_3D,
    &fft::IFFT_3D,
    &fft::RFFT,
    &fft::IRFFT,
    &fft::RFFT_2D,
    &fft::IRFFT_2D,
    &fft::RFFT_3D,
    &fft::IRFFT_3D,
    &spectrogram::AUDIO_SPECTROGRAM,
    &spectrogram::MFCC,
];
