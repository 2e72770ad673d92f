//! DecodeJpeg, DecodeAndCropJpeg, DecodePng, DecodeBmp, DecodeGif, DecodeImage, ExtractJpegShape.
//!
//! As in TensorFlow, the format is that of the bytes, and an op takes some formats besides the one of its name. JPEG is
//! decoded with the accurate DCT and interpolated colours, whatever `dct_method` and `fancy_upscaling` say.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, arg, arg_of, bool_attr, float_attr, int_attr, str_attr, type_attr_or,
};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_image::decode::{Frames, gif_frames, png_u16};
use thalweg_image::{Decoder, Format, Limits, Size, Window, size_of};
use thalweg_tensor::{DType, Shape, Tensor};

use super::images::image_error;
use crate::support::shape_inputs::vector_length;
use crate::support::shapes::expect_scalar;
use crate::support::tensors::integers;

const CONTENTS: Arg = arg_of("contents", DType::String);
const BYTES: &[Arg] = &[arg_of("image", DType::U8)];
const CHANNELS: AttrDef = int_attr("channels", 0);
const JPEG_ATTRS: &[AttrDef] = &[
    CHANNELS,
    int_attr("ratio", 1),
    bool_attr("fancy_upscaling", true),
    bool_attr("try_recover_truncated", false),
    float_attr("acceptable_fraction", 1.0),
    str_attr("dct_method", "", &[]),
];

/// The only string of input 0.
fn contents<'a>(cx: &TensorCx<'a>) -> Result<&'a [u8], KernelError> {
    let all = cx.strings(0)?;
    match all.only() {
        Some(one) => Ok(one),
        None => Err(KernelError::Invalid(format!(
            "the contents are a scalar, the bytes of one file, and not {} strings",
            all.len()
        ))),
    }
}

/// The attribute `channels`.
fn channels(cx: &TensorCx<'_>) -> Result<usize, KernelError> {
    match cx.attrs().int("channels") {
        n @ (0 | 1 | 3 | 4) => Ok(n as usize),
        n => Err(KernelError::Invalid(format!(
            "channels is {n}, but must be 0 (as in the file), 1, 3 or 4"
        ))),
    }
}

fn dims(size: Size) -> [usize; 3] {
    [size.height, size.width, size.channels]
}

/// Checks the attributes of a JPEG op that are not supported.
fn check_jpeg(cx: &TensorCx<'_>) -> Result<(), KernelError> {
    match cx.attrs().int("ratio") {
        1 => Ok(()),
        ratio => Err(KernelError::Invalid(format!(
            "ratio is {ratio}, but only 1 is supported: resize the image afterwards"
        ))),
    }
}

/// The formats that an op takes, beside GIF.
fn expect(cx: &TensorCx<'_>, formats: &[Format]) -> Result<Format, KernelError> {
    let bytes = contents(cx)?;
    match Format::of(bytes) {
        Some(format) if formats.contains(&format) => Ok(format),
        Some(format) => Err(KernelError::Invalid(format!(
            "the contents are a {format} file, which this op does not decode: use DecodeImage"
        ))),
        // The error of the decoder shows the first bytes.
        None => size_of(bytes).map(|_| Format::Jpeg).map_err(image_error),
    }
}

/// An error unless the channels that are asked for, if the op has that attribute, are those of GIF.
fn check_gif(cx: &TensorCx<'_>) -> Result<(), KernelError> {
    match cx.attrs().get(CHANNELS.name).map(|_| channels(cx)) {
        None | Some(Ok(0 | 3)) => Ok(()),
        Some(Err(e)) => Err(e),
        Some(Ok(n)) => Err(KernelError::Invalid(format!(
            "a GIF image has 3 channels, and not {n}: set channels to 0 or 3"
        ))),
    }
}

/// All frames of a GIF file.
fn frames(cx: &TensorCx<'_>) -> Result<Frames, KernelError> {
    check_gif(cx)?;
    gif_frames(contents(cx)?, &Limits::default()).map_err(image_error)
}

/// The picture of a file without animation, in bytes.
fn picture(cx: &TensorCx<'_>) -> Result<(Size, Vec<u8>), KernelError> {
    if Format::of(contents(cx)?) == Some(Format::Gif) {
        let frames = frames(cx)?;
        return match frames.count {
            1 => Ok((frames.size, frames.pixels)),
            n => Err(KernelError::Invalid(format!(
                "the GIF has {n} frames: use DecodeGif, or DecodeImage"
            ))),
        };
    }
    let mut pixels = Vec::new();
    let decoded = Decoder::default().decode(contents(cx)?, channels(cx)?, &mut pixels);
    Ok((decoded.map_err(image_error)?, pixels))
}

