//! ResizeBicubic, ResizeBicubicGrad, ResizeArea.

use std::sync::OnceLock;

use smallvec::smallvec;
use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_image::pixels::{Cubic, Method, Pixel, Resize, Sampling, cubic};
use thalweg_image::{Size, Window};
use thalweg_tensor::{DType, Element, dispatch};

use super::images::{PIXELS, image_error};
use crate::gpu::{AlongAxis, AxisLists, along_axes};
use crate::nn::resize::{ALIGN, CENTERS, forward_shape, gradient_node, gradient_shape};
use crate::support::widened::widened;

/// Elements of the lines that a task computes.
const BAND: usize = 32 << 10;

/// Rule of positions that the attributes of a node ask for.
fn sampling(p: &Prepare<'_>) -> Result<Sampling, KernelError> {
    let attrs = &p.node.attrs;
    let has = |attr: AttrDef| p.node.op.attr(attr.name).is_some() && attrs.bool(attr.name);
    match (has(ALIGN), has(CENTERS)) {
        (true, true) => Err(KernelError::Invalid(
            "align_corners and half_pixel_centers exclude each other: set one of them".to_owned(),
        )),
        (true, false) => Ok(Sampling::AlignCorners),
        (false, true) => Ok(Sampling::HalfPixel),
        (false, false) => Ok(Sampling::Corner),
    }
}

fn forward<T: Element + Pixel>(p: &Prepare<'_>, method: Method) -> Result<Prepared, KernelError> {
    let sampling = sampling(p)?;
    let (&[_, height, width, channels], &[_, out_height, out_width, _]) =
        (p.dims(0), p.output_dims(0))
    else {
        return Err(KernelError::Argument("images"));
    };
    let resize = Resize { method, sampling };
    let size = Size::new(height, width, channels);
    let n = p.outputs.first().map_or(0, |o| o.elements());
    Ok(Prepared::new(16 * n, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<f32>(0)?);
        if out.is_empty() {
            return Ok(());
        }
        let failed = OnceLock::new();
        let line = out_width * channels;
        let lines = (BAND / line.max(1)).max(1);
        for_chunks(cx.pool(), out, lines * line.max(1), &|band, out| {
            // The lines of a band may be those of several images.
            let (mut out, mut at) = (out, band * lines);
            while !out.is_empty() {
                let (image, y) = (at / out_height, at % out_height);
                let height = (out.len() / line).min(out_height - y);
                let (now, rest) = std::mem::take(&mut out).split_at_mut(height * line);
                (out, at) = (rest, at + height);
                let image = &x[image * size.elements()..][..size.elements()];
                let window = Window {
                    y,
                    x: 0,
                    height,
                    width: out_width,
                };
                if let Err(e) = resize.run_window(image, size, [out_height, out_width], window, now)
                {
                    // Sizes are the same for all images, so the errors are.
                    let _ = failed.set(e);
                }
            }
        });
        failed.into_inner().map_or(Ok(()), |e| Err(image_error(e)))
    }))
}

fn forward_of(p: &Prepare<'_>, method: Method) -> Result<Prepared, KernelError> {
    if p.dtype(0) == DType::U8 {
        return forward::<u8>(p, method);
    }
    widened(p, &[0], &[], &|p| {
        dispatch!(p.dtype(0), [F32 F64 I64 U64], T => forward::<T>(p, method), else
            Err(KernelError::DType(p.dtype(0))))
    })
}

