//! Order of the dimensions of a batch of images, padding, and sliding windows.

use thalweg_graph::{Attr, Attrs, InferError};
use thalweg_tensor::Shape;
use thalweg_tensor::text::counted;

use thalweg_cpu::Layout;

/// Order of the dimensions of a batch of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DataFormat {
    /// Image, row, column, channel: TensorFlow's default.
    #[default]
    Nhwc,
    /// Image, channel, row, column.
    Nchw,
}

impl DataFormat {
    /// Value of attribute `data_format`.
    pub fn name(self) -> &'static str {
        match self {
            DataFormat::Nhwc => "NHWC",
            DataFormat::Nchw => "NCHW",
        }
    }

    /// Format given by attribute `data_format`.
    pub fn of(attrs: &Attrs) -> DataFormat {
        match attrs.str("data_format") {
            "NCHW" | "CHANNELS_FIRST" => DataFormat::Nchw,
            _ => DataFormat::Nhwc,
        }
    }

    /// Axis of the channels of a tensor of this rank (at least 2).
    pub fn channel(self, rank: usize) -> usize {
        match self {
            DataFormat::Nhwc => rank - 1,
            DataFormat::Nchw => 1,
        }
    }

    /// Axes of rows and columns of a batch of images.
    pub(crate) fn spatial(self) -> [usize; 2] {
        match self {
            DataFormat::Nhwc => [1, 2],
            DataFormat::Nchw => [2, 3],
        }
    }

    /// Arranges `[image, channel, row, column]` in this order.
    pub(crate) fn order<T>(self, image: T, channel: T, [line, column]: [T; 2]) -> [T; 4] {
        match self {
            DataFormat::Nhwc => [image, line, column, channel],
            DataFormat::Nchw => [image, channel, line, column],
        }
    }

    /// The same format for the functions on slices.
    pub(crate) fn layout(self) -> Layout {
        match self {
            DataFormat::Nhwc => Layout::Nhwc,
            DataFormat::Nchw => Layout::Nchw,
        }
    }

    /// The two values of a four-element attribute (`strides`) for rows and columns, each at
    /// least 1; the values for images and channels must be 1.
    ///
    /// # Errors
    /// [`InferError::Attr`].
    pub(crate) fn pair(self, attrs: &Attrs, attr: &'static str) -> Result<[usize; 2], InferError> {
        match self.pair_and_channels(attrs.ints(attr), attr)? {
            (pair, 1) => Ok(pair),
            (_, channels) => Err(InferError::Attr {
                attr,
                reason: format!(
                    "is {channels} for channels: these windows move over lines and columns only, so it must be 1"
                ),
            }),
        }
    }

    /// The values for rows and columns, and the one for channels, each at least 1; the one for images must be 1. `name` is
    /// the attribute or input that has them.
    ///
    /// # Errors
    /// [`InferError::Attr`]; [`InferError::Unsupported`] for windows over images.
    pub(crate) fn pair_and_channels(
        self,
        values: &[i64],
        name: &'static str,
    ) -> Result<([usize; 2], usize), InferError> {
        let error = |reason: String| InferError::Attr { attr: name, reason };
        let &[a, b, c, d] = values else {
            return Err(error(format!(
                "has {}, but must have 4, one for each of {}",
                counted(values.len(), "value"),
                self.name()
            )));
        };
        let (image, channel, spatial) = match self {
            DataFormat::Nhwc => (a, d, [b, c]),
            DataFormat::Nchw => (a, b, [c, d]),
        };
        if image != 1 {
            return Err(InferError::Unsupported(format!(
                "{name} is {image} for images: windows do not move over images, so it must be 1"
            )));
        }
        match [spatial[0], spatial[1], channel].map(positive) {
            [Some(line), Some(column), Some(channels)] => Ok(([line, column], channels)),
            _ => Err(error(format!(
                "is {} for lines, {} for columns and {channel} for channels; each must be between 1 and {}",
                spatial[0],
                spatial[1],
                i32::MAX
            ))),
        }
    }
}

/// The value, if it is between 1 and an i32's maximum.
pub(super) fn positive(value: i64) -> Option<usize> {
    i32::try_from(value)
        .ok()
        .and_then(|v| usize::try_from(v).ok())
        .filter(|&v| v > 0)
}

impl From<DataFormat> for Attr {
    fn from(format: DataFormat) -> Attr {
        Attr::from(format.name())
    }
}

/// Padding around an image, so that windows can start outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Padding {
    /// As much as makes the output `ceil(input / stride)` long, evenly on both sides, an odd element
    /// at the end.
    #[default]
    Same,
    /// None: windows lie within the image.
    Valid,
    /// These rows above and below, and these columns to the left and to the right.
    Explicit([[usize; 2]; 2]),
}

