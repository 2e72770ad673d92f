//! Convolutions by their definition.

use super::format::DataFormat;
use super::geometry::Geometry;
use crate::number::Number;

/// Calls `body(input pixel, output pixel, tap)` for each output pixel and each filter tap that sees
/// a pixel of the image, in this order.
fn for_taps(g: &Geometry, mut body: impl FnMut([usize; 2], [usize; 2], usize)) {
    for image in 0..g.batch {
        for oy in 0..g.out_h {
            for ox in 0..g.out_w {
                for ky in 0..g.k_h {
                    for kx in 0..g.k_w {
                        let y = (oy * g.stride[0] + ky * g.dilation[0]).checked_sub(g.pad_top);
                        let x = (ox * g.stride[1] + kx * g.dilation[1]).checked_sub(g.pad_left);
                        if let (Some(y), Some(x)) = (y, x)
                            && y < g.in_h
                            && x < g.in_w
                        {
                            let tap = (ky * g.k_w + kx) * g.in_c * g.out_c;
                            body([image, y * g.in_w + x], [image, oy * g.out_w + ox], tap);
                        }
                    }
                }
            }
        }
    }
}

/// Where channel `c` of a pixel lies.
fn at(
    format: DataFormat,
    [image, pixel]: [usize; 2],
    plane: usize,
    channels: usize,
    c: usize,
) -> usize {
    match format {
        DataFormat::Nhwc => (image * plane + pixel) * channels + c,
        DataFormat::Nchw => (image * channels + c) * plane + pixel,
    }
}

/// Calls `body(input, filter, output)` with the place of each product.
fn for_products(g: &Geometry, mut body: impl FnMut(usize, usize, usize)) {
    for_taps(g, |pixel, out, tap| {
        for ic in 0..g.in_c {
            for oc in 0..g.out_c {
                body(
                    at(g.format, pixel, g.in_h * g.in_w, g.in_c, ic),
                    tap + ic * g.out_c + oc,
                    at(g.format, out, g.out_h * g.out_w, g.out_c, oc),
                );
            }
        }
    });
}

/// The convolution of `input` with `filter`.
pub(super) fn forward<T: Number>(g: &Geometry, input: &[T], filter: &[T], output: &mut [T]) {
    output.fill(T::ZERO);
    for_products(g, |i, f, o| {
        output[o] = output[o].add(input[i].mul(filter[f]))
    });
}

/// The gradient to the input.
pub(super) fn input_grad<T: Number>(g: &Geometry, filter: &[T], dy: &[T], dx: &mut [T]) {
    dx.fill(T::ZERO);
    for_products(g, |i, f, o| dx[i] = dx[i].add(dy[o].mul(filter[f])));
}

/// The gradient to the filter.
pub(super) fn filter_grad<T: Number>(g: &Geometry, input: &[T], dy: &[T], dw: &mut [T]) {
    dw.fill(T::ZERO);
    for_products(g, |i, f, o| dw[f] = dw[f].add(input[i].mul(dy[o])));
}
