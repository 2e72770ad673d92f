//! Decoders compared with TensorFlow's on the files of `golden/decode.py`.

mod support;

use support::{base64, lines, numbers};
use thalweg_image::decode::{gif_frames, png_u16};
use thalweg_image::{Decoder, Image, ImageError, Limits, Size, Window, decode, encode, size_of};

/// One line of the golden file.
struct Case {
    name: String,
    file: Vec<u8>,
    channels: usize,
    window: Option<Window>,
    frames: bool,
    bits: u64,
    dims: Vec<usize>,
    /// Samples, or none where TensorFlow refuses the file.
    pixels: Option<Vec<u16>>,
}

fn cases(prefix: &str) -> Vec<Case> {
    let cases: Vec<Case> = lines("decode")
        .into_iter()
        .filter(|line| line["name"].as_str().unwrap().starts_with(prefix))
        .map(|line| {
            let bits = line["bits"].as_u64().unwrap();
            let pixels = line["pixels"].as_str().map(base64);
            Case {
                name: line["name"].as_str().unwrap().to_owned(),
                file: base64(line["file"].as_str().unwrap()),
                channels: line["channels"].as_u64().unwrap() as usize,
                window: line["window"].is_array().then(|| {
                    let window = numbers(&line["window"]);
                    Window {
                        y: window[0],
                        x: window[1],
                        height: window[2],
                        width: window[3],
                    }
                }),
                frames: line["frames"].as_bool().unwrap(),
                bits,
                dims: numbers(&line["dims"]),
                pixels: pixels.map(|bytes| match bits {
                    16 => bytes
                        .chunks_exact(2)
                        .map(|b| u16::from_le_bytes([b[0], b[1]]))
                        .collect(),
                    _ => bytes.into_iter().map(u16::from).collect(),
                }),
            }
        })
        .collect();
    assert!(!cases.is_empty(), "no case begins with {prefix}");
    cases
}

/// Dimensions and samples.
fn decoded(case: &Case) -> Result<(Vec<usize>, Vec<u16>), ImageError> {
    let wide = |pixels: Vec<u8>| pixels.into_iter().map(u16::from).collect();
    if case.frames {
        let frames = gif_frames(&case.file, &Limits::default())?;
        let size = frames.size;
        let dims = vec![frames.count, size.height, size.width, size.channels];
        return Ok((dims, wide(frames.pixels)));
    }
    if case.bits == 16 {
        let (size, pixels) = png_u16(&case.file, case.channels, &Limits::default())?;
        return Ok((vec![size.height, size.width, size.channels], pixels));
    }
    let (mut decoder, mut pixels) = (Decoder::default(), Vec::new());
    let size = match case.window {
        Some(window) => decoder.decode_window(&case.file, window, case.channels, &mut pixels)?,
        None => decoder.decode(&case.file, case.channels, &mut pixels)?,
    };
    Ok((vec![size.height, size.width, size.channels], wide(pixels)))
}

/// Largest difference from TensorFlow, and the share of samples that differ, over the cases of a prefix.
fn differences(prefix: &str, take: impl Fn(&Case) -> bool) -> (u16, f64) {
    let (mut largest, mut differing, mut all) = (0, 0, 0);
    for case in cases(prefix).into_iter().filter(take) {
        let found = decoded(&case);
        let Some(expected) = &case.pixels else {
            assert!(found.is_err(), "{}: {found:?}", case.name);
            continue;
        };
        let (dims, pixels) = found.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(dims, case.dims, "{}", case.name);
        let apart = pixels.iter().zip(expected).map(|(a, b)| a.abs_diff(*b));
        let most = apart.clone().max().unwrap();
        let count = apart.filter(|&d| d > 0).count();
        if std::env::var_os("DIFFERENCES").is_some() {
            println!("{}: {most}, {count} of {}", case.name, pixels.len());
        }
        largest = largest.max(most);
        differing += count;
        all += pixels.len();
    }
    (largest, differing as f64 / all as f64)
}

#[test]
fn png_bmp_and_gif_are_tensorflows_to_the_bit() {
    for prefix in ["png", "bmp", "gif"] {
        assert_eq!(differences(prefix, |_| true), (0, 0.0), "{prefix}");
    }
}

#[test]
fn jpeg_is_within_four_levels_of_tensorflow() {
    // TensorFlow's accurate DCT. The decoder in Rust rounds upsampling and colours in another way. TensorFlow does not
    // interpolate colours over the edge of a window, so windows are compared by another test.
    let (largest, share) = differences("jpeg", |case| case.window.is_none());
    let (most, most_differ) = match cfg!(feature = "turbojpeg") {
        true => (0, 0.0),
        false => (4, 0.2),
    };
    assert!(
        largest <= most && share <= most_differ,
        "{largest}, {share}"
    );
}

#[test]
fn a_window_is_a_part_of_the_image() {
    for case in cases("jpeg")
        .into_iter()
        .filter(|case| case.pixels.is_some())
    {
        let Some(window) = case.window else { continue };
        let whole = thalweg_image::decode(&case.file, 3).unwrap();
        let (_, pixels) = decoded(&case).unwrap();
        let line = |y: usize| {
            &whole.pixels[((window.y + y) * whole.width + window.x) * 3..][..window.width * 3]
        };
        let expected: Vec<u8> = (0..window.height).flat_map(line).copied().collect();
        let pixels: Vec<u8> = pixels.into_iter().map(|x| x as u8).collect();
        assert!(pixels == expected, "{}", case.name);
    }
}

