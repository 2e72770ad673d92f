//! CPU kernels of resizing.
//!
//! Positions are computed in `f32` as TensorFlow does: the selected pixel depends on their last bit.

use smallvec::SmallVec;
use thalweg_cpu::number::{Float, Number};
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_graph::op::{AttrDef, bool_attr};
use thalweg_tensor::Element;

use crate::support::elementwise::CHUNK;

pub(crate) const ALIGN: AttrDef = bool_attr("align_corners", false);

pub(crate) const CENTERS: AttrDef = bool_attr("half_pixel_centers", false);

/// Mapping of positions in the resized images to positions in the original ones.
#[derive(Clone, Copy)]
pub(super) struct Sampling {
    align: bool,
    centers: bool,
}

/// Two adjacent pixels, and the fraction of the distance from the first to the second.
#[derive(Clone, Copy)]
pub(super) struct Interpolation {
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) fraction: f32,
}

impl Sampling {
    pub(super) fn of(p: &Prepare<'_>) -> Result<Sampling, KernelError> {
        let places = Sampling {
            align: p.node.attrs.bool(ALIGN.name),
            centers: p.node.attrs.bool(CENTERS.name),
        };
        match places {
            Sampling {
                align: true,
                centers: true,
            } => Err(KernelError::Invalid(
                "align_corners and half_pixel_centers exclude each other: set one of them"
                    .to_owned(),
            )),
            places => Ok(places),
        }
    }

    /// Pixels of the original image for each pixel of the resized one.
    fn scale(self, image: usize, resized: usize) -> f32 {
        match self.align && resized > 1 {
            true => image.saturating_sub(1) as f32 / (resized - 1) as f32,
            false => image as f32 / resized as f32,
        }
    }

    pub(super) fn interpolation(
        self,
        image: usize,
        resized: usize,
    ) -> impl Fn(usize) -> Interpolation {
        let scale = self.scale(image, resized);
        move |i| {
            let at = match self.centers {
                true => (i as f32 + 0.5) * scale - 0.5,
                false => i as f32 * scale,
            };
            let floor = at.floor();
            let last = image.saturating_sub(1);
            // Conversions saturate: negative positions become the first pixel.
            Interpolation {
                low: (floor as usize).min(last),
                high: (at.ceil() as usize).min(last),
                fraction: at - floor,
            }
        }
    }

    pub(super) fn nearest(self, image: usize, resized: usize) -> impl Fn(usize) -> usize {
        let scale = self.scale(image, resized);
        move |i| {
            let at = match self.centers {
                true => (i as f32 + 0.5) * scale,
                false => i as f32 * scale,
            };
            let at = if self.align { at.round() } else { at.floor() };
            (at as usize).min(image.saturating_sub(1))
        }
    }
}

/// Dimensions `[images, height, width, channels]` of the original and the resized images.
pub(super) type SizePair = [[usize; 4]; 2];

pub(super) fn pair(image: &[usize], resized: &[usize]) -> Result<SizePair, KernelError> {
    match (image.try_into(), resized.try_into()) {
        (Ok(image), Ok(resized)) => Ok([image, resized]),
        _ => Err(KernelError::Argument("images")),
    }
}

/// A list with an element for each pixel of a row or a column, computed when the kernel is prepared.
type List<T> = SmallVec<[T; 32]>;

pub(super) fn bilinear<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let places = Sampling::of(p)?;
    let [[_, h, w, c], [_, out_h, out_w, _]] = pair(p.dims(0), p.output_dims(0))?;
    let n = p.outputs[0].elements();
    let rows: List<Interpolation> = (0..out_h)
        .take(n)
        .map(places.interpolation(h, out_h))
        .collect();
    let columns: List<Interpolation> = (0..out_w)
        .take(n)
        .map(places.interpolation(w, out_w))
        .collect();
    Ok(Prepared::new(4 * n, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<f32>(0)?);
        if out.is_empty() {
            return Ok(());
        }
        let line = out_w * c;
        let lines = (CHUNK / line).max(1);
        for_chunks(cx.pool(), out, lines * line, &|task, out| {
            for (i, out) in out.chunks_exact_mut(line).enumerate() {
                let (image, y) = ((task * lines + i) / out_h, rows[(task * lines + i) % out_h]);
                let row = |y: usize| &x[(image * h + y) * w * c..][..w * c];
                let (top, bottom) = (row(y.low), row(y.high));
                for (out, x) in out.chunks_exact_mut(c).zip(&columns) {
                    let (left, right) = (x.low * c, x.high * c);
                    for (k, out) in out.iter_mut().enumerate() {
                        let of = |row: &[T], at: usize| row[at + k].to_f64() as f32;
                        let mix = |a: f32, b: f32, fraction: f32| a + (b - a) * fraction;
                        let top = mix(of(top, left), of(top, right), x.fraction);
                        let bottom = mix(of(bottom, left), of(bottom, right), x.fraction);
                        *out = mix(top, bottom, y.fraction);
                    }
                }
            }
        });
        Ok(())
    }))
}

