//! AudioSpectrogram, Mfcc: features of sounds.

use std::f64::consts::PI;

use rustfft::FftPlanner;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg_of, attr, bool_attr, float_attr, int_attr};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Shape, Tensor};

use crate::support::shape_inputs::checked_shape;
use crate::support::shapes::expect_scalar;
use crate::support::tensors::AccountedVec;

/// A window of a longer sound takes more memory than a graph may ask for.
const MAX_WINDOW: i64 = 1 << 24;

/// Samples of a window, and between the starts of windows.
fn windows(attrs: &Attrs) -> Result<[usize; 2], InferError> {
    let positive = |attr: &'static str, least: i64| {
        let value = attrs.int(attr);
        match (least..=MAX_WINDOW).contains(&value) {
            true => Ok(value as usize),
            false => Err(InferError::Attr {
                attr,
                reason: format!("{value} is not between {least} and {MAX_WINDOW}"),
            }),
        }
    };
    Ok([positive("window_size", 2)?, positive("stride", 1)?])
}

/// Windows of a sound of so many samples.
fn count(samples: usize, [window, stride]: [usize; 2]) -> usize {
    samples
        .checked_sub(window)
        .map_or(0, |rest| rest / stride + 1)
}

fn spectrogram_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let windows = windows(cx.attrs())?;
    let sound = cx.ranked(0, 2)?;
    let bins = windows[0].next_power_of_two() / 2 + 1;
    let rows = sound.dim(0).map(|samples| count(samples, windows));
    let all = Shape::partial([sound.dim(1), rows, Some(bins)]);
    let shape = checked_shape(0, all)?;
    cx.set(0, shape);
    Ok(())
}

fn spectrogram(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let windows = windows(cx.attrs()).map_err(|e| KernelError::Invalid(e.to_string()))?;
    let &[samples, channels] = cx.tensor(0)?.dims() else {
        return Err(KernelError::Argument("a sound"));
    };
    let [window, stride] = windows;
    let (size, rows) = (window.next_power_of_two(), count(samples, windows));
    let squared = cx.attrs().bool("magnitude_squared");
    let fft = FftPlanner::<f64>::new().plan_fft_forward(size);
    let zero = Complex::new(0.0, 0.0);
    let mut line = AccountedVec::filled(size, zero, cx.memory())?;
    let mut scratch = AccountedVec::filled(fft.get_inplace_scratch_len(), zero, cx.memory())?;
    let hann = |i: usize| 0.5 - 0.5 * (2.0 * PI * i as f64 / window as f64).cos();
    let mut weights = AccountedVec::filled(window, 0.0, cx.memory())?;
    weights
        .iter_mut()
        .enumerate()
        .for_each(|(i, w)| *w = hann(i));
    let sound = cx.slice::<f32>(0)?;
    let bins = size / 2 + 1;
    let mut all = cx.zeros(DType::F32, &[channels, rows, bins])?;
    let mut stop = cx.stop_check();
    for (row, to) in all
        .as_mut_slice::<f32>()?
        .chunks_exact_mut(bins)
        .enumerate()
    {
        stop.tick()?;
        let (channel, start) = (row / rows, row % rows * stride);
        line.fill(zero);
        for (i, (to, weight)) in line.iter_mut().zip(weights.iter()).enumerate() {
            let sample = sound[(start + i) * channels + channel];
            *to = Complex::new(f64::from(sample) * weight, 0.0);
        }
        fft.process_with_scratch(&mut line, &mut scratch);
        for (to, x) in to.iter_mut().zip(line.iter()) {
            let power = x.norm_sqr() as f32;
            *to = if squared { power } else { power.sqrt() };
        }
    }
    Ok(vec![all])
}

/// The spectra of windows of a sound.
pub(crate) static AUDIO_SPECTROGRAM: Op = Op {
    def: OpDef {
        name: "AudioSpectrogram",
        summary: "The magnitudes of the frequencies of each window of each channel of a sound.",
        inputs: &[arg_of("input", DType::F32)],
        outputs: &[arg_of("spectrogram", DType::F32)],
        attrs: &[
            attr("window_size", AttrKind::Int),
            attr("stride", AttrKind::Int),
            bool_attr("magnitude_squared", false),
        ],
        shape: spectrogram_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(spectrogram)],
};

/// A frequency on the mel scale.
fn mel(frequency: f64) -> f64 {
    1127.0 * (frequency / 700.0).ln_1p()
}

/// Triangles on the mel scale that weigh the bins of a spectrum.
struct MelFilters {
    first: usize,
    last: usize,
    /// The channel on whose downward slope a bin is, and its weight there.
    bins: Vec<(Option<usize>, f64)>,
    channels: usize,
}

