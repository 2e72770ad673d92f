//! AudioSummary, AudioSummaryV2: sounds as WAV files in serialized `Summary` messages.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Allowed, AttrDef, Gradient, arg_of, attr, int_attr};
use thalweg_graph::{AttrKind, Infer, InferError};
use thalweg_tensor::{DType, Tensor};

use super::summary::{SUMMARY, tag};
use super::wire::{Message, TAG, VALUE};
use crate::support::shapes::{expect_scalar, scalar};

/// Field `audio` of a `Summary.Value`.
const AUDIO_FIELD: u32 = 6;
/// Bytes of a WAV file before its samples.
const HEADER_BYTES: u32 = 44;
/// Value of a sample of 1.0: samples have 16 bits.
const FULL_SCALE: f32 = 32768.0;

const MAX_OUTPUTS: AttrDef = AttrDef {
    allowed: Allowed::AtLeast(1),
    ..int_attr("max_outputs", 3)
};

/// Summary of sounds, with the sample rate as an attribute.
pub(crate) static AUDIO: Op = Op {
    def: OpDef {
        name: "AudioSummary",
        summary: "A serialized summary with sounds of [batch, frames] or [batch, frames, channels] samples from -1 to 1.",
        inputs: &[arg_of("tag", DType::String), arg_of("tensor", DType::F32)],
        outputs: SUMMARY,
        attrs: &[attr("sample_rate", AttrKind::Float), MAX_OUTPUTS],
        shape: sounds_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let rate = cx.attrs().float("sample_rate");
        sounds(cx, rate)
    })],
};

/// Summary of sounds.
pub(crate) static AUDIO_V2: Op = Op {
    def: OpDef {
        name: "AudioSummaryV2",
        summary: "A serialized summary with sounds of [batch, frames] or [batch, frames, channels] samples from -1 to 1.",
        inputs: &[
            arg_of("tag", DType::String),
            arg_of("tensor", DType::F32),
            arg_of("sample_rate", DType::F32),
        ],
        outputs: SUMMARY,
        attrs: &[MAX_OUTPUTS],
        shape: |cx| {
            expect_scalar(cx, 2)?;
            sounds_shape(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let rate = cx.tensor(2)?.to_scalar::<f32>()?;
        sounds(cx, rate)
    })],
};

fn sounds_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 0)?;
    if cx.shape(1).rank().is_some_and(|rank| rank != 2) {
        cx.ranked(1, 3)?;
    }
    scalar(cx)
}

/// A summary of the first sounds, tagged `TAG/audio`, or `TAG/audio/0` and so on if there may be several.
fn sounds(cx: &TensorCx<'_>, rate: f32) -> Result<Vec<Tensor>, KernelError> {
    let tensor = cx.tensor(1)?;
    let (batch, frames, channels) = match *tensor.dims() {
        [batch, frames] => (batch, frames, 1),
        [batch, frames, channels] => (batch, frames, channels),
        _ => return Err(KernelError::Argument("sounds of 2 or 3 dimensions")),
    };
    let bytes = wav_bytes(frames, channels)?;
    if !(rate > 0.0 && rate <= u32::MAX as f32 / (2.0 * channels as f32)) {
        return Err(KernelError::Invalid(format!(
            "{rate} is no sample rate: it is the number of frames in a second"
        )));
    }
    let most = usize::try_from(cx.attrs().int("max_outputs")).unwrap_or(0);
    let (tag, samples) = (tag(cx)?, tensor.as_slice::<f32>()?);
    let each = frames * channels;
    let mut summary = Message::default();
    for sound in 0..batch.min(most) {
        let samples = &samples[sound * each..][..each];
        let suffix = match most {
            1 => "/audio".to_owned(),
            _ => format!("/audio/{sound}"),
        };
        let file = wav(samples, (rate.round_ties_even() as u32, channels), bytes);
        let audio = Message::default()
            .float(1, rate)
            .int(2, channels as u64)
            .int(3, frames as u64)
            .bytes(4, &file)
            .bytes(5, b"audio/wav");
        let value = Message::default().bytes(TAG, &[tag, suffix.as_bytes()].concat());
        summary = summary.bytes(VALUE, &value.bytes(AUDIO_FIELD, &audio.0).0);
    }
    Ok(vec![cx.strings_of(&[], [summary.0])?])
}

/// Bytes of the samples of a WAV file.
pub(super) fn wav_bytes(frames: usize, channels: usize) -> Result<u32, KernelError> {
    let bytes = frames.checked_mul(channels).and_then(|n| n.checked_mul(2));
    let bytes = bytes.and_then(|n| u32::try_from(n).ok());
    let bytes = bytes.filter(|n| n.checked_add(HEADER_BYTES).is_some());
    match (bytes, channels) {
        (Some(bytes), 1..=65_535) => Ok(bytes),
        _ => Err(KernelError::Invalid(format!(
            "{frames} frames of {channels} channels are no WAV file: it has 1 to 65,535 channels and less than 4 GiB"
        ))),
    }
}

/// A WAV file of samples of 16 bits; a sample beyond -1 and 1 is clipped, as in TensorFlow's `wav_io.cc`.
pub(super) fn wav(samples: &[f32], (rate, channels): (u32, usize), bytes: u32) -> Vec<u8> {
    let frame = 2 * channels as u32;
    let mut file = Vec::with_capacity(HEADER_BYTES as usize + bytes as usize);
    file.extend(b"RIFF");
    file.extend((HEADER_BYTES - 8 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    file.extend(1u16.to_le_bytes());
    file.extend((channels as u16).to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend(rate.saturating_mul(frame).to_le_bytes());
    file.extend((frame as u16).to_le_bytes());
    file.extend(16u16.to_le_bytes());
    file.extend(b"data");
    file.extend(bytes.to_le_bytes());
    // A conversion of floats to integers saturates.
    let sample = |x: &f32| ((x * FULL_SCALE).round() as i16).to_le_bytes();
    file.extend(samples.iter().flat_map(sample));
    file
}