#[test]
fn a_png_under_the_name_of_a_jpeg_decodes_by_its_bytes() {
    let image = Image::new(Size::new(1, 2, 3), vec![1, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(decode(&encode::png(&image).unwrap(), 3).unwrap(), image);
}

#[test]
fn sizes_come_from_headers_alone() {
    for case in cases("").iter().filter(|case| case.pixels.is_some()) {
        if case.channels != 0 || case.window.is_some() || case.frames {
            continue;
        }
        let size = size_of(&case.file).unwrap();
        assert_eq!(
            vec![size.height, size.width, size.channels],
            case.dims,
            "{}",
            case.name
        );
    }
}

/// The file of a case.
fn file(name: &str) -> Vec<u8> {
    cases(name).remove(0).file
}

#[test]
fn headers_of_bombs_are_errors() {
    let mut jpeg = file("jpeg_444_q90");
    let frame = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    assert!(matches!(decode(&jpeg, 0), Err(ImageError::TooLarge { .. })));
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0x20, 0, 0x20, 0]);
    assert!(matches!(decode(&jpeg, 0), Err(ImageError::TooShort { .. })));

    let mut png = file("png_rgb_0");
    // The checksum of the header does not fit any more, so this is an error in any case.
    png[16..24].copy_from_slice(&[0x7f; 8]);
    assert!(decode(&png, 0).is_err());

    let mut bmp = file("bmp_rgb");
    bmp[18..26].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]);
    assert!(matches!(decode(&bmp, 0), Err(ImageError::TooLarge { .. })));

    let mut gif = file("gif_one");
    gif[6..10].fill(0xff);
    assert!(matches!(decode(&gif, 0), Err(ImageError::TooLarge { .. })));
}

#[test]
fn a_limit_on_bytes_covers_all_frames() {
    let animation = file("gif_frames");
    let limits = Limits {
        bytes: 12 * 14 * 3,
        ..Limits::default()
    };
    let error = gif_frames(&animation, &limits).unwrap_err();
    assert!(error.to_string().contains("bytes in all frames"), "{error}");
}

#[test]
fn damaged_files_end_in_errors_or_pixels() {
    // A step of a linear congruential generator.
    let mut state = 1u64;
    let mut draw = |n: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let limits = Limits {
        pixels: 1 << 20,
        bytes: 1 << 22,
    };
    let mut decoder = Decoder::new(limits);
    let mut pixels = Vec::new();
    for case in cases("") {
        for _ in 0..12 {
            let mut file = case.file.clone();
            for _ in 0..=draw(4) {
                let at = draw(file.len());
                file[at] = draw(256) as u8;
            }
            if draw(4) == 0 {
                file.truncate(draw(file.len()));
            }
            let _ = decoder.decode(&file, 3, &mut pixels);
            let _ = gif_frames(&file, &limits);
        }
    }
}

#[test]
fn any_window_of_any_sampling_is_a_part_of_the_image() {
    let (height, width) = (150, 203);
    // Waves, so that interpolated colours differ from their neighbours'.
    let wave = |i: usize| {
        let (y, x, c) = (i / 3 / width, i / 3 % width, i % 3);
        let angle = (y * (3 + c) + x * (7 - c)) as f64 * 0.11;
        (128.0 + 100.0 * angle.sin()) as u8
    };
    let pixels: Vec<u8> = (0..height * width * 3).map(wave).collect();
    let mut numbers = 1u64;
    let mut below = |n: usize| {
        numbers = numbers.wrapping_mul(6364136223846793005).wrapping_add(1);
        (numbers >> 33) as usize % n
    };
    let mut decoder = Decoder::default();
    let (mut whole, mut part) = (Vec::new(), Vec::new());
    for file in files(&pixels, height, width) {
        decoder.decode(&file, 3, &mut whole).unwrap();
        for _ in 0..12 {
            let (y, x) = (below(height), below(width));
            let window = Window {
                y,
                x,
                height: 1 + below(height - y),
                width: 1 + below(width - x),
            };
            decoder.decode_window(&file, window, 3, &mut part).unwrap();
            for (line, found) in part.chunks_exact(window.width * 3).enumerate() {
                let from = ((y + line) * width + x) * 3;
                let expected = &whole[from..][..found.len()];
                assert!(found == expected, "{window:?}, line {line}");
            }
        }
    }
}

/// The image as JPEG files of all samplings; with restart markers, with several scans, progressive.
fn files(pixels: &[u8], height: usize, width: usize) -> Vec<Vec<u8>> {
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
    let samplings = [
        SamplingFactor::F_1_1,
        SamplingFactor::F_2_1,
        SamplingFactor::F_1_2,
        SamplingFactor::F_2_2,
        SamplingFactor::F_4_1,
        SamplingFactor::F_4_2,
        SamplingFactor::F_1_4,
        SamplingFactor::F_2_4,
    ];
    let mut files = Vec::new();
    for sampling in samplings {
        for (restarts, progressive) in [(0, false), (3, false), (0, true)] {
            let mut file = Vec::new();
            let mut encoder = Encoder::new(&mut file, 90);
            encoder.set_sampling_factor(sampling);
            encoder.set_restart_interval(restarts);
            encoder.set_progressive(progressive);
            encoder
                .encode(pixels, width as u16, height as u16, ColorType::Rgb)
                .unwrap();
            files.push(file);
        }
    }
    files
}
