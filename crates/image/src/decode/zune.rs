//! Decoding of JPEG files in Rust. Colours that the decoder does not convert, or converts in another way than libjpeg, are
//! converted here.

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::jpeg::{header, without_lines_below};
use super::jpeg_color::{cmyk_to_rgb, convert};
use super::jpeg_header::{Coding, JpegHeader};
use super::limits::Limits;
use super::window::copy_window;
use crate::{Format, ImageError, Size, Window};

/// Decoder in Rust.
#[derive(Default)]
pub(super) struct Jpeg {
    /// Samples that are not converted yet.
    raw: Vec<u8>,
    /// The lines of an image of which a window is wanted.
    lines: Vec<u8>,
}

impl Jpeg {
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        channels: usize,
        limits: &Limits,
        pixels: &mut Vec<u8>,
    ) -> Result<Size, ImageError> {
        let (header, size) = header(bytes, channels, limits)?;
        let corrupt = |e| ImageError::corrupt(Format::Jpeg, format!("{e:?}"));
        let options = DecoderOptions::default()
            .set_max_width(usize::MAX)
            .set_max_height(usize::MAX);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(corrupt)?;
        let found = decoder
            .info()
            .map(|i| (usize::from(i.height), usize::from(i.width)));
        let Some(space) = decoder
            .input_colorspace()
            .filter(|_| found == Some((size.height, size.width)))
        else {
            return Err(ImageError::corrupt(Format::Jpeg, "it has several frames"));
        };
        pixels.resize(size.elements(), 0);
        // Its conversions from YCbCr and grey are fast; for the other codings it gives samples.
        let converted = matches!(
            (header.coding, space),
            (Coding::YCbCr, ColorSpace::YCbCr) | (Coding::Grey, ColorSpace::Luma)
        );
        if converted {
            let to = if size.channels == 1 {
                ColorSpace::Luma
            } else {
                ColorSpace::RGB
            };
            decoder.set_options(options.jpeg_set_out_colorspace(to));
            decoder.decode_into(pixels).map_err(corrupt)?;
            return Ok(size);
        }
        decoder.set_options(options.jpeg_set_out_colorspace(space));
        let samples = size.height * size.width * space.num_components();
        self.raw.resize(samples, 0);
        decoder.decode_into(&mut self.raw).map_err(corrupt)?;
        self.convert(&header, space.num_components(), size.channels, pixels)?;
        Ok(size)
    }

    /// Decodes the image down to the last line of a window, which lies in it.
    pub(super) fn decode_window(
        &mut self,
        bytes: &[u8],
        window: Window,
        channels: usize,
        limits: &Limits,
        pixels: &mut Vec<u8>,
    ) -> Result<Size, ImageError> {
        let (header, _) = header(bytes, channels, limits)?;
        let cut = without_lines_below(&header, bytes, window);
        let bytes = cut.as_ref().map_or(bytes, |(cut, _)| cut);
        let mut lines = std::mem::take(&mut self.lines);
        let decoded = self.decode(bytes, channels, limits, &mut lines);
        self.lines = lines;
        Ok(copy_window(&self.lines, decoded?, window, pixels))
    }

    /// Converts samples to grey or RGB.
    fn convert(
        &self,
        header: &JpegHeader,
        components: usize,
        channels: usize,
        pixels: &mut [u8],
    ) -> Result<(), ImageError> {
        let (raw, adobe) = (&*self.raw, header.adobe);
        match (header.coding, components, channels) {
            (Coding::YCbCr, 3, 1) => convert(raw, pixels, |[y, _, _]: [u8; 3]| [y]),
            (Coding::YCbCr, 3, _) => convert(raw, pixels, ycc_to_rgb),
            (Coding::Rgb, 3, 1) => convert(raw, pixels, |rgb| [rgb_to_grey(rgb)]),
            (Coding::Rgb, 3, _) => pixels.copy_from_slice(raw),
            (Coding::Cmyk, 4, 3) => convert(raw, pixels, |x| cmyk_to_rgb(x, adobe)),
            (Coding::Ycck, 4, 3) => {
                convert(raw, pixels, |x| cmyk_to_rgb(ycck_to_cmyk(x), adobe));
            }
            (coding, n, _) => {
                let reason = format!("{n} components are coded as {coding:?}");
                return Err(ImageError::unsupported(Format::Jpeg, reason));
            }
        }
        Ok(())
    }
}

/// Fixed-point factor with 16 bits after the point, as in `jdcolor.c`.
const fn fix(x: f64) -> i32 {
    (x * 65536.0 + 0.5) as i32
}

const HALF: i32 = 1 << 15;

/// RGB of a pixel in YCbCr (`ycc_rgb_convert`).
fn ycc_to_rgb([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((fix(1.40200) * cr + HALF) >> 16);
    let green = y + ((-fix(0.34414) * cb - fix(0.71414) * cr + HALF) >> 16);
    let blue = y + ((fix(1.77200) * cb + HALF) >> 16);
    [red, green, blue].map(|x| x.clamp(0, 255) as u8)
}

/// CMYK of a pixel in YCCK (`ycck_cmyk_convert`).
fn ycck_to_cmyk([y, cb, cr, k]: [u8; 4]) -> [u8; 4] {
    let [r, g, b] = ycc_to_rgb([y, cb, cr]);
    [255 - r, 255 - g, 255 - b, k]
}

/// Grey of a pixel in RGB (`rgb_gray_convert`).
fn rgb_to_grey([r, g, b]: [u8; 3]) -> u8 {
    let sum =
        fix(0.29900) * i32::from(r) + fix(0.58700) * i32::from(g) + fix(0.11400) * i32::from(b);
    ((sum + HALF) >> 16) as u8
}