const STILL: &[Format] = &[Format::Jpeg, Format::Png, Format::Gif];

fn decode_jpeg(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    check_jpeg(cx)?;
    expect(cx, STILL)?;
    let (size, pixels) = picture(cx)?;
    Ok(vec![cx.tensor_of(&dims(size), &pixels)?])
}

fn decode_and_crop(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    check_jpeg(cx)?;
    expect(cx, &[Format::Jpeg])?;
    let window = cx.tensor(1)?.as_slice::<i32>()?;
    let places: Option<Vec<usize>> = window.iter().map(|&n| usize::try_from(n).ok()).collect();
    let Some(&[y, x, height, width]) = places.as_deref() else {
        return Err(KernelError::Invalid(format!(
            "the crop window is {window:?}, but is a line, a column, a height and a width"
        )));
    };
    let window = Window {
        y,
        x,
        height,
        width,
    };
    let mut pixels = Vec::new();
    let size = Decoder::default()
        .decode_window(contents(cx)?, window, channels(cx)?, &mut pixels)
        .map_err(image_error)?;
    Ok(vec![cx.tensor_of(&dims(size), &pixels)?])
}

/// Pixels of bytes in the dtype of the node. TensorFlow multiplies by 256 for `u16`.
fn converted(cx: &TensorCx<'_>, dims: &[usize], pixels: &[u8]) -> Result<Tensor, KernelError> {
    match cx.attrs().dtype("dtype").unwrap_or(DType::U8) {
        DType::U16 => {
            let wide: Vec<u16> = pixels.iter().map(|&x| u16::from(x) << 8).collect();
            cx.tensor_of(dims, &wide)
        }
        DType::F32 => {
            let floats: Vec<f32> = pixels
                .iter()
                .map(|&x| f32::from(x) * (1.0 / 255.0))
                .collect();
            cx.tensor_of(dims, &floats)
        }
        _ => cx.tensor_of(dims, pixels),
    }
}

/// A PNG file in the dtype of the node.
fn png(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let dtype = cx.attrs().dtype("dtype").unwrap_or(DType::U8);
    if dtype == DType::U8 {
        let (size, pixels) = picture(cx)?;
        return Ok(vec![cx.tensor_of(&dims(size), &pixels)?]);
    }
    let wide = png_u16(contents(cx)?, channels(cx)?, &Limits::default());
    let (size, wide) = wide.map_err(image_error)?;
    if dtype == DType::U16 {
        return Ok(vec![cx.tensor_of(&dims(size), &wide)?]);
    }
    let floats: Vec<f32> = wide
        .iter()
        .map(|&x| f32::from(x) * (1.0 / 65535.0))
        .collect();
    Ok(vec![cx.tensor_of(&dims(size), &floats)?])
}

fn decode_png(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    if expect(cx, STILL)? == Format::Png {
        return png(cx);
    }
    let (size, pixels) = picture(cx)?;
    Ok(vec![converted(cx, &dims(size), &pixels)?])
}

fn decode_bmp(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    expect(cx, &[Format::Bmp])?;
    let (size, pixels) = picture(cx)?;
    Ok(vec![cx.tensor_of(&dims(size), &pixels)?])
}

/// A GIF file with its frames as the first dimension.
fn animation(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let frames = frames(cx)?;
    let [height, width, channels] = dims(frames.size);
    let dims = [frames.count, height, width, channels];
    Ok(vec![converted(cx, &dims, &frames.pixels)?])
}

fn decode_image(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let all = [Format::Jpeg, Format::Png, Format::Gif, Format::Bmp];
    match expect(cx, &all)? {
        Format::Png => png(cx),
        Format::Gif if cx.attrs().bool("expand_animations") => animation(cx),
        Format::Gif => {
            check_gif(cx)?;
            let mut pixels = Vec::new();
            let decoded = Decoder::default().decode(contents(cx)?, 3, &mut pixels);
            let size = decoded.map_err(image_error)?;
            Ok(vec![converted(cx, &dims(size), &pixels)?])
        }
        _ => {
            let (size, pixels) = picture(cx)?;
            Ok(vec![converted(cx, &dims(size), &pixels)?])
        }
    }
}

fn jpeg_shape(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    expect(cx, &[Format::Jpeg])?;
    let size = size_of(contents(cx)?).map_err(image_error)?;
    let values = dims(size).map(|n| n as i64);
    Ok(vec![integers(cx, "output_type", values.into_iter())?])
}

