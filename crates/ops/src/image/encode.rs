//! EncodeJpeg, EncodeJpegVariableQuality, EncodePng.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, Gradient, arg, arg_of, bool_attr, int_attr, str_attr, type_attr_or};
use thalweg_image::encode::{JpegOptions, jpeg_into, png, png_u16};
use thalweg_image::{Image, Size};
use thalweg_tensor::{DType, Shape, Tensor};

use super::images::image_error;
use crate::support::shapes::{expect_scalar, scalar};

const CONTENTS: &[Arg] = &[arg_of("contents", DType::String)];

/// Size of an image of rank 3.
fn size(dims: &[usize]) -> Result<Size, KernelError> {
    match *dims {
        [height, width, channels] => Ok(Size::new(height, width, channels)),
        _ => Err(KernelError::Argument("an image")),
    }
}

fn jpeg(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (image, attrs) = (cx.tensor(0)?, cx.attrs());
    let size = size(image.dims())?;
    let channels = match attrs.str("format") {
        "grayscale" => 1,
        "rgb" => 3,
        _ => size.channels,
    };
    if channels != size.channels {
        return Err(KernelError::Invalid(format!(
            "the image has {} channels, but the format asks for {channels}",
            size.channels
        )));
    }
    if !attrs.str("xmp_metadata").is_empty() {
        let text = "metadata in XMP are not supported: leave xmp_metadata empty";
        return Err(KernelError::Invalid(text.to_owned()));
    }
    let number = |name: &str| {
        let n = attrs.int(name);
        u16::try_from(n)
            .map_err(|_| KernelError::Invalid(format!("{name} is {n}, but is at most 65535")))
    };
    let options = JpegOptions {
        quality: u8::try_from(attrs.int("quality")).unwrap_or(0),
        progressive: attrs.bool("progressive"),
        optimize_size: attrs.bool("optimize_size"),
        chroma_downsampling: attrs.bool("chroma_downsampling"),
        density: [number("x_density")?, number("y_density")?],
        per_centimetre: attrs.str("density_unit") == "cm",
    };
    let mut file = Vec::new();
    jpeg_into(image.as_slice::<u8>()?, size, &options, &mut file).map_err(image_error)?;
    Ok(vec![cx.strings_of(&[], [file])?])
}

fn jpeg_of_quality(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (image, quality) = (cx.tensor(0)?, cx.int(1)?);
    let quality = u8::try_from(quality).ok().filter(|&q| q <= 100);
    let options = JpegOptions {
        quality: quality
            .ok_or_else(|| KernelError::Invalid("quality must be in range [0, 100]".to_owned()))?,
        progressive: false,
        optimize_size: false,
        chroma_downsampling: true,
        density: [300, 300],
        per_centimetre: false,
    };
    let mut file = Vec::new();
    let size = size(image.dims())?;
    jpeg_into(image.as_slice::<u8>()?, size, &options, &mut file).map_err(image_error)?;
    Ok(vec![cx.strings_of(&[], [file])?])
}

/// Pixels as a JPEG file, whose quality is an input.
pub(crate) static ENCODE_JPEG_VARIABLE_QUALITY: Op = Op {
    def: OpDef {
        name: "EncodeJpegVariableQuality",
        summary: "An image as a JPEG file of a quality from 0 to 100.",
        inputs: &[arg_of("images", DType::U8), arg_of("quality", DType::I32)],
        outputs: CONTENTS,
        shape: |cx| {
            cx.ranked(0, 3)?;
            expect_scalar(cx, 1)?;
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(jpeg_of_quality)],
};

fn encode_png(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let images = cx.tensor(0)?;
    let rank = images.dims().len().saturating_sub(3);
    let (batch, image) = images.dims().split_at(rank);
    let size = size(image)?;
    let all = size.elements().max(1);
    let files: Result<Vec<Vec<u8>>, _> = match images.dtype() {
        DType::U16 => {
            let pixels = images.as_slice::<u16>()?.chunks_exact(all);
            pixels.map(|pixels| png_u16(pixels, size)).collect()
        }
        _ => {
            let pixels = images.as_slice::<u8>()?.chunks_exact(all);
            pixels
                .map(|pixels| png(&Image::new(size, pixels.to_vec())?))
                .collect()
        }
    };
    Ok(vec![cx.strings_of(batch, files.map_err(image_error)?)?])
}

/// Pixels as a JPEG file.
pub(crate) static ENCODE_JPEG: Op = Op {
    def: OpDef {
        name: "EncodeJpeg",
        summary: "An image as a JPEG file.",
        inputs: &[arg_of("image", DType::U8)],
        outputs: CONTENTS,
        attrs: &[
            str_attr("format", "", &["", "grayscale", "rgb"]),
            int_attr("quality", 95),
            bool_attr("progressive", false),
            bool_attr("optimize_size", false),
            bool_attr("chroma_downsampling", true),
            str_attr("density_unit", "in", &["in", "cm"]),
            int_attr("x_density", 300),
            int_attr("y_density", 300),
            str_attr("xmp_metadata", "", &[]),
        ],
        shape: |cx| {
            cx.ranked(0, 3)?;
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(jpeg)],
};

/// Pixels as PNG files.
pub(crate) static ENCODE_PNG: Op = Op {
    def: OpDef {
        name: "EncodePng",
        summary: "Images as PNG files, one for each of the outer dimensions.",
        inputs: &[arg("image", "T")],
        outputs: CONTENTS,
        attrs: &[
            int_attr("compression", -1),
            type_attr_or("T", &[DType::U8, DType::U16], DType::U8),
        ],
        shape: |cx| {
            let image = super::images::at_least(cx, 0, 3)?;
            let outer = image.dims().map(|dims| &dims[..dims.len() - 3]);
            cx.set(
                0,
                outer.map_or(Shape::unknown(), |dims| {
                    Shape::partial(dims.iter().copied())
                }),
            );
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(encode_png)],
};
