//! Encoded images, decoded again.

use thalweg_image::encode::{self, JpegOptions};
use thalweg_image::{Image, ImageError, Limits, Size, decode};

/// A smooth picture.
fn picture(height: usize, width: usize, channels: usize) -> Image {
    let pixel = |i: usize| {
        let (y, x, c) = (i / channels / width, i / channels % width, i % channels);
        (128.0 + 90.0 * (y as f32 / 9.0 + c as f32).sin() * (x as f32 / 11.0).cos()) as u8
    };
    let size = Size::new(height, width, channels);
    Image::new(size, (0..size.elements()).map(pixel).collect()).unwrap()
}

fn mean_difference(a: &Image, b: &Image) -> f64 {
    assert_eq!(a.size(), b.size());
    let apart = a
        .pixels
        .iter()
        .zip(&b.pixels)
        .map(|(a, b)| f64::from(a.abs_diff(*b)));
    apart.sum::<f64>() / a.pixels.len() as f64
}

#[test]
fn jpeg_files_are_close_to_the_image() {
    for channels in [1, 3] {
        let image = picture(41, 53, channels);
        for progressive in [false, true] {
            for optimize_size in [false, true] {
                for chroma_downsampling in [false, true] {
                    let options = JpegOptions {
                        progressive,
                        optimize_size,
                        chroma_downsampling,
                        ..Default::default()
                    };
                    let file = encode::jpeg(&image, &options).unwrap();
                    let apart = mean_difference(&image, &decode(&file, 0).unwrap());
                    assert!(apart < 4.0, "{options:?}: {apart}");
                }
            }
        }
    }
}

#[test]
fn a_lower_quality_makes_a_shorter_file() {
    let image = picture(64, 64, 3);
    let length = |quality| {
        encode::jpeg(
            &image,
            &JpegOptions {
                quality,
                ..Default::default()
            },
        )
        .unwrap()
        .len()
    };
    assert!(length(30) < length(95));
}

#[test]
fn the_density_is_in_the_header() {
    let options = JpegOptions {
        density: [72, 0x0102],
        per_centimetre: true,
        ..Default::default()
    };
    let file = encode::jpeg(&picture(8, 8, 1), &options).unwrap();
    assert_eq!(file[6..18], *b"JFIF\0\x01\x02\x02\x00\x48\x01\x02");
}

#[test]
fn png_files_keep_every_bit() {
    for channels in 1..=4 {
        let image = picture(13, 7, channels);
        assert_eq!(decode(&encode::png(&image).unwrap(), 0).unwrap(), image);
        let wide: Vec<u16> = image.pixels.iter().map(|&x| u16::from(x) * 251).collect();
        let file = encode::png_u16(&wide, image.size()).unwrap();
        let read = thalweg_image::decode::png_u16(&file, 0, &Limits::default()).unwrap();
        assert_eq!(read, (image.size(), wide));
    }
}

#[test]
fn sizes_that_a_format_cannot_have_are_errors() {
    let empty = Image::new(Size::new(0, 3, 3), Vec::new()).unwrap();
    let options = JpegOptions::default();
    assert!(matches!(
        encode::jpeg(&empty, &options),
        Err(ImageError::Argument(_))
    ));
    assert!(matches!(encode::png(&empty), Err(ImageError::Argument(_))));
    let flat = Image::new(Size::new(1, 70_000, 1), vec![0; 70_000]).unwrap();
    assert!(matches!(
        encode::jpeg(&flat, &options),
        Err(ImageError::Argument(_))
    ));
    let five = Image::new(Size::new(1, 1, 5), vec![0; 5]).unwrap();
    assert!(matches!(
        encode::png(&five),
        Err(ImageError::Channels { .. })
    ));
    let quality = JpegOptions {
        quality: 0,
        ..options
    };
    assert!(encode::jpeg(&picture(8, 8, 1), &quality).is_err());
}
