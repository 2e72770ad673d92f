//! Geometry of a convolution: one rule for shapes and kernels, forward and backward.

use thalweg_device::KernelError;
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::Shape;
use thalweg_tensor::text::counted;

use super::format::{DataFormat, Sliding, image_dims};
use crate::support::conv_groups::ConvGroups;
use thalweg_cpu::conv::ConvGeometry;

/// Maximum number of elements of one padded image: beyond it no kernel has enough scratch memory.
const MAX_PADDED: usize = 1 << 34;

/// Output shape of a convolution of `image` (of rank 4) with `filter` (height, width,
/// input channels, output channels); `image_at` is the input that is blamed for a window which does
/// not fit.
///
/// # Errors
/// [`InferError`] if the shapes are not compatible.
pub(crate) fn output_shape(
    sliding: &Sliding,
    image_at: usize,
    image: &Shape,
    filter: &Shape,
) -> Result<Shape, InferError> {
    let (batch, channels, lengths) = image_dims(sliding.format, image);
    if let (Some(found), Some(expected)) = (channels, filter.dim(2))
        && found != expected
    {
        return Err(InferError::Mismatch {
            what: format!(
                "the images ({}) have {}, the filter is for {expected}",
                sliding.format.name(),
                counted(found, "channel")
            ),
            left: image.clone(),
            right: filter.clone(),
        });
    }
    let mut counts = [None, None];
    for axis in 0..2 {
        if let (Some(input), Some(window)) = (lengths[axis], filter.dim(axis)) {
            counts[axis] = Some(sliding.count(image_at, axis, input, window)?.0);
        }
    }
    Ok(Shape::partial(sliding.format.order(
        batch,
        filter.dim(3),
        counts,
    )))
}

/// Shape of a tensor given by input `i`, four integers.
///
/// # Errors
/// [`InferError`] if they are not four, or one is negative.
pub(crate) fn sizes(cx: &Infer<'_>, i: usize) -> Result<Shape, InferError> {
    sizes_of_rank(cx, i, 4)
}

/// The same, of `rank` integers.
pub(super) fn sizes_of_rank(cx: &Infer<'_>, i: usize, rank: usize) -> Result<Shape, InferError> {
    let wrong = |reason: String| InferError::Value { input: i, reason };
    let count = cx.ranked(i, 1)?;
    if let Some(n) = count.dim(0)
        && n != rank
    {
        return Err(wrong(format!(
            "has {}, but must have {rank}",
            counted(n, "size")
        )));
    }
    let Some(sizes) = cx.ints(i) else {
        return Ok(Shape::of_rank(rank));
    };
    if let Some(negative) = sizes.iter().find(|&&n| n < 0) {
        return Err(wrong(format!(
            "has {negative} among the sizes, but none may be negative"
        )));
    }
    Ok(Shape::from(sizes))
}

/// All lengths of the convolution of images with a filter of these dimensions.
///
/// # Errors
/// [`KernelError::Invalid`] if they do not fit, or are too large.
pub(crate) fn geometry(
    sliding: &Sliding,
    image: &[usize],
    filter: &[usize],
) -> Result<ConvGeometry, KernelError> {
    let invalid = |e: InferError| KernelError::Invalid(e.to_string());
    let (Some(batch), Some(in_c), [Some(in_h), Some(in_w)]) =
        image_dims(sliding.format, &Shape::known(image))
    else {
        return Err(KernelError::Argument("images"));
    };
    let &[k_h, k_w, filter_c, out_c] = filter else {
        return Err(KernelError::Argument("a filter"));
    };
    if filter_c != in_c {
        return Err(KernelError::Argument("a filter for these channels"));
    }
    let (out_h, pad_top) = sliding.count(0, 0, in_h, k_h).map_err(invalid)?;
    let (out_w, pad_left) = sliding.count(0, 1, in_w, k_w).map_err(invalid)?;
    let [stride, dilation] = [sliding.strides, sliding.dilations];
    let seen = |axis: usize, out: usize, k: usize, input: usize| {
        ((out.max(1) - 1) * stride[axis] + (k - 1) * dilation[axis] + 1).max(input)
    };
    let padded = [seen(1, out_w, k_w, in_w), in_c.max(out_c)]
        .into_iter()
        .try_fold(seen(0, out_h, k_h, in_h), usize::checked_mul);
    // Products of lengths may overflow even if one length is zero.
    let counted = |lengths: [usize; 4]| lengths.into_iter().try_fold(1, usize::checked_mul);
    let whole = [
        counted([batch, in_h, in_w, in_c]),
        counted([batch, out_h, out_w, out_c]),
        counted([k_h, k_w, in_c, out_c]),
    ];
    if padded.is_none_or(|n| n > MAX_PADDED) || whole.contains(&None) {
        return Err(KernelError::Invalid(format!(
            "a convolution of images {} with a filter {} is too large: a padded image may have {MAX_PADDED} elements",
            Shape::known(image),
            Shape::known(filter)
        )));
    }
    Ok(ConvGeometry {
        batch,
        in_h,
        in_w,
        in_c,
        out_h,
        out_w,
        out_c,
        k_h,
        k_w,
        stride,
        dilation,
        pad_top,
        pad_left,
        layout: sliding.format.layout(),
    })
}

