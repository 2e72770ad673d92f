//! GPU launches of resizing: each axis by itself, as sums by lists of pixels with their weights.

use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Prepare};

use super::kernels::{Interpolation, Sampling, pair};
use crate::gpu::{AlongAxis, AxisLists, along_axes, gather_by_tables};

/// By pixel of the resized images: the two pixels that it lies between, along lines and along columns.
fn bilinear_lists(
    p: &Prepare<'_>,
    image: &[usize],
    resized: &[usize],
) -> Result<[AxisLists; 2], KernelError> {
    let sampling = Sampling::of(p)?;
    let [image, resized] = pair(image, resized)?;
    let mix = |at: Interpolation| [(at.low, 1.0 - at.fraction), (at.high, at.fraction)];
    Ok([1, 2].map(|axis| {
        let along = sampling.interpolation(image[axis], resized[axis]);
        AxisLists::new((0..resized[axis]).map(|i| mix(along(i))))
    }))
}

/// By pixel of the resized images: the nearest one, along lines and along columns.
fn nearest_pixels(
    p: &Prepare<'_>,
    image: &[usize],
    resized: &[usize],
) -> Result<[Vec<usize>; 2], KernelError> {
    let sampling = Sampling::of(p)?;
    let [image, resized] = pair(image, resized)?;
    Ok([1, 2].map(|axis| {
        let along = sampling.nearest(image[axis], resized[axis]);
        (0..resized[axis]).map(along).collect()
    }))
}

pub(super) fn bilinear(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let sampling = Sampling::of(p)?;
    let [image, resized] = pair(p.dims(0), p.output_dims(0))?;
    let axes = [2, 1].map(|axis| {
        let along = sampling.interpolation(image[axis], resized[axis]);
        let between = |i| {
            let at = along(i);
            (at.low, at.high, at.fraction)
        };
        (
            axis,
            AlongAxis::Lerp((0..resized[axis]).map(between).collect()),
        )
    });
    along_axes(p, p.dims(0), &axes)
}

pub(super) fn bilinear_grad(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let image = p.dims(1);
    let [rows, columns] = bilinear_lists(p, image, p.dims(0))?;
    let axes = [(1, rows), (2, columns)]
        .map(|(axis, lists)| (axis, AlongAxis::WeightedSum(lists.transposed(image[axis]))));
    along_axes(p, p.dims(0), &axes)
}

pub(super) fn nearest(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let [[images, h, w, c], _] = pair(p.dims(0), p.output_dims(0))?;
    let [rows, columns] = nearest_pixels(p, p.dims(0), p.output_dims(0))?;
    let steps = |of: Vec<usize>, step: usize| of.into_iter().map(|at| at * step).collect();
    let tables = [
        steps((0..images).collect(), h * w * c),
        steps(rows, w * c),
        steps(columns, c),
    ];
    gather_by_tables(p, &tables, c)
}

pub(super) fn nearest_grad(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let image = p.output_dims(0);
    let [rows, columns] = nearest_pixels(p, image, p.dims(0))?;
    let axes = [(1, rows), (2, columns)].map(|(axis, nearest)| {
        let lists = AxisLists::new(nearest.into_iter().map(|at| [(at, 1.0)]));
        (axis, AlongAxis::Sum(lists.transposed(image[axis])))
    });
    along_axes(p, p.dims(0), &axes)
}