/// Shape of a picture: the channels are known if they are asked for.
fn picture_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 0)?;
    let channels = match usize::try_from(cx.attrs().int("channels")) {
        Ok(0) => None,
        Ok(n) => Some(n),
        Err(_) => {
            return Err(InferError::Attr {
                attr: "channels",
                reason: "it is negative".to_owned(),
            });
        }
    };
    cx.set(0, Shape::partial([None, None, channels]));
    Ok(())
}

/// A JPEG file as pixels.
pub(crate) static DECODE_JPEG: Op = Op {
    def: OpDef {
        name: "DecodeJpeg",
        summary: "The pixels of a JPEG file; PNG and GIF files without animation are decoded too.",
        inputs: &[CONTENTS],
        outputs: BYTES,
        attrs: JPEG_ATTRS,
        shape: picture_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode_jpeg)],
};

/// A window of a JPEG file as pixels.
pub(crate) static DECODE_AND_CROP_JPEG: Op = Op {
    def: OpDef {
        name: "DecodeAndCropJpeg",
        summary: "The pixels of a window of a JPEG file.",
        inputs: &[CONTENTS, arg_of("crop_window", DType::I32).host()],
        outputs: BYTES,
        attrs: JPEG_ATTRS,
        shape: |cx| {
            picture_shape(cx)?;
            if vector_length(cx, 1)?.is_some_and(|n| n != 4) {
                return Err(InferError::Value {
                    input: 1,
                    reason: "a crop window is a line, a column, a height and a width".to_owned(),
                });
            }
            let Some(values) = cx.ints(1) else {
                return Ok(());
            };
            let side = |i: usize| values.get(i).and_then(|&n| usize::try_from(n).ok());
            let channels = usize::try_from(cx.attrs().int("channels")).ok();
            let shape = Shape::partial([side(2), side(3), channels.filter(|&n| n > 0)]);
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode_and_crop)],
};

/// A PNG file as pixels.
pub(crate) static DECODE_PNG: Op = Op {
    def: OpDef {
        name: "DecodePng",
        summary: "The pixels of a PNG file; JPEG and GIF files without animation are decoded too.",
        inputs: &[CONTENTS],
        outputs: &[arg("image", "dtype")],
        attrs: &[
            CHANNELS,
            type_attr_or("dtype", &[DType::U8, DType::U16], DType::U8),
        ],
        shape: picture_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode_png)],
};

/// A BMP file as pixels.
pub(crate) static DECODE_BMP: Op = Op {
    def: OpDef {
        name: "DecodeBmp",
        summary: "The pixels of a BMP file.",
        inputs: &[CONTENTS],
        outputs: BYTES,
        attrs: &[CHANNELS],
        shape: picture_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode_bmp)],
};

/// A GIF file as frames.
pub(crate) static DECODE_GIF: Op = Op {
    def: OpDef {
        name: "DecodeGif",
        summary: "The frames of a GIF file.",
        inputs: &[CONTENTS],
        outputs: BYTES,
        shape: |cx| {
            expect_scalar(cx, 0)?;
            cx.set(0, Shape::partial([None, None, None, Some(3)]));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        expect(cx, &[Format::Gif])?;
        animation(cx)
    })],
};

/// An image file as pixels.
pub(crate) static DECODE_IMAGE: Op = Op {
    def: OpDef {
        name: "DecodeImage",
        summary: "The pixels of a JPEG, PNG, BMP or GIF file; an animation has a dimension for its frames.",
        inputs: &[CONTENTS],
        outputs: &[arg("image", "dtype")],
        attrs: &[
            CHANNELS,
            type_attr_or("dtype", &[DType::U8, DType::U16, DType::F32], DType::U8),
            bool_attr("expand_animations", true),
        ],
        // An animation has one dimension more.
        shape: |cx| match cx.attrs().bool("expand_animations") {
            true => expect_scalar(cx, 0),
            false => picture_shape(cx),
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode_image)],
};

/// Size of a JPEG file.
pub(crate) static EXTRACT_JPEG_SHAPE: Op = Op {
    def: OpDef {
        name: "ExtractJpegShape",
        summary: "Height, width and channels of a JPEG file, from its header.",
        inputs: &[CONTENTS],
        outputs: &[arg("image_shape", "output_type")],
        attrs: &[type_attr_or("output_type", DType::INDICES, DType::I32)],
        shape: |cx| {
            expect_scalar(cx, 0)?;
            cx.set(0, Shape::from([3]));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(jpeg_shape)],
};
