//! CPU kernels of batch normalization.

use thalweg_cpu::Scratch;
use thalweg_cpu::batch_norm::{Channels, Moments, Products, apply, moments, sums, to_columns};
use thalweg_device::{InOut, KernelError, Prepare, Prepared};
use thalweg_tensor::DType;
use thalweg_tensor::shape::elements;

use super::attributes::{FACTOR, axis_of};
use super::side_and_activation::NormEpilogue;
use crate::support::cpu::slice_cpu;
use crate::support::widened::widened;

/// View of the images as `[before, channels, after]`.
pub(super) fn view(p: &Prepare<'_>) -> Result<Channels, KernelError> {
    let (dims, (axis, rank)) = (p.dims(0), axis_of(&p.node.attrs));
    if dims.len() != rank {
        return Err(KernelError::Argument("images"));
    }
    // Without elements: the product of the other lengths could overflow.
    if dims.contains(&0) {
        return Ok(Channels {
            before: 0,
            channels: dims[axis],
            after: 1,
        });
    }
    Ok(Channels {
        before: elements(&dims[..axis]),
        channels: dims[axis],
        after: elements(&dims[axis + 1..]),
    })
}

pub(super) fn forward(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    widened(p, &[0], &[0], &|p| match p.dtype(0) {
        DType::F32 => forward_kernel(p, NormEpilogue::NONE),
        other => Err(KernelError::DType(other)),
    })
}

/// Kernel with the epilogue of the node.
pub(super) fn with_epilogue(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::F32 => forward_kernel(p, NormEpilogue::of(&p.node.attrs)?),
        other => Err(KernelError::DType(other)),
    }
}

pub(super) fn backward(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    widened(p, &[0, 1], &[0], &|p| match p.dtype(0) {
        DType::F32 => gradient_kernel(p),
        other => Err(KernelError::DType(other)),
    })
}

fn forward_kernel(p: &Prepare<'_>, epilogue: NormEpilogue) -> Result<Prepared, KernelError> {
    let g = view(p)?;
    let attrs = &p.node.attrs;
    let (epsilon, factor) = (attrs.float("epsilon"), attrs.float(FACTOR.name));
    let (training, reserves) = (attrs.bool("is_training"), p.outputs.len() > 5);
    let columns = g.columns();
    let scratch = match g.elements() {
        // Nothing is computed, however many channels there are.
        0 => 0,
        _ => g.scratch::<3>() + 3 * Scratch::bytes::<f32>(columns),
    };
    Ok(Prepared::new(2 * g.elements(), move |cx| {
        let side = epilogue.side(cx, g.elements())?;
        let (scale, offset) = (cx.input::<f32>(1)?, cx.input::<f32>(2)?);
        let old = [cx.input::<f32>(3)?, cx.input::<f32>(4)?];
        let [batch_mean, batch_variance] = [cx.output::<f32>(1)?, cx.output::<f32>(2)?];
        let [own_mean, own_variance] = [cx.output::<f32>(3)?, cx.output::<f32>(4)?];
        if reserves {
            cx.output::<f32>(5)?.fill(0.0);
        }
        own_mean.fill(0.0);
        own_variance.fill(0.0);
        if g.elements() == 0 {
            batch_mean.fill(f32::NAN);
            batch_variance.fill(f32::NAN);
            return Ok(());
        }
        let (x, y) = match cx.in_out::<f32>(0, 0)? {
            InOut::Same(y) => (None, y),
            InOut::Apart(x, y) => (Some(x), y),
        };
        let cpu = slice_cpu(cx.cpu());
        let mut scratch = Scratch::new(cx.scratch::<u8>(scratch)?);
        let [mean, rate, shift] = std::array::from_fn(|_| scratch.take::<f32>(columns));
        if training {
            let sums = sums(cpu, &g, &Moments(x.unwrap_or(y)), &mut scratch);
            for (c, &sums) in sums.iter().enumerate() {
                let (mean, squares) = moments(sums, g.count());
                own_mean[c] = mean as f32;
                own_variance[c] = (squares / g.count() as f64) as f32;
                let unbiased = (squares / (g.count() - 1).max(1) as f64) as f32;
                let mixed = |old: &[f32], new: f32| match factor {
                    1.0 => new,
                    factor => (1.0 - factor) * old[c] + factor * new,
                };
                batch_mean[c] = mixed(old[0], own_mean[c]);
                batch_variance[c] = mixed(old[1], unbiased);
            }
        } else {
            batch_mean.copy_from_slice(old[0]);
            batch_variance.copy_from_slice(old[1]);
        }
        let used = match training {
            true => [&*own_mean, &*own_variance],
            false => old,
        };
        for c in 0..g.channels {
            mean[c] = used[0][c];
            rate[c] = scale[c] / (used[1][c] + epsilon).sqrt();
            shift[c] = offset[c];
        }
        let mut all = [mean, rate, shift];
        to_columns(&g, &mut all);
        epilogue.write(cpu, &g, x, side, y, all.map(|c| &*c));
        Ok(())
    })
    .with_scratch(scratch))
}

fn gradient_kernel(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = view(p)?;
    let (epsilon, training) = (
        p.node.attrs.float("epsilon"),
        p.node.attrs.bool("is_training"),
    );
    let columns = g.columns();
    let scratch = match g.elements() {
        0 => 0,
        _ => g.scratch::<2>() + 4 * Scratch::bytes::<f32>(columns),
    };
    Ok(Prepared::new(3 * g.elements(), move |cx| {
        let (scale, used) = (
            cx.input::<f32>(2)?,
            [cx.input::<f32>(3)?, cx.input::<f32>(4)?],
        );
        let [to_scale, to_offset] = [cx.output::<f32>(1)?, cx.output::<f32>(2)?];
        if g.elements() == 0 {
            to_scale.fill(0.0);
            to_offset.fill(0.0);
            return Ok(());
        }
        let x = cx.input::<f32>(1)?;
        let (dy, dx) = match cx.in_out::<f32>(0, 0)? {
            InOut::Same(dx) => (None, dx),
            InOut::Apart(dy, dx) => (Some(dy), dx),
        };
        let cpu = slice_cpu(cx.cpu());
        let mut scratch = Scratch::new(cx.scratch::<u8>(scratch)?);
        let [mean, rate, along, less] = std::array::from_fn(|_| scratch.take::<f32>(columns));
        mean[..g.channels].copy_from_slice(used[0]);
        to_columns(&g, &mut [&mut *mean]);
        let of = Products {
            x,
            dy: dy.unwrap_or(dx),
            mean,
        };
        let sums = sums(cpu, &g, &of, &mut scratch);
        for (c, &[gradients, products]) in sums.iter().enumerate() {
            let deviation = (used[1][c] + epsilon).sqrt();
            to_offset[c] = gradients as f32;
            to_scale[c] = products as f32 / deviation;
            rate[c] = scale[c] / deviation;
            let count = g.count() as f64;
            along[c] = rate[c] * (products / count) as f32 / (used[1][c] + epsilon);
            less[c] = rate[c] * (gradients / count) as f32;
        }
        let mut all = [&mut *rate, &mut *along, &mut *less];
        to_columns(&g, &mut all);
        if training {
            let all = [&*mean, rate, along, less];
            apply(
                cpu,
                &g,
                dy,
                Some(x),
                dx,
                all,
                |dy, x, [mean, rate, along, less]| dy * rate - (x - mean) * along - less,
            );
        } else {
            apply(cpu, &g, dy, None, dx, [&*rate], |dy, _, [rate]| dy * rate);
        }
        Ok(())
    })
    .with_scratch(scratch))
}
