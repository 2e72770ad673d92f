//! Image files: JPEG beside TensorFlow's pixels, encoders, errors, and crops at random places.

use std::io::{BufRead, BufReader};

use base64::Engine;
use serde_json::Value;
use thalweg::graph::NodeBuilder;
use thalweg::prelude::*;
use thalweg_tests::root;

/// The outputs of a node.
fn run(g: &Graph, node: NodeBuilder<'_>) -> Result<Vec<Tensor>, SessionError> {
    let outputs = g.operation(node.build().id()).outputs();
    Session::new(g)?.run(&outputs, [])
}

/// The cases of the crate for images whose names begin with a prefix.
fn cases(prefix: &str) -> Vec<Value> {
    let path = root().join("crates/image/tests/golden/decode.jsonl.gz");
    let file = flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap());
    let lines = BufReader::new(file).lines();
    let all = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    all.filter(|case| case["name"].as_str().unwrap().starts_with(prefix))
        .collect()
}

fn bytes(case: &Value, key: &str) -> Vec<u8> {
    let text = case[key].as_str().unwrap();
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap()
}

/// A scalar of bytes.
fn string(bytes: &[u8]) -> Tensor {
    Tensor::strings(&[], &[bytes]).unwrap()
}

fn file(name: &str) -> Tensor {
    string(&bytes(&cases(name)[0], "file"))
}

/// Largest difference between the pixels of an image and the expected ones.
fn apart(image: &Tensor, expected: &[u8]) -> u8 {
    let pixels = image.as_slice::<u8>().unwrap();
    assert_eq!(pixels.len(), expected.len());
    let pairs = pixels.iter().zip(expected);
    pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

#[test]
fn jpeg_files_are_within_four_levels_of_tensorflow() {
    for case in cases("jpeg") {
        let g = Graph::new();
        let contents = g.constant(string(&bytes(&case, "file")));
        let channels = case["channels"].as_i64().unwrap();
        let window = case["window"].as_array();
        let node = match window {
            None => g.op("DecodeJpeg").input(contents),
            Some(window) => {
                let window: Vec<i32> = window.iter().map(|n| n.as_i64().unwrap() as i32).collect();
                let node = g.op("DecodeAndCropJpeg").input(contents);
                node.input(g.constant(&*window))
            }
        };
        let found = run(&g, node.attr("channels", channels));
        if case["pixels"].is_null() {
            assert!(found.is_err(), "{}", case["name"]);
            continue;
        }
        let image = &found.unwrap()[0];
        let dims = case["dims"].as_array().unwrap();
        let dims: Vec<usize> = dims.iter().map(|n| n.as_u64().unwrap() as usize).collect();
        assert_eq!(image.dims(), dims, "{}", case["name"]);
        // TensorFlow does not interpolate colours over the edge of a window.
        if window.is_none() {
            let apart = apart(image, &bytes(&case, "pixels"));
            assert!(apart <= 4, "{}: {apart}", case["name"]);
        }
    }
}

#[test]
fn encoded_images_decode_again() {
    let g = Graph::new();
    let pixels: Vec<u8> = (0..20 * 30 * 3).map(|i| (i / 9 % 256) as u8).collect();
    let image = g.constant(Tensor::new(&[20, 30, 3], &pixels).unwrap());
    let png = g.op("EncodePng").input(image).output();
    let from_png = g.op("DecodePng").input(png);
    assert_eq!(apart(&run(&g, from_png).unwrap()[0], &pixels), 0);
    let jpeg = g.op("EncodeJpeg").input(image).attr("quality", 98i64);
    let jpeg = jpeg.attr("chroma_downsampling", false).output();
    let from_jpeg = g.op("DecodeJpeg").input(jpeg);
    assert!(apart(&run(&g, from_jpeg).unwrap()[0], &pixels) < 24);
}

#[test]
fn a_batch_of_images_becomes_a_file_for_each() {
    let g = Graph::new();
    let images = g.constant(Tensor::new(&[2, 3, 1, 1, 1], &[1u16, 2, 3, 4, 5, 600]).unwrap());
    let files = g.op("EncodePng").input(images).output();
    assert_eq!(files.shape(), Shape::from([2, 3]));
    let found = run(&g, g.op("Identity").input(files)).unwrap();
    let last = found[0].as_strings().unwrap()[5].to_vec();
    let last = g.constant(string(&last));
    let decode = g.op("DecodePng").input(last).attr("dtype", DType::U16);
    assert_eq!(
        run(&g, decode).unwrap()[0].as_slice::<u16>().unwrap(),
        [600]
    );
}

#[test]
fn files_of_another_format_name_the_op_that_takes_them() {
    let error = |op: &str, name: &str, channels: i64| {
        let g = Graph::new();
        let contents = g.constant(file(name));
        let node = g.op(op).input(contents);
        let node = match channels {
            0 => node,
            n => node.attr("channels", n),
        };
        run(&g, node).unwrap_err().to_string()
    };
    let text = error("DecodeJpeg", "bmp_rgb", 0);
    assert!(
        text.contains("a BMP file, which this op does not decode: use DecodeImage"),
        "{text}"
    );
    let text = error("DecodePng", "gif_frames", 0);
    assert!(
        text.contains("the GIF has 2 frames: use DecodeGif"),
        "{text}"
    );
    let text = error("DecodeImage", "gif_frames", 1);
    assert!(
        text.contains("a GIF image has 3 channels, and not 1"),
        "{text}"
    );
    let text = error("DecodePng", "png_rgb_0", 2);
    assert!(
        text.contains("channels is 2, but must be 0 (as in the file), 1, 3 or 4"),
        "{text}"
    );

    let g = Graph::new();
    let text = g.constant(Tensor::from("no image"));
    let error = run(&g, g.op("DecodeImage").input(text)).unwrap_err();
    assert!(
        error.to_string().contains("the bytes are no image"),
        "{error}"
    );
    let contents = g.constant(file("jpeg_444_q90"));
    let node = g.op("DecodeJpeg").input(contents).attr("ratio", 2i64);
    let error = run(&g, node).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("ratio is 2, but only 1 is supported"),
        "{error}"
    );
}

#[test]
fn a_random_crop_is_a_window_of_the_image() {
    let g = Graph::new();
    let all: Vec<i32> = (0..6 * 7).collect();
    let image = g.constant(Tensor::new(&[6, 7, 1], &all).unwrap());
    let size = g.constant([2i64, 3]);
    let node = g.op("RandomCrop").input(image).input(size);
    let crop = node.attr("seed", 5i64).attr("seed2", 6i64).output();
    assert_eq!(crop.shape(), Shape::from([2, 3, 1]));
    let session = Session::new(&g).unwrap();
    let mut starts = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let found = session.run::<Tensor>(crop, []).unwrap();
        let found = found.as_slice::<i32>().unwrap();
        let start = found[0];
        assert_eq!(found, [0, 1, 2, 7, 8, 9].map(|i| start + i));
        assert!(start / 7 <= 4 && start % 7 <= 4);
        starts.insert(start);
    }
    assert!(starts.len() > 20, "{starts:?}");
    let large = g.constant([7i64, 3]);
    assert!(
        g.op("RandomCrop")
            .input(image)
            .input(large)
            .build()
            .is_invalid()
    );
}