/// Number of groups of a convolution of `images` with `filter` (lines, columns, input channels of a group, output
/// channels); `None` if one of the numbers of channels is not known.
///
/// # Errors
/// [`InferError::Mismatch`] if the input or the output channels do not divide into the groups.
pub(super) fn groups(
    format: DataFormat,
    images: &Shape,
    filter: &Shape,
) -> Result<Option<usize>, InferError> {
    let channels = images.dim(format.channel(4));
    let (Some(channels), Some(each)) = (channels, filter.dim(2)) else {
        return Ok(None);
    };
    let mismatch = |what: String| InferError::Mismatch {
        what,
        left: images.clone(),
        right: filter.clone(),
    };
    if channels == each {
        return Ok(Some(1));
    }
    if each == 0 || channels == 0 || channels % each != 0 {
        return Err(mismatch(format!(
            "the images ({}) have {}, the filter is for {each}: their number must be that of the filter, or a multiple of it",
            format.name(),
            counted(channels, "channel"),
        )));
    }
    let groups = channels / each;
    match filter.dim(3) {
        Some(out) if out % groups != 0 => Err(mismatch(format!(
            "the images ({}) have {}, which are {groups} groups of the filter's {each}, and the filter's {} are not a multiple of {groups}",
            format.name(),
            counted(channels, "channel"),
            counted(out, "output channel"),
        ))),
        _ => Ok(Some(groups)),
    }
}

/// Geometry of the convolution, in groups, of images with a filter of these dimensions.
///
/// # Errors
/// [`KernelError::Invalid`] if they do not fit, or are too large.
pub(super) fn grouped_geometry(
    sliding: &Sliding,
    image: &[usize],
    filter: &[usize],
) -> Result<ConvGroups, KernelError> {
    let known = [Shape::known(image), Shape::known(filter)];
    let count = groups(sliding.format, &known[0], &known[1])
        .map_err(|e| KernelError::Invalid(e.to_string()))?
        .ok_or(KernelError::Argument("images and a filter of rank 4"))?;
    let (&[n, a, b, c], &[lines, columns, each, out]) = (image, filter) else {
        return Err(KernelError::Argument("images and a filter of rank 4"));
    };
    let mut image = [n, a, b, c];
    image[sliding.format.channel(4)] = each;
    Ok(ConvGroups {
        one: geometry(sliding, &image, &[lines, columns, each, out / count])?,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups_of(images: [usize; 4], filter: [usize; 4]) -> Result<Option<usize>, InferError> {
        groups(
            DataFormat::Nhwc,
            &Shape::known(&images),
            &Shape::known(&filter),
        )
    }

    #[test]
    fn input_channels_divide_into_groups_of_the_filters() {
        let (images, filter) = ([1, 4, 4, 6], [3, 3, 2, 9]);
        assert_eq!(groups_of(images, filter).unwrap(), Some(3));
        assert_eq!(groups_of(images, [3, 3, 6, 5]).unwrap(), Some(1));
        assert_eq!(groups_of([1, 4, 4, 0], [3, 3, 0, 5]).unwrap(), Some(1));
    }

    #[test]
    fn channels_that_do_not_divide_are_errors() {
        for (images, filter) in [
            ([1, 4, 4, 6], [3, 3, 4, 4]),
            ([1, 4, 4, 6], [3, 3, 2, 4]),
            ([1, 4, 4, 6], [3, 3, 0, 4]),
            ([1, 4, 4, 0], [3, 3, 2, 4]),
            ([1, 4, 4, 2], [3, 3, 4, 4]),
        ] {
            assert!(groups_of(images, filter).is_err(), "{images:?} {filter:?}");
        }
    }
}