/// Adds each gradient to the sixteen pixels that it comes from, in TensorFlow's order.
fn bicubic_grad<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let sampling = sampling(p)?;
    let (&[_, out_height, out_width, channels], &[_, height, width, _]) = (p.dims(0), p.dims(1))
    else {
        return Err(KernelError::Argument("images"));
    };
    let n = p.inputs.first().map_or(0, |x| x.elements());
    let axis = |from: usize, to: usize| -> Vec<Cubic> {
        (0..to)
            .take(n)
            .map(|i| cubic(sampling, i, from, to))
            .collect()
    };
    let (rows, columns) = (axis(height, out_height), axis(width, out_width));
    Ok(Prepared::new(32 * n, move |cx| {
        let (grads, dx) = (cx.input::<f32>(0)?, cx.output::<T>(0)?);
        dx.fill(T::from_f64(0.0));
        if grads.is_empty() || dx.is_empty() {
            return Ok(());
        }
        let line = out_width * channels;
        for_chunks(cx.pool(), dx, height * width * channels, &|image, dx| {
            let grads = &grads[image * out_height * line..][..out_height * line];
            for (grads, y) in grads.chunks_exact(line).zip(&rows) {
                for (grads, x) in grads.chunks_exact(channels).zip(&columns) {
                    for (k, &grad) in grads.iter().enumerate() {
                        for (&row, &down) in y.pixels.iter().zip(&y.weights) {
                            let grad = T::from_f64(grad.into()).mul(T::from_f64(down.into()));
                            for (&column, &across) in x.pixels.iter().zip(&x.weights) {
                                let to = &mut dx[(row * width + column) * channels + k];
                                *to = to.add(grad.mul(T::from_f64(across.into())));
                            }
                        }
                    }
                }
            }
        });
        Ok(())
    }))
}

/// By pixel of the resized images along an axis: the pixels that it is interpolated between.
fn cubic_lists(sampling: Sampling, from: usize, to: usize) -> AxisLists {
    let of = |i| {
        let Cubic { pixels, weights } = cubic(sampling, i, from, to);
        pixels.into_iter().zip(weights)
    };
    AxisLists::new((0..to).map(of))
}

fn bicubic_launches(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let (sampling, from, to) = (sampling(p)?, p.dims(0), p.output_dims(0));
    // Lines first, as in TensorFlow, so that rounding is alike.
    let axes = [1, 2].map(|axis| {
        let lists = cubic_lists(sampling, from[axis], to[axis]);
        (axis, AlongAxis::WeightedSum(lists))
    });
    along_axes(p, from, &axes)
}

fn bicubic_grad_launches(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let (sampling, from, to) = (sampling(p)?, p.dims(1), p.dims(0));
    let axes = [1, 2].map(|axis| {
        let lists = cubic_lists(sampling, from[axis], to[axis]);
        (axis, AlongAxis::WeightedSum(lists.transposed(from[axis])))
    });
    along_axes(p, to, &axes)
}

/// Interpolates each pixel between sixteen.
pub(crate) static RESIZE_BICUBIC: Op = Op {
    def: OpDef {
        name: "ResizeBicubic",
        summary: "Images of another size, each pixel interpolated between the sixteen nearest ones.",
        inputs: &[arg("images", "T"), arg_of("size", DType::I32).host()],
        outputs: &[arg_of("resized_images", DType::F32)],
        attrs: &[type_attr("T", PIXELS), ALIGN, CENTERS],
        shape: forward_shape,
        gradient: Gradient::Rule(|g| {
            if !matches!(g.input(0).dtype(), DType::F32 | DType::F64) {
                return smallvec![];
            }
            let node = gradient_node(g, "ResizeBicubicGrad").input(g.grad());
            smallvec![Some(node.input(g.input(0)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| forward_of(p, Method::Bicubic)),
        gpu(bicubic_launches),
    ],
};

/// Gradient of [`RESIZE_BICUBIC`].
pub(crate) static RESIZE_BICUBIC_GRAD: Op = Op {
    def: OpDef {
        name: "ResizeBicubicGrad",
        summary: "The gradient of ResizeBicubic.",
        inputs: &[arg_of("grads", DType::F32), arg("original_image", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &[DType::F32, DType::F64]), ALIGN, CENTERS],
        shape: gradient_shape,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            dispatch!(p.dtype(1), [F32 F64], T => bicubic_grad::<T>(p), else
                Err(KernelError::DType(p.dtype(1))))
        }),
        gpu(bicubic_grad_launches).only(&[("T", &[DType::F32])]),
    ],
};

/// The mean of the pixels that a pixel covers.
pub(crate) static RESIZE_AREA: Op = Op {
    def: OpDef {
        name: "ResizeArea",
        summary: "Images of another size, each pixel the mean of those that it covers.",
        inputs: &[arg("images", "T"), arg_of("size", DType::I32).host()],
        outputs: &[arg_of("resized_images", DType::F32)],
        attrs: &[type_attr("T", PIXELS), ALIGN],
        shape: forward_shape,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| forward_of(p, Method::Area))],
};