impl Padding {
    /// Value of attribute `padding`.
    pub fn name(self) -> &'static str {
        match self {
            Padding::Same => "SAME",
            Padding::Valid => "VALID",
            Padding::Explicit(_) => "EXPLICIT",
        }
    }

    /// Value of attribute `explicit_paddings`: empty for the other kinds of padding.
    pub fn explicit(self, format: DataFormat) -> Vec<i64> {
        match self {
            // A count beyond an i64 is refused like one beyond an i32.
            Padding::Explicit(sides) => format
                .order([0; 2], [0; 2], sides)
                .into_iter()
                .flatten()
                .map(|n| i64::try_from(n).unwrap_or(i64::MAX))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Padding given by attributes `padding` and `explicit_paddings`.
    ///
    /// # Errors
    /// [`InferError::Attr`].
    pub(crate) fn of(attrs: &Attrs, format: DataFormat) -> Result<Padding, InferError> {
        let explicit = attrs.ints("explicit_paddings");
        let error = |reason: String| InferError::Attr {
            attr: "explicit_paddings",
            reason,
        };
        let plain = match attrs.str("padding") {
            "SAME" => Padding::Same,
            "VALID" => Padding::Valid,
            _ => {
                let &[a, b, c, d, e, f, g, h] = explicit else {
                    return Err(error(format!(
                        "has {}, but must have 8: before and after for each of {}",
                        counted(explicit.len(), "value"),
                        format.name()
                    )));
                };
                let sides = match format {
                    DataFormat::Nhwc => [[a, b], [g, h], [c, d], [e, f]],
                    DataFormat::Nchw => [[a, b], [c, d], [e, f], [g, h]],
                };
                if sides[0] != [0, 0] || sides[1] != [0, 0] {
                    return Err(error("is not 0 for images and channels".to_owned()));
                }
                let count = |n: i64| {
                    i32::try_from(n)
                        .ok()
                        .and_then(|n| usize::try_from(n).ok())
                        .ok_or_else(|| {
                            error(format!("has {n}, but must be between 0 and {}", i32::MAX))
                        })
                };
                let pair = |[n, m]: [i64; 2]| Ok([count(n)?, count(m)?]);
                return Ok(Padding::Explicit([pair(sides[2])?, pair(sides[3])?]));
            }
        };
        if explicit.is_empty() {
            Ok(plain)
        } else {
            Err(error(format!(
                "is given, but padding is {}: leave it out, or set padding to EXPLICIT",
                plain.name()
            )))
        }
    }
}

/// `true` if attribute `dilations` is given; an empty list is that of ones.
pub(super) fn has_dilations(attrs: &Attrs) -> bool {
    attrs.get("dilations").is_some() && !attrs.ints("dilations").is_empty()
}

/// Parameters of windows that slide over the rows and columns of images.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sliding {
    pub(crate) format: DataFormat,
    pub(crate) padding: Padding,
    pub(crate) strides: [usize; 2],
    pub(crate) dilations: [usize; 2],
    /// A window larger than its image has no places, in place of being an error: so for gradients, whose result is
    /// zeros then, as TensorFlow's.
    pub(crate) may_be_empty: bool,
}

impl Sliding {
    /// Reads the attributes of a convolution or of a pooling op.
    ///
    /// # Errors
    /// [`InferError::Attr`].
    pub(crate) fn of(attrs: &Attrs) -> Result<Sliding, InferError> {
        let format = DataFormat::of(attrs);
        let dilations = match has_dilations(attrs) {
            true => format.pair(attrs, "dilations")?,
            false => [1, 1],
        };
        Ok(Sliding {
            format,
            padding: Padding::of(attrs, format)?,
            strides: format.pair(attrs, "strides")?,
            dilations,
            may_be_empty: false,
        })
    }

    /// The same for a gradient: a window larger than its image has no places.
    pub(crate) fn of_gradient(attrs: &Attrs) -> Result<Sliding, InferError> {
        let sliding = Sliding::of(attrs)?;
        Ok(Sliding {
            may_be_empty: true,
            ..sliding
        })
    }

    /// Number of windows of `window` elements along `input` elements of a column (`axis` 0) or a row
    /// (`axis` 1), and the padding before them.
    ///
    /// # Errors
    /// [`InferError::Value`] of input `i`, which has dimension `input`.
    pub(crate) fn count(
        &self,
        i: usize,
        axis: usize,
        input: usize,
        window: usize,
    ) -> Result<(usize, usize), InferError> {
        let along = SlidingAxis {
            what: ["lines", "columns"][axis],
            sides: match self.padding {
                Padding::Same => None,
                Padding::Valid => Some([0, 0]),
                Padding::Explicit(sides) => Some(sides[axis]),
            },
            stride: self.strides[axis],
            dilation: self.dilations[axis],
            may_be_empty: self.may_be_empty,
        };
        along.count(i, input, window)
    }
}

