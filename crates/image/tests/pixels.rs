//! Operations on pixels compared with TensorFlow's on the cases of `golden/pixels.py`.

mod support;

use serde_json::Value;
use support::{array, lines};
use thalweg_image::pixels::{self, Method, Resize, Sampling};
use thalweg_image::{Size, Window};

/// The numbers of the cases of an op that differ from TensorFlow's, in units of the last place.
fn most_ulps(op: &str, run: impl Fn(&Value, &mut Vec<f32>, Size)) -> u32 {
    let mut most = 0;
    let mut cases = 0;
    for line in lines("pixels").into_iter().filter(|line| line["op"] == op) {
        let (size, mut image) = array(&line["image"]);
        let (_, expected) = array(&line["result"]);
        run(&line, &mut image, size);
        assert_eq!(image.len(), expected.len(), "{}", line["options"]);
        for (&a, &b) in image.iter().zip(&expected) {
            // Zeros of both signs are equal.
            if a != b {
                let apart = a.to_bits().abs_diff(b.to_bits());
                if std::env::var_os("DIFFERENCES").is_some() {
                    println!("{op} {}: {a} {b}", line["options"]);
                }
                most = most.max(apart);
            }
        }
        cases += 1;
    }
    assert!(cases > 0, "{op}");
    most
}

fn value(line: &Value) -> f32 {
    line["options"]["value"].as_f64().unwrap() as f32
}

fn each(pixels: &mut [f32], f: impl Fn([f32; 3]) -> [f32; 3]) {
    pixels
        .as_chunks_mut::<3>()
        .0
        .iter_mut()
        .for_each(|p| *p = f(*p));
}

fn rule(line: &Value) -> Resize {
    Resize {
        method: match line["options"]["method"].as_str().unwrap() {
            "Nearest" => Method::Nearest,
            "Bilinear" => Method::Bilinear,
            "Bicubic" => Method::Bicubic,
            _ => Method::Area,
        },
        sampling: match line["options"]["sampling"].as_str().unwrap() {
            "Corner" => Sampling::Corner,
            "AlignCorners" => Sampling::AlignCorners,
            _ => Sampling::HalfPixel,
        },
    }
}

#[test]
fn resized_images_are_tensorflows_to_the_bit() {
    let most = most_ulps("resize", |line, image, size| {
        let (to, _) = array(&line["result"]);
        let mut out = vec![0.0; to.elements()];
        let to = [to.height, to.width];
        rule(line).run(image, size, to, &mut out).unwrap();
        *image = out;
    });
    assert_eq!(most, 0);
}

#[test]
fn a_window_of_a_resized_image_is_a_part_of_it() {
    for line in lines("pixels")
        .into_iter()
        .filter(|line| line["op"] == "resize")
    {
        let (size, image) = array(&line["image"]);
        let (whole, _) = array(&line["result"]);
        let to = [whole.height, whole.width];
        let mut all = vec![0.0; whole.elements()];
        rule(&line).run(&image, size, to, &mut all).unwrap();
        let window = Window {
            y: whole.height / 3,
            x: whole.width / 4,
            height: whole.height.div_ceil(2),
            width: whole.width.div_ceil(2),
        };
        let mut part = vec![0.0; window.height * window.width * whole.channels];
        rule(&line)
            .run_window(&image, size, to, window, &mut part)
            .unwrap();
        let mut cut = part.clone();
        pixels::crop(&all, whole, window, &mut cut).unwrap();
        assert_eq!(part, cut, "{}", line["options"]);
    }
}

#[test]
fn colors_are_tensorflows_to_the_bit() {
    let hsv = most_ulps("rgb_to_hsv", |_, image, _| each(image, pixels::rgb_to_hsv));
    let rgb = most_ulps("hsv_to_rgb", |_, image, _| each(image, pixels::hsv_to_rgb));
    let hue = most_ulps("adjust_hue", |line, image, _| {
        pixels::adjust_hue(image, value(line));
    });
    let saturation = most_ulps("adjust_saturation", |line, image, _| {
        pixels::adjust_saturation(image, value(line));
    });
    let contrast = most_ulps("adjust_contrast", |line, image, size| {
        pixels::adjust_contrast(image, size, value(line)).unwrap();
    });
    assert_eq!((hsv, rgb, hue, saturation, contrast), (0, 0, 0, 0, 0));
}

#[test]
fn hues_far_out_of_range_end() {
    for delta in [f32::MAX, f32::NEG_INFINITY, f32::NAN, 1e9] {
        pixels::shift_hue([0.1, 0.5, 0.9], delta);
        pixels::scale_saturation([f32::MIN_POSITIVE, 0.0, delta], 1.0);
        pixels::scale_saturation([1e-45, 0.0, 0.0], delta);
    }
}

#[test]
fn flips_mirror_and_undo_themselves() {
    for channels in [1, 2, 3] {
        let size = Size::new(3, 5, channels);
        let image: Vec<usize> = (0..size.elements()).collect();
        let at = |y: usize, x: usize, c: usize| image[(y * 5 + x) * channels + c];
        let mut flipped = image.clone();
        pixels::flip_left_right(&mut flipped, size).unwrap();
        assert_eq!(
            flipped[..channels],
            *Vec::from_iter((0..channels).map(|c| at(0, 4, c)))
        );
        pixels::flip_left_right(&mut flipped, size).unwrap();
        assert_eq!(flipped, image);
        pixels::flip_up_down(&mut flipped, size).unwrap();
        assert_eq!(
            flipped[..channels],
            *Vec::from_iter((0..channels).map(|c| at(2, 0, c)))
        );
        pixels::flip_up_down(&mut flipped, size).unwrap();
        assert_eq!(flipped, image);
    }
}

#[test]
fn a_padded_image_is_cut_out_again() {
    let (size, inner) = (
        Size::new(6, 7, 2),
        Window {
            y: 2,
            x: 1,
            height: 3,
            width: 4,
        },
    );
    let image: Vec<u8> = (1..=24).collect();
    let mut padded = vec![9; size.elements()];
    pixels::pad(&image, inner, 0, &mut padded, size).unwrap();
    assert_eq!(padded.iter().filter(|&&x| x == 0).count(), 84 - 24);
    let mut cut = vec![0; 24];
    pixels::crop(&padded, size, inner, &mut cut).unwrap();
    assert_eq!(cut, image);
    let outside = Window { x: 4, ..inner };
    assert!(pixels::crop(&padded, size, outside, &mut cut).is_err());
}

#[test]
fn planes_become_pixels() {
    let mut out = [0; 6];
    pixels::planes_to_pixels(&[1, 2, 10, 20, 100, 200], Size::new(1, 2, 3), &mut out).unwrap();
    assert_eq!(out, [1, 10, 100, 2, 20, 200]);
}
