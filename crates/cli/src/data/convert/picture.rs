//! Pictures as records: tf.Example with ImageNet's keys, Caffe's Datum.

use thalweg_data::example::{Datum, ExampleWriter};
use thalweg_image::encode::{self, JpegOptions};
use thalweg_image::pixels::{Method, Resize};
use thalweg_image::{Format, Image, ImageError, Size, decode};

use crate::data::keys;

/// Options of the pictures of a conversion.
#[derive(Clone, Copy)]
pub(super) struct PictureOptions {
    /// Longest shorter side of a picture, in pixels.
    pub(super) shorter_side: Option<usize>,
    /// Quality of JPEG files that are made.
    pub(super) quality: u8,
    /// Label of the first class.
    pub(super) first_label: i32,
    /// `true` for Caffe's Datum, `false` for tf.Example.
    pub(super) datum: bool,
}

/// The class and the name of a picture.
pub(super) struct About<'a> {
    /// Number of the class, from 0.
    pub(super) class: usize,
    /// Name of the class.
    pub(super) text: &'a str,
    /// Name of the file.
    pub(super) filename: &'a str,
}

/// A picture as a file.
struct Encoded {
    file: Vec<u8>,
    format: Format,
    size: Size,
}

/// The record of a picture in a file. The file itself is kept unless the picture is made smaller.
pub(super) fn of_file(
    file: Vec<u8>,
    about: &About<'_>,
    options: &PictureOptions,
) -> Result<Vec<u8>, ImageError> {
    // Decodes all of it, so that no damaged file becomes a record.
    let image = decode(&file, 0)?;
    let format = Format::of(&file).unwrap_or(Format::Png);
    let encoded = match shrunk(&image, options)? {
        Some(image) => encoded(&image, format, options)?,
        None => Encoded {
            size: image.size(),
            file,
            format,
        },
    };
    Ok(record(&encoded, about, options))
}

/// The record of an image in memory, as a PNG file.
pub(super) fn of_image(
    image: Image,
    about: &About<'_>,
    options: &PictureOptions,
) -> Result<Vec<u8>, ImageError> {
    let image = shrunk(&image, options)?.unwrap_or(image);
    let encoded = encoded(&image, Format::Png, options)?;
    Ok(record(&encoded, about, options))
}

/// Encodes an image as JPEG if it was one, and as PNG otherwise.
fn encoded(image: &Image, was: Format, options: &PictureOptions) -> Result<Encoded, ImageError> {
    let jpeg = JpegOptions {
        quality: options.quality,
        ..JpegOptions::default()
    };
    let (format, file) = match was {
        Format::Jpeg => (Format::Jpeg, encode::jpeg(image, &jpeg)?),
        _ => (Format::Png, encode::png(image)?),
    };
    let size = image.size();
    Ok(Encoded { file, format, size })
}

/// The image with a shorter side of the option's length; `None` if its shorter side is not longer.
fn shrunk(image: &Image, options: &PictureOptions) -> Result<Option<Image>, ImageError> {
    let size = image.size();
    let shorter = size.height.min(size.width);
    let Some(side) = options.shorter_side.filter(|&side| side < shorter) else {
        return Ok(None);
    };
    let scaled =
        |n: usize| ((n as u128 * side as u128 + shorter as u128 / 2) / shorter as u128) as usize;
    let to = [size.height, size.width].map(scaled);
    let smaller = Size::new(to[0], to[1], size.channels);
    let mut pixels = vec![0.0; smaller.elements()];
    // The mean over the area of a pixel: other methods skip pixels where an image becomes much smaller.
    let resize = Resize {
        method: Method::Area,
        ..Resize::default()
    };
    resize.run(&image.pixels, size, to, &mut pixels)?;
    // Conversions saturate.
    let pixels = pixels.into_iter().map(|x| x.round() as u8).collect();
    Image::new(smaller, pixels).map(Some)
}

fn record(picture: &Encoded, about: &About<'_>, options: &PictureOptions) -> Vec<u8> {
    let size = picture.size;
    let colors = match size.channels {
        1 | 2 => "Grayscale",
        _ => "RGB",
    };
    let label = options.first_label.saturating_add(about.class as i32);
    if options.datum {
        return datum(picture, label);
    }
    let mut example = ExampleWriter::new()
        .bytes(keys::ENCODED, [&picture.file])
        .bytes(keys::FORMAT, [picture.format.to_string()])
        .bytes(keys::COLORSPACE, [colors])
        .ints(keys::CHANNELS, &[size.channels as i64])
        .ints(keys::HEIGHT, &[size.height as i64])
        .ints(keys::WIDTH, &[size.width as i64])
        .bytes(keys::FILENAME, [about.filename])
        .ints(keys::LABEL, &[label.into()])
        .bytes(keys::TEXT, [about.text]);
    if is_synset(about.text) {
        example = example.bytes(keys::SYNSET, [about.text]);
    }
    example.finish()
}

/// A Datum that holds the file of a picture.
fn datum(picture: &Encoded, label: i32) -> Vec<u8> {
    // An empty message is a Datum without a value in any field.
    let empty = Datum::parse(&[]).map(|datum| Datum {
        channels: picture.size.channels as i32,
        height: picture.size.height as i32,
        width: picture.size.width as i32,
        data: &picture.file,
        label,
        encoded: true,
        ..datum
    });
    empty.map(|datum| datum.to_vec()).unwrap_or_default()
}

/// `true` for a WordNet number of a noun: n and eight digits.
fn is_synset(name: &str) -> bool {
    let digits = name.strip_prefix('n');
    digits.is_some_and(|d| d.len() == 8 && d.bytes().all(|b| b.is_ascii_digit()))
}
