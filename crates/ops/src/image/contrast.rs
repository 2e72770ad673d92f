//! AdjustContrast: contrast with limits, as in TensorFlow's first graphs.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, Tensor, dispatch};

use super::images::at_least;
use crate::support::shapes::expect_scalar;

fn adjust<T: Number>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (x, images) = (cx.slice::<T>(0)?, cx.tensor(0)?);
    let [factor, low, high] =
        [1, 2, 3].map(|i| cx.tensor(i).and_then(|t| Ok(t.to_scalar::<f32>()?)));
    let (factor, low, high) = (factor?, low?, high?);
    let [.., height, width, channels] = *images.dims() else {
        return Err(KernelError::Argument("images"));
    };
    let mut out = cx.zeros(DType::F32, images.dims())?;
    let (pixels, mut stop) = (height.saturating_mul(width), cx.stop_check());
    let size = pixels.saturating_mul(channels).max(1);
    let to = out.as_mut_slice::<f32>()?.chunks_exact_mut(size);
    for (x, to) in x.chunks_exact(size).zip(to) {
        for channel in 0..channels {
            stop.tick()?;
            let own = x.iter().skip(channel).step_by(channels);
            let mean = own.map(|x| x.to_f64()).sum::<f64>() / pixels as f64;
            let to = to.iter_mut().skip(channel).step_by(channels);
            let own = x.iter().skip(channel).step_by(channels);
            for (to, x) in to.zip(own) {
                let mean = mean as f32;
                let moved = (x.to_f64() as f32 - mean) * factor + mean;
                *to = moved.max(low).min(high);
            }
        }
    }
    Ok(vec![out])
}

/// Multiplies the contrast.
pub(crate) static ADJUST_CONTRAST_V1: Op = Op {
    def: OpDef {
        name: "AdjustContrast",
        summary: "Each number moved away from the mean of its image's channel by a factor, to within limits.",
        inputs: &[
            arg("images", "T"),
            arg_of("contrast_factor", DType::F32),
            arg_of("min_value", DType::F32),
            arg_of("max_value", DType::F32),
        ],
        outputs: &[arg_of("output", DType::F32)],
        attrs: &[type_attr(
            "T",
            &[
                DType::U8,
                DType::I8,
                DType::I16,
                DType::I32,
                DType::I64,
                DType::F32,
                DType::F64,
            ],
        )],
        shape: |cx| {
            let images = at_least(cx, 0, 3)?;
            (1..4).try_for_each(|i| expect_scalar(cx, i))?;
            cx.set(0, images);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, NUMBERS, T => adjust::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};
