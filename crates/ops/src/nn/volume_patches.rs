//! ExtractVolumePatches: the windows of volumes, each flattened to the channels of one place.

use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, dispatch};

use super::patches_gradient::patches_gradient;
use crate::support::shape_inputs::{checked_shape, invalid_value, kernel_error};
use crate::support::widened::as_uints;

/// Windows of a node along the three dimensions of space.
#[derive(Clone, Copy)]
struct Windows {
    sizes: [usize; 3],
    strides: [usize; 3],
    same: bool,
}

impl Windows {
    fn of(attrs: &Attrs) -> Result<Windows, InferError> {
        let three = |attr: &'static str| match *attrs.ints(attr) {
            [1, a, b, c, 1] if a.min(b).min(c) > 0 => Ok([a, b, c].map(|v| v as usize)),
            ref other => Err(InferError::Attr {
                attr,
                reason: format!("{other:?} is not 1, three numbers above 0, and 1"),
            }),
        };
        Ok(Windows {
            sizes: three("ksizes")?,
            strides: three("strides")?,
            same: attrs.str("padding") == "SAME",
        })
    }

    /// Number of windows along an axis of length `len`, and the elements before the first.
    fn count(self, axis: usize, len: usize) -> Result<(usize, usize), InferError> {
        let (size, stride) = (self.sizes[axis], self.strides[axis]);
        if self.same {
            let count = len.div_ceil(stride);
            let covered = count.saturating_sub(1).saturating_mul(stride);
            let padding = covered.saturating_add(size).saturating_sub(len);
            return Ok((count, padding / 2));
        }
        match len.checked_sub(size) {
            Some(rest) => Ok((rest / stride + 1, 0)),
            None => Err(invalid_value(
                0,
                format!("a window of {size} does not fit a dimension of {len}: use padding SAME"),
            )),
        }
    }

    /// Elements of a window.
    fn volume(self) -> Option<usize> {
        let [a, b, c] = self.sizes;
        a.checked_mul(b)?.checked_mul(c)
    }
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let windows = Windows::of(cx.attrs())?;
    let x = cx.ranked(0, 5)?;
    let mut dims = vec![x.dim(0)];
    for axis in 0..3 {
        dims.push(match x.dim(axis + 1) {
            Some(len) => Some(windows.count(axis, len)?.0),
            None => None,
        });
    }
    let too_large = || invalid_value(0, "its windows are too large");
    let volume = windows.volume().ok_or_else(too_large)?;
    dims.push(match x.dim(4) {
        Some(depth) => Some(depth.checked_mul(volume).ok_or_else(too_large)?),
        None => None,
    });
    let shape = checked_shape(0, Shape::partial(dims))?;
    cx.set(0, shape);
    Ok(())
}

fn prepare<T: Element>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let windows = Windows::of(&p.node.attrs).map_err(kernel_error)?;
    let (&[_, planes, lines, columns, depth], &[_, d0, d1, d2, out_depth]) =
        (p.dims(0), p.output_dims(0))
    else {
        return Err(KernelError::Argument("volumes"));
    };
    let (from, to) = ([planes, lines, columns], [d0, d1, d2]);
    let mut before = [0; 3];
    for axis in 0..3 {
        before[axis] = windows.count(axis, from[axis]).map_err(kernel_error)?.1;
    }
    let elements = p.outputs[0].elements();
    if elements == 0 {
        return Ok(Prepared::new(0, |_| Ok(())));
    }
    // The element `k` of window `i` along an axis, if it is within the volume.
    let source = move |axis: usize, i: usize, k: usize| {
        let at = (i * windows.strides[axis] + k).checked_sub(before[axis]);
        at.filter(|&at| at < from[axis])
    };
    Ok(Prepared::new(elements, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        for_chunks(cx.pool(), out, out_depth, &|window, out| {
            let (volume, at) = (
                window / (to[0] * to[1] * to[2]),
                window % (to[0] * to[1] * to[2]),
            );
            let place = [at / (to[1] * to[2]), at / to[2] % to[1], at % to[2]];
            for (k, out) in out.chunks_exact_mut(depth).enumerate() {
                let [_, height, width] = windows.sizes;
                let within = [k / (height * width), k / width % height, k % width];
                let at = [0, 1, 2].map(|axis| source(axis, place[axis], within[axis]));
                match at {
                    [Some(plane), Some(line), Some(column)] => {
                        let row = (volume * planes + plane) * lines + line;
                        let start = (row * columns + column) * depth;
                        out.copy_from_slice(&x[start..start + depth]);
                    }
                    _ => out.fill(T::default()),
                }
            }
        });
        Ok(())
    }))
}

/// Extracts the windows of volumes.
pub(crate) static EXTRACT_VOLUME_PATCHES: Op = Op {
    def: OpDef {
        name: "ExtractVolumePatches",
        summary: "The windows of volumes, with the elements of each as the channels of one place; beyond the edge they are zeros.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("patches", "T")],
        attrs: &[
            attr("ksizes", AttrKind::Ints),
            attr("strides", AttrKind::Ints),
            type_attr("T", DType::NUMBERS),
            str_attr("padding", "", &["SAME", "VALID"]),
        ],
        shape,
        gradient: Gradient::Rule(|g| {
            patches_gradient(g, "ExtractVolumePatches", 3, &["ksizes", "strides"])
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        as_uints(
            p,
            &[0],
            &[0],
            &|p| dispatch!(p.dtype(0), SIZES, T => prepare::<T>(p), else Err(KernelError::DType(p.dtype(0)))),
        )
    })],
};