pub(super) fn bilinear_grad<T: Float>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let places = Sampling::of(p)?;
    let [[_, h, w, c], [_, out_h, out_w, _]] = pair(p.dims(1), p.dims(0))?;
    let n = p.inputs[0].elements();
    let rows: List<Interpolation> = (0..out_h)
        .take(n)
        .map(places.interpolation(h, out_h))
        .collect();
    let columns: List<Interpolation> = (0..out_w)
        .take(n)
        .map(places.interpolation(w, out_w))
        .collect();
    Ok(Prepared::new(4 * n, move |cx| {
        let (grads, dx) = (cx.input::<f32>(0)?, cx.output::<T>(0)?);
        dx.fill(T::ZERO);
        if grads.is_empty() || dx.is_empty() {
            return Ok(());
        }
        for_chunks(cx.pool(), dx, h * w * c, &|image, dx| {
            let grads = &grads[image * out_h * out_w * c..][..out_h * out_w * c];
            for (grads, y) in grads.chunks_exact(out_w * c).zip(&rows) {
                for (grads, x) in grads.chunks_exact(c).zip(&columns) {
                    let corners = [
                        (y.low, x.low, 1.0 - y.fraction, 1.0 - x.fraction),
                        (y.low, x.high, 1.0 - y.fraction, x.fraction),
                        (y.high, x.low, y.fraction, 1.0 - x.fraction),
                        (y.high, x.high, y.fraction, x.fraction),
                    ];
                    for (line, column, down, across) in corners {
                        let to = &mut dx[(line * w + column) * c..][..c];
                        for (to, grad) in to.iter_mut().zip(grads) {
                            // In f32 and this order, as in TensorFlow; an f64 keeps the last bit.
                            let more = T::Wide::from_f64(f64::from(grad * down * across));
                            *to = T::narrow(to.widen() + more);
                        }
                    }
                }
            }
        });
        Ok(())
    }))
}

pub(super) fn nearest<T: Element>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let places = Sampling::of(p)?;
    let [[_, h, w, c], [_, out_h, out_w, _]] = pair(p.dims(0), p.output_dims(0))?;
    let n = p.outputs[0].elements();
    let rows: List<usize> = (0..out_h).take(n).map(places.nearest(h, out_h)).collect();
    let columns: List<usize> = (0..out_w).take(n).map(places.nearest(w, out_w)).collect();
    Ok(Prepared::new(n, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        if out.is_empty() {
            return Ok(());
        }
        let line = out_w * c;
        let lines = (CHUNK / line).max(1);
        for_chunks(cx.pool(), out, lines * line, &|task, out| {
            for (i, out) in out.chunks_exact_mut(line).enumerate() {
                let (image, y) = ((task * lines + i) / out_h, rows[(task * lines + i) % out_h]);
                let row = &x[(image * h + y) * w * c..][..w * c];
                for (out, &x) in out.chunks_exact_mut(c).zip(&columns) {
                    out.copy_from_slice(&row[x * c..][..c]);
                }
            }
        });
        Ok(())
    }))
}

pub(super) fn nearest_grad<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let places = Sampling::of(p)?;
    let [[_, h, w, c], [_, out_h, out_w, _]] = pair(p.output_dims(0), p.dims(0))?;
    let n = p.inputs[0].elements();
    let rows: List<usize> = (0..out_h).take(n).map(places.nearest(h, out_h)).collect();
    let columns: List<usize> = (0..out_w).take(n).map(places.nearest(w, out_w)).collect();
    Ok(Prepared::new(n, move |cx| {
        let (grads, dx) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        dx.fill(T::ZERO);
        if grads.is_empty() || dx.is_empty() {
            return Ok(());
        }
        for_chunks(cx.pool(), dx, h * w * c, &|image, dx| {
            let grads = &grads[image * out_h * out_w * c..][..out_h * out_w * c];
            for (grads, &y) in grads.chunks_exact(out_w * c).zip(&rows) {
                for (grads, &x) in grads.chunks_exact(c).zip(&columns) {
                    let to = &mut dx[(y * w + x) * c..][..c];
                    for (to, &grad) in to.iter_mut().zip(grads) {
                        *to = to.add(grad);
                    }
                }
            }
        });
        Ok(())
    }))
}
