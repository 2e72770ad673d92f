//! DecodeWav, EncodeWav: sounds as WAV files of 16-bit samples.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg_of, int_attr};
use thalweg_tensor::{DType, Shape, Tensor};

use super::audio::{wav, wav_bytes};
use crate::support::shape_inputs::checked_shape;
use crate::support::shapes::{expect_scalar, scalar};

/// One divided by the value of a sample of 1.0.
const STEP: f32 = 1.0 / 32768.0;

/// The sound of a file.
struct Wav<'a> {
    channels: usize,
    rate: i32,
    /// Samples of two bytes.
    data: &'a [u8],
}

fn bad(text: String) -> KernelError {
    KernelError::Invalid(text)
}

/// The first bytes of a file, and the rest.
fn take<'a>(file: &mut &'a [u8], count: usize, what: &str) -> Result<&'a [u8], KernelError> {
    let (taken, rest) = file
        .split_at_checked(count)
        .ok_or_else(|| bad(format!("Data too short when trying to read {what}")))?;
    *file = rest;
    Ok(taken)
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |all, &byte| all << 8 | u32::from(byte))
}

fn expect(file: &mut &[u8], text: &str) -> Result<(), KernelError> {
    let found = take(file, text.len(), text)?;
    match found == text.as_bytes() {
        true => Ok(()),
        false => Err(bad(format!(
            "Header mismatch: Expected {text} but found {}",
            found.escape_ascii()
        ))),
    }
}

impl<'a> Wav<'a> {
    fn of(mut file: &'a [u8]) -> Result<Wav<'a>, KernelError> {
        let file = &mut file;
        expect(file, "RIFF")?;
        take(file, 4, "the size")?;
        expect(file, "WAVE")?;
        expect(file, "fmt ")?;
        let size = number(take(file, 4, "the size of the format")?);
        if size != 16 && size != 18 {
            return Err(bad(format!(
                "Bad format chunk size for WAV: Expected 16 or 18, but got {size}"
            )));
        }
        let format = number(take(file, 2, "the format")?);
        let channels = number(take(file, 2, "the channels")?) as usize;
        let rate = number(take(file, 4, "the rate")?);
        take(file, 4, "the bytes of a second")?;
        let frame = number(take(file, 2, "the bytes of a frame")?) as usize;
        let bits = number(take(file, 2, "the bits of a sample")?);
        if size == 18 {
            take(file, 2, "the size of an extension")?;
        }
        if format != 1 {
            return Err(bad(format!(
                "Bad audio format for WAV: Expected 1 (PCM), but got {format}"
            )));
        }
        if bits != 16 {
            return Err(bad(format!(
                "Can only read 16-bit WAV files, but received {bits}"
            )));
        }
        if channels == 0 || frame != 2 * channels {
            return Err(bad(format!(
                "Bad bytes per sample in WAV header: {frame} for {channels} channels"
            )));
        }
        let rate = i32::try_from(rate).map_err(|_| bad(format!("{rate} is no sample rate")))?;
        while !file.is_empty() {
            let name = take(file, 4, "the name of a chunk")?;
            let size = number(take(file, 4, "the size of a chunk")?) as usize;
            if name == b"data" {
                let data = take(file, size / frame * frame, "the samples")?;
                return Ok(Wav {
                    channels,
                    rate,
                    data,
                });
            }
            take(file, size, "a chunk")?;
        }
        Err(bad("No data chunk found in WAV".to_owned()))
    }
}

fn decode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let Some(file) = cx.strings(0)?.only() else {
        return Err(bad("contents must be one string".to_owned()));
    };
    let sound = Wav::of(file)?;
    let wanted = |attr: &str, own: usize| usize::try_from(cx.attrs().int(attr)).unwrap_or(own);
    let found = sound.data.len() / (2 * sound.channels);
    let channels = wanted("desired_channels", sound.channels);
    let samples = wanted("desired_samples", found);
    let mut audio = cx.zeros(DType::F32, &[samples, channels])?;
    let (frames, mut stop) = (sound.data.chunks_exact(2 * sound.channels), cx.stop_check());
    let to = audio.as_mut_slice::<f32>()?;
    for (to, frame) in to.chunks_exact_mut(channels.max(1)).zip(frames) {
        for (channel, to) in to.iter_mut().enumerate() {
            stop.tick()?;
            // The last channel stands for those that a file does not have.
            let from = 2 * channel.min(sound.channels - 1);
            let sample = i16::from_le_bytes([frame[from], frame[from + 1]]);
            *to = f32::from(sample) * STEP;
        }
    }
    Ok(vec![audio, Tensor::scalar(sound.rate)])
}

/// A sound of a WAV file.
pub(crate) static DECODE_WAV: Op = Op {
    def: OpDef {
        name: "DecodeWav",
        summary: "The samples of a WAV file, from -1 to 1, and how many there are in a second.",
        inputs: &[arg_of("contents", DType::String)],
        outputs: &[
            arg_of("audio", DType::F32),
            arg_of("sample_rate", DType::I32),
        ],
        attrs: &[
            int_attr("desired_channels", -1),
            int_attr("desired_samples", -1),
        ],
        shape: |cx| {
            expect_scalar(cx, 0)?;
            let wanted = |attr: &str| usize::try_from(cx.attrs().int(attr)).ok();
            let all = Shape::partial([wanted("desired_samples"), wanted("desired_channels")]);
            let shape = checked_shape(0, all)?;
            cx.set(0, shape);
            cx.set(1, Shape::scalar());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode)],
};

fn encode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (&[frames, channels], rate) = (cx.tensor(0)?.dims(), cx.int(1)?) else {
        return Err(KernelError::Argument("a sound"));
    };
    let rate = u32::try_from(rate).ok().filter(|&rate| rate > 0);
    let rate = rate.ok_or_else(|| bad("sample_rate must be positive".to_owned()))?;
    let bytes = wav_bytes(frames, channels)?;
    let file = wav(cx.slice::<f32>(0)?, (rate, channels), bytes);
    Ok(vec![cx.strings_of(&[], [file])?])
}

/// A sound as a WAV file.
pub(crate) static ENCODE_WAV: Op = Op {
    def: OpDef {
        name: "EncodeWav",
        summary: "A sound of [frames, channels] samples from -1 to 1 as a WAV file.",
        inputs: &[
            arg_of("audio", DType::F32),
            arg_of("sample_rate", DType::I32),
        ],
        outputs: &[arg_of("contents", DType::String)],
        shape: |cx| {
            cx.ranked(0, 2)?;
            expect_scalar(cx, 1)?;
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(encode)],
};