/// Parameters of windows that slide along one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlidingAxis {
    /// The elements of the axis, in the plural.
    pub(super) what: &'static str,
    /// Padding before and after; `None` for that which makes the output `ceil(input / stride)` long.
    pub(super) sides: Option<[usize; 2]>,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    /// As in [`Sliding`].
    pub(super) may_be_empty: bool,
}

impl SlidingAxis {
    /// Number of windows of `window` elements along `input` elements, and the padding before them.
    ///
    /// # Errors
    /// [`InferError::Value`] of input `i`.
    pub(super) fn count(
        self,
        i: usize,
        input: usize,
        window: usize,
    ) -> Result<(usize, usize), InferError> {
        let error = |reason: String| InferError::Value { input: i, reason };
        let SlidingAxis {
            what,
            stride,
            dilation,
            ..
        } = self;
        let limit = |n: usize| i32::try_from(n).is_ok();
        if window == 0 {
            return Err(error(format!("the window has no {what}")));
        }
        // Distance from the first to the last element of a window.
        let seen = (window - 1)
            .checked_mul(dilation)
            .and_then(|n| n.checked_add(1))
            .filter(|&n| limit(n) && limit(input))
            .ok_or_else(|| {
                error(format!(
                    "a window of {window} {what}, {dilation} apart, over {input} is too large: there may be at most {}",
                    i32::MAX
                ))
            })?;
        let Some([before, after]) = self.sides else {
            let count = input.div_ceil(stride);
            let needed = (count.max(1) - 1) * stride + seen;
            return Ok((count, needed.saturating_sub(input) / 2));
        };
        // Each of the three is at most an i32's maximum.
        let padded = input + before + after;
        if (padded < seen && !self.may_be_empty) || !limit(padded) {
            return Err(error(format!(
                "a window that spans {seen} {what} does not fit into {padded} (with the padding): use a smaller window or dilation, more padding, or a larger image"
            )));
        }
        let count = padded.checked_sub(seen).map_or(0, |free| free / stride + 1);
        Ok((count, before))
    }
}

/// Dimensions `[image, channel, row, column]` of a batch of images.
pub(crate) type ImageDims = (Option<usize>, Option<usize>, [Option<usize>; 2]);

/// Dimensions of a batch of images, independent of the format.
pub(crate) fn image_dims(format: DataFormat, shape: &Shape) -> ImageDims {
    let [line, column] = format.spatial();
    (
        shape.dim(0),
        shape.dim(format.channel(4)),
        [shape.dim(line), shape.dim(column)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sliding(padding: Padding, stride: usize, dilation: usize) -> Sliding {
        Sliding {
            format: DataFormat::Nhwc,
            padding,
            strides: [stride; 2],
            dilations: [dilation; 2],
            may_be_empty: false,
        }
    }

    #[test]
    fn same_padding_puts_the_odd_element_after() {
        let count = |stride, input, window| {
            sliding(Padding::Same, stride, 1)
                .count(0, 0, input, window)
                .unwrap()
        };
        assert_eq!(count(1, 5, 5), (5, 2));
        assert_eq!(count(2, 5, 2), (3, 0));
        assert_eq!(count(2, 6, 3), (3, 0));
        assert_eq!(count(2, 0, 3), (0, 1));
    }

    #[test]
    fn a_window_that_does_not_fit_is_an_error() {
        let valid = sliding(Padding::Valid, 1, 2);
        assert_eq!(valid.count(0, 0, 5, 3).unwrap(), (1, 0));
        assert!(valid.count(0, 0, 4, 3).is_err());
        assert!(valid.count(0, 0, 4, 0).is_err());
    }

    #[test]
    fn a_window_that_does_not_fit_has_no_places_in_a_gradient() {
        let sliding = Sliding {
            may_be_empty: true,
            ..sliding(Padding::Valid, 2, 1)
        };
        assert_eq!(sliding.count(0, 0, 1, 3).unwrap(), (0, 0));
        assert_eq!(sliding.count(0, 0, 3, 3).unwrap(), (1, 0));
        assert!(sliding.count(0, 0, 4, 0).is_err());
    }

    #[test]
    fn extents_beyond_an_i32_are_errors_and_do_not_overflow() {
        let most = usize::MAX;
        for padding in [
            Padding::Same,
            Padding::Valid,
            Padding::Explicit([[i32::MAX as usize; 2]; 2]),
        ] {
            let sliding = sliding(padding, i32::MAX as usize, i32::MAX as usize);
            assert!(sliding.count(0, 1, most, most).is_err());
            assert!(sliding.count(0, 1, 5, most).is_err());
            assert!(sliding.count(0, 1, most, 1).is_err());
        }
    }
}