impl MelFilters {
    fn new(attrs: &Attrs, bins: usize, rate: f64) -> Result<MelFilters, KernelError> {
        let (low, high) = (
            f64::from(attrs.float("lower_frequency_limit")),
            f64::from(attrs.float("upper_frequency_limit")),
        );
        let channels = usize::try_from(attrs.int("filterbank_channel_count")).unwrap_or(0);
        let sound = channels > 0 && rate > 0.0 && bins > 1 && low >= 0.0 && high > low;
        if !sound || channels > MAX_WINDOW as usize {
            return Err(KernelError::Invalid(format!(
                "Mel filterbank initialization failed: {channels} channels from {low} to {high} Hz, {bins} bins at {rate} Hz"
            )));
        }
        let lowest = mel(low);
        let spacing = (mel(high) - lowest) / (channels + 1) as f64;
        let center = |channel: usize| lowest + spacing * (channel + 1) as f64;
        let width = 0.5 * rate / (bins - 1) as f64;
        let first = (1.5 + low / width) as usize;
        let last = (high / width) as usize;
        let mut channel = 0;
        let mut all = Vec::with_capacity(bins);
        for i in 0..bins {
            let at = mel(i as f64 * width);
            if !(first..=last).contains(&i) {
                all.push((None, 0.0));
                continue;
            }
            while channel < channels && center(channel) < at {
                channel += 1;
            }
            all.push(match channel.checked_sub(1) {
                Some(own) => {
                    let slope = center(own + 1) - center(own);
                    (Some(own), (center(own + 1) - at) / slope)
                }
                None => (None, (center(0) - at) / (center(0) - lowest)),
            });
        }
        Ok(MelFilters {
            first,
            last,
            bins: all,
            channels,
        })
    }

    /// Logarithms of the energies of a spectrum of squared magnitudes.
    fn logarithms(&self, spectrum: &[f32], to: &mut [f64]) {
        const FLOOR: f64 = 1e-12;
        to.fill(0.0);
        let bins = self.bins.iter().zip(spectrum).take(self.last + 1);
        for (&(channel, weight), &energy) in bins.skip(self.first) {
            let value = f64::from(energy).sqrt();
            let weighted = value * weight;
            if let Some(channel) = channel {
                to[channel] += weighted;
            }
            let next = channel.map_or(0, |channel| channel + 1);
            if next < self.channels {
                to[next] += value - weighted;
            }
        }
        to.iter_mut().for_each(|x| *x = x.max(FLOOR).ln());
    }
}

fn mfcc(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let &[channels, rows, bins] = cx.tensor(0)?.dims() else {
        return Err(KernelError::Argument("a spectrogram"));
    };
    if cx.tensor(0)?.is_empty() {
        let count = usize::try_from(cx.attrs().int("dct_coefficient_count")).unwrap_or(0);
        return Ok(vec![cx.zeros(DType::F32, &[channels, rows, count])?]);
    }
    let filters = MelFilters::new(cx.attrs(), bins, cx.int(1)? as f64)?;
    if filters.last >= bins {
        return Err(KernelError::Invalid(format!(
            "Input too short to compute filterbank: {bins} bins do not reach upper_frequency_limit"
        )));
    }
    let count = cx.attrs().int("dct_coefficient_count");
    let count = usize::try_from(count)
        .ok()
        .filter(|n| (1..=filters.channels).contains(n));
    let count = count.ok_or_else(|| {
        KernelError::Invalid(format!(
            "Coefficient count must be positive, and less than or equal to filterbank_channel_count, {}",
            filters.channels
        ))
    })?;
    let scale = (2.0 / filters.channels as f64).sqrt();
    let angle = PI / filters.channels as f64;
    let mut energies = AccountedVec::filled(filters.channels, 0.0, cx.memory())?;
    let mut all = cx.zeros(DType::F32, &[channels, rows, count])?;
    let (mut stop, spectra) = (cx.stop_check(), cx.slice::<f32>(0)?.chunks_exact(bins));
    for (to, spectrum) in all
        .as_mut_slice::<f32>()?
        .chunks_exact_mut(count)
        .zip(spectra)
    {
        filters.logarithms(spectrum, &mut energies);
        for (i, to) in to.iter_mut().enumerate() {
            stop.tick()?;
            let cosine = |j: usize| scale * (i as f64 * angle * (j as f64 + 0.5)).cos();
            let terms = energies.iter().enumerate().map(|(j, e)| cosine(j) * e);
            *to = terms.sum::<f64>() as f32;
        }
    }
    Ok(vec![all])
}

/// Coefficients that tell sounds of speech apart.
pub(crate) static MFCC: Op = Op {
    def: OpDef {
        name: "Mfcc",
        summary: "The first cosine coefficients of the logarithms of a spectrogram's energies on the mel scale.",
        inputs: &[
            arg_of("spectrogram", DType::F32),
            arg_of("sample_rate", DType::I32),
        ],
        outputs: &[arg_of("output", DType::F32)],
        attrs: &[
            float_attr("upper_frequency_limit", 4000.0),
            float_attr("lower_frequency_limit", 20.0),
            int_attr("filterbank_channel_count", 40),
            int_attr("dct_coefficient_count", 13),
        ],
        shape: |cx| {
            let spectra = cx.ranked(0, 3)?;
            expect_scalar(cx, 1)?;
            let count = usize::try_from(cx.attrs().int("dct_coefficient_count")).ok();
            let all = Shape::partial([spectra.dim(0), spectra.dim(1), count]);
            let shape = checked_shape(0, all)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(mfcc)],
};
